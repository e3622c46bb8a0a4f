// SPDX-License-Identifier: Apache-2.0
// The page of a log's lock file, mapped by every process that uses the log. It says how far the log
// is durable: slots under tail.next exist, nothing else does. Only the holder of the lock writes
// it; anybody reads it at any moment, and a holder may be killed between any two stores.
//
// The tail is therefore kept twice: the copy that `turn` does not point at is filled, then turn
// moves on.
//
// The page is worth nothing after a reboot (it carries the boot's id), but for this: what it then
// says was durable once.
#pragma once

#include "os/clock.h"

#include <stdatomic.h>
#include <stdint.h>

#define LOG_PAGE_LEN 4096

struct log_tail {
    uint64_t next;       // the slot to be written next
    uint64_t segment;    // the first slot of the current segment; 0: there is none yet
    uint64_t generation; // which copy of that segment counts
    uint64_t offset;     // where in it the next record goes: the durable mark
    int64_t time_ms;     // of the last slot
};

struct log_page {
    _Atomic uint64_t version;
    _Atomic uint64_t boot[2];
    _Atomic uint64_t turn; // tails[turn % 2] counts
    struct {
        _Atomic uint64_t word[5];
        _Atomic uint64_t check;
    } tails[2];
    _Atomic uint64_t busy_end; // a write is under way from the mark up to here; 0: none
    _Atomic uint64_t poisoned; // a sync of the current segment failed
    _Atomic uint32_t wake;     // the futex: counts publications
};

struct log_tail log_page_tail(struct log_page *p);
void log_page_publish(struct log_page *p, const struct log_tail *t); // and wakes who waits
// The highest slot number that any intact copy of the tail holds: from before a reboot, a lower
// bound.
uint64_t log_page_next_proved(struct log_page *p);

bool log_page_current(struct log_page *p, const uint8_t boot[BOOT_ID_LEN]);
void log_page_start(struct log_page *p, const uint8_t boot[BOOT_ID_LEN]);
