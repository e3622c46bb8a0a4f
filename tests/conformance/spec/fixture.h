// SPDX-License-Identifier: Apache-2.0
// A queue on a store, with the library's public calls and the real time, for the programs that name
// the store and how their handles reach it. A store in memory has one process, so there it is
// always a node.
#pragma once

#include "../../unit/unit.h"
#include "../store/support.h"
#include "os/clock.h"
#include "server/server.h"

#include <stdio.h>
#include <string.h>

#define QUEUE       "jobs"
#define PATIENCE_MS 60000
#define URL_MAX     512

struct fixture {
    char url[URL_MAX]; // of the store; "": it is in memory
    char dir[SCRATCH_MAX];
    struct sluice *store; // of the node; NULL: there is none
    struct server *server;
    struct sluice *other_store; // of a second node
    struct server *other;
    struct sluice *mine, *theirs; // two processes
};

// way: "direct", the handles open the store; "owner", the same beside a node that owns the queue;
// "node", they know only the URL of a node.
void fixture_choose(const char *backend, const char *way);
bool fixture_is_memory(void);
bool fixture_through_node(void);
// A queue with the newest rules. owner: a node owns it, whatever the way.
struct fixture *fixture_open(bool owner, const struct sluice_setting *settings, size_t len);
void fixture_close(struct fixture *p);
// A second node of the same store, and a handle that knows only it.
struct sluice *fixture_second_node(struct fixture *p);
void fixture_stop_node(struct fixture *p); // the first one

// A row of tests whose title is a sentence.
#define TITLED(title, test)                                                                        \
    {                                                                                              \
        .name = title, .test_func = test                                                           \
    }

#define FINE(call)                                                                                 \
    do {                                                                                           \
        struct sluice_error error = {.message = ""};                                               \
        if (call) fail_msg("%s: %s", #call, error.message);                                        \
    } while (0)

#define REFUSED(code, why, call)                                                                   \
    do {                                                                                           \
        struct sluice_error error = {.message = ""};                                               \
        assert_int_equal(call, code);                                                              \
        assert_string_equal(error.reason, why);                                                    \
    } while (0)

#define UNTIL(condition)                                                                           \
    do {                                                                                           \
        int64_t end = clock_boot_ms() + PATIENCE_MS;                                               \
        while (!(condition)) {                                                                     \
            if (clock_boot_ms() > end) fail_msg("never: %s", #condition);                          \
            clock_sleep(20);                                                                       \
        }                                                                                          \
    } while (0)
