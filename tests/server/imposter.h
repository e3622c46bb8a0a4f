// SPDX-License-Identifier: Apache-2.0
// Something that listens where a node should, and remembers what it was told.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum manner {
    SILENT,          // hears, and never answers
    ANY_NODE,        // says that it is the node "one"
    LIES,            // ... and proves it with a proof of its own
    STALLS,          // to what is not /healthz: a head, and half a body
    TRICKLES,        // ... a byte of it now and then
    RESETS,          // ... and resets the connection
    UNHEARING,       // does not even read
    UNHEARING_LATER, // ... once it was asked for something else than /healthz
};

struct imposter;

struct imposter *imposter_start(const char *address, enum manner manner); // "127.0.0.1:0": any port
const char *imposter_url(const struct imposter *s);
bool imposter_heard(struct imposter *s, const char *text);
size_t imposter_count(struct imposter *s, const char *text); // how often it heard the text
void imposter_stop(struct imposter *s);
