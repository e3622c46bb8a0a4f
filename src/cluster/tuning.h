// SPDX-License-Identifier: Apache-2.0
// The times and limits of a cluster that an operator may set. Every node should have the same ones,
// so a member's record has them as a text, and each node compares.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define TUNING_LEASE_MIN_MS 1000
#define TUNING_LEASE_MAX_MS 300000
#define TUNING_TEXT_MAX     160
#define TUNING_DIFFERS_MAX  200

struct cluster_config;

struct tuning {
    int64_t lease_ms;          // 0: the service's
    int64_t observe_ms;        // before the first election; 0: the lease
    int64_t cool_down_ms;      // before a smaller name leads; 0: six leases
    uint32_t moves;            // of shards in one round; 0: by the number of shards
    int64_t move_pause_ms;     // between rounds; 0: 2 s
    int64_t move_cool_down_ms; // of a shard that was moved; 0: 60 s
};

// What a node with this lease goes by: defaults take the place of zeros.
struct tuning tuning_with(const struct tuning *t, int64_t lease_ms);
void tuning_apply(const struct tuning *t, struct cluster_config *c);
// Writes "lease=5s observe=5s coolDown=30s moves=auto movePause=2s moveCoolDown=1m".
void tuning_print(const struct tuning *t, char out[static TUNING_TEXT_MAX]);
// Compares two such texts, each from any release. Writes the first setting that both have with
// different values, as "lease=5s and lease=15s". Returns false if there is none.
bool tuning_differs(const char *a, const char *b, char out[static TUNING_DIFFERS_MAX]);
