// SPDX-License-Identifier: Apache-2.0
// The contract of store.h, told once and run unchanged against every backend. A test is handed an
// empty store and nothing that says which one it is.
#pragma once

#include "support.h"

#define LOG "q/id/0/log"

struct world {
    char dir[SCRATCH_MAX];
    struct store *store;
    struct store_answer a;
    // One object per slot and nothing that is a folder: where store.h lets a bucket be different,
    // the tests do too.
    bool bucket;
};

struct contract_test {
    const char *name;
    void (*run)(void **state); // *state is a struct world
};

#define CONTRACT_TEST(name)                                                                        \
    {                                                                                              \
#name, name                                                                                \
    }

// Runs every test against every backend, or against the bucket where there is one; the answer is
// main's.
int contract_run(const char *group, const struct contract_test *tests, size_t count);

void put(struct world *w, const char *key, const char *text);
void holds(struct world *w, const char *key, const char *text);
// The keys that a list answers, joined by spaces.
void lists(struct world *w, const char *prefix, const char *after, size_t limit, bool more,
           const char *want);

void append_slots(struct world *w, uint64_t first, uint64_t last); // bodies that depend on the slot
void row_is_slot(struct world *w, size_t row, uint64_t slot);
uint64_t read_on(struct world *w, uint64_t first,
                 size_t bytes_max); // to the end; the slot after it
