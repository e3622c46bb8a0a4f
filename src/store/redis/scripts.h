// SPDX-License-Identifier: Apache-2.0
// The scripts that run in the server, one per call of the store. Each reads the server's TIME
// together with what it reads or writes. docs/redis.md lists the keys.
#pragma once

enum redis_script {
    SCRIPT_APPEND,  // KEYS log, meta; ARGV slot, slot - 1, body
    SCRIPT_READ,    // KEYS log; ARGV slot, bytes
    SCRIPT_TAIL,    // KEYS log, meta
    SCRIPT_EXTENTS, // KEYS log; ARGV first slot, rows
    SCRIPT_DROP,    // KEYS log; ARGV first, last, last + 1
    SCRIPT_PUT,     // KEYS object, index, folders...; ARGV "new" or "any", name, body
    SCRIPT_GET,     // KEYS object; ARGV first byte, last byte
    SCRIPT_LIST,    // KEYS index; ARGV base, least, most, rows
    SCRIPT_DELETE,  // KEYS index, objects...; ARGV names...
    SCRIPT_ACCESS,  // KEYS a string, a sorted set, a hash, a stream: all are deleted again
    SCRIPTS,
};

const char *redis_script_text(enum redis_script s);
