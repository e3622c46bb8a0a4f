// SPDX-License-Identifier: Apache-2.0
// The contract of coord.h, told once and run unchanged against every backend. A test is handed an
// empty world and nothing that says which backend it is.
//
// The servers come from the environment (tests/servers/with-coord): SLUICE_TEST_COORD is the URL of
// a backend. With it, the tests run against that backend alone. With SLUICE_TEST_S3 they run on
// `store:` in a bucket.
#pragma once

#include "coord/coord.h"
#include "support.h"

#define HANDLES_MAX 12
#define LONG_MS     20000 // a lease that no noise of the machine ends
#define SHORT_MS    2000  // one whose end a test waits for

struct store;
struct backend;
struct world {
    const struct backend *backend;
    int64_t lease_ms; // of the handles opened from now on
    int64_t timeout_ms;
    struct coord *handles[HANDLES_MAX];
    size_t handles_len;
    struct coord_answer a;
    char dir[SCRATCH_MAX];
    struct store *store;
    char url[512];
};

struct coord_test {
    const char *name;
    void (*run)(void **state); // *state is a struct world
};
#define COORD_TEST(name)                                                                           \
    {                                                                                              \
#name, name                                                                                \
    }
// Runs every test against every backend, or against the server where there is one.
int coord_tests_run(const char *group, const struct coord_test *tests, size_t count);

int world_setup(void **state); // *state is a struct backend
int world_teardown(void **state);
struct coord *node_open(struct world *w); // a further handle; the world frees it
struct coord_member member_of(const char *name, const char *incarnation);
// These must succeed.
void joins(struct world *w, struct coord *c, const char *name);
uint64_t claims(struct world *w, struct coord *c, const char *shard, uint64_t after);
uint64_t leads(struct world *w, struct coord *c, uint64_t after);
void lists_members(struct world *w, struct coord *c, const char *want); // names, joined by spaces
// Waits until the session that no handle renews has ended for others. `other` is kept alive.
void wait_until_gone(struct world *w, struct coord *other, const char *name);
bool in_memory(const struct world *w);
const char *server_url(void); // NULL: no server
// A word to the launcher of the servers; returns its number, or fails. (tests/servers/with-coord)
int control(const char *format, ...) __attribute__((format(printf, 1, 2)));
size_t server_count(void);
