// SPDX-License-Identifier: Apache-2.0
// For backends of the coordination port. The calls of coord.h have checked their arguments and
// cleared the answer.
#pragma once

#include "coord/coord.h"
#include "os/fork_guard.h"

#include <pthread.h>

#define COORD_LEADER     "live/leader" // the `what` of the leader's lease
#define COORD_OWN        "own/"        // before a shard
#define COORD_WHAT_MAX   (sizeof COORD_OWN + COORD_SHARD_MAX)
#define COORD_RECORD_MAX ((size_t)4096) // of a member's or a holder's record

// The leader's lease is a claim like those of shards. `what` is COORD_LEADER, or COORD_OWN and a
// shard. A release needs a session that holds the token; without one there is nothing to release.
struct coord_ops {
    const char *name;
    enum err (*join)(struct coord *c, const struct coord_member *m, bool replace,
                     struct coord_answer *a);
    enum err (*heartbeat)(struct coord *c, struct coord_answer *a);
    enum err (*leave)(struct coord *c, struct coord_answer *a);
    enum err (*list)(struct coord *c, struct coord_answer *a);
    void (*answers)(struct coord *c, const struct coord_member *m, bool answers); // may be NULL
    enum err (*watch)(struct coord *c, uint64_t at, int64_t wait_ms, struct coord_answer *a);
    enum err (*claim)(struct coord *c, const char *what, uint64_t after, struct coord_answer *a);
    enum err (*release)(struct coord *c, const char *what, uint64_t token, struct coord_answer *a);
    // Sets a->holder to the live holder. ERR_NOT_FOUND: none; a->token is then the last token.
    enum err (*read)(struct coord *c, const char *what, struct coord_answer *a);
    // The arguments of coord_plan_write are checked. plan_read clears nothing and appends.
    enum err (*plan_write)(struct coord *c, uint64_t epoch, uint64_t number, struct bytes plan,
                           struct coord_answer *a);
    enum err (*plan_read)(struct coord *c, struct buf *out, struct coord_answer *a);
    void (*free)(struct coord *c);
};

struct coord {
    const struct coord_ops *ops;
    struct fork_guard guard;
    uint8_t id[COORD_ID_LEN];
    int64_t lease_ms;
    int64_t timeout_ms;
    // A release of this session is unknown and may still be applied: a claim that is held already
    // must get a new token.
    _Atomic bool release_doubt;
    pthread_mutex_t self_lock; // guards self
    struct coord_member self;  // of the last coord_join
};

// lease_ms: the backend's default.
void coord_init(struct coord *c, const struct coord_ops *ops, const struct coord_config *config,
                int64_t lease_ms);

__attribute__((format(printf, 3, 4))) enum err coord_refuse(struct coord_answer *a, enum err e,
                                                            const char *format, ...);
enum err coord_refuse_session(struct coord_answer *a); // ERR_NOT_FOUND: there is no session
enum err coord_refuse_lapsed(struct coord_answer *a, int64_t lease_ms);
// These read a->holder.
enum err coord_refuse_name(struct coord_answer *a, const char *name, const char *url);
enum err coord_refuse_held(struct coord_answer *a, const char *what);
enum err coord_refuse_replaced(struct coord_answer *a, const char *name);
struct coord_member *coord_answer_member(struct coord_answer *a); // appends one
void coord_answer_sort(struct coord_answer *a);                   // members by name
void coord_holder_of(struct coord_holder *h, const struct coord_member *m, uint64_t token);
bool coord_same_node(const struct coord_holder *h, const struct coord_member *m);
// Compares versions of plans: 0 if both are the same, negative if the first is older.
int coord_plan_compare(uint64_t epoch, uint64_t number, uint64_t epoch2, uint64_t number2);
enum err coord_refuse_plan(struct coord_answer *a, uint64_t epoch, uint64_t number); // a newer one
// The token after both; 0: none is left.
uint64_t coord_token_after(uint64_t last, uint64_t after);
enum err coord_refuse_id(char why[static COORD_WHY_MAX], const char *service,
                         const uint8_t found[static COORD_ID_LEN],
                         const uint8_t want[static COORD_ID_LEN]);
