// SPDX-License-Identifier: Apache-2.0
// The coordination port: which nodes are there, which of them leads, and which owns a shard. Every
// backend keeps this contract and passes the same conformance suite (tests/conformance/coord/).
//
// A handle is one node. coord_join gives it a session, which ends by itself when no heartbeat
// renews it for the length of the lease. The session carries everything that the node holds: its
// name, the leader's lease and its claims. When the session ends, all of them are free.
//
// clang-format off
//     none --join--> joined --heartbeat--> joined --leave--> none
//                      | the lease ended (NOT_FOUND), or another incarnation of the name (FENCED)
//                      v
//                     none
// clang-format on
//
// A claim has a token, and so has the leader's lease (its epoch). Within one backend the tokens of
// one shard only rise: a new token is greater than every earlier one and than `after`, the token
// that the caller knows from the journal. So a backend that was restored from a backup still gives
// a token that the journal accepts. Tokens, not leases, make the system safe: a node that is late
// is refused by the journal.
//
// Each call returns exactly one of:
//   ERR_OK           done
//   ERR_CONFLICT     another live node has the name, the lease or the shard; answer.holder says
//                    which one
//   ERR_NOT_FOUND    this handle has no session, or it has ended (join again); for coord_watch:
//                    nothing changed; for the reads of a claim: none is held
//   ERR_FENCED       a newer claim exists, or another incarnation has taken the name; stop
//   ERR_UNAVAILABLE  certainly not applied, now or later
//   ERR_UNKNOWN      perhaps applied, perhaps applied later; reads never return this
//   ERR_DENIED       the service refuses the credentials or permissions, or no trusted authority
//                    has signed its certificate
//   ERR_LIMIT        refused: a size or space limit, certainly not applied
//   ERR_INVALID      the call itself is malformed
//   ERR_CORRUPT      the service is another one (its coordination id changed), or what it stores
//                    cannot be read
// Except for ERR_OK and a watch's ERR_NOT_FOUND, answer.why has one sentence.
//
// Every call may be repeated: a join, claim or release that was applied already returns ERR_OK.
// Calls block, may be made from any thread, and borrow their arguments.
#pragma once

#include "base/bytes.h"
#include "base/cost.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

#define COORD_ID_LEN          16
#define COORD_INCARNATION_LEN 32 // a SHA-256
#define COORD_NAME_MAX        128
#define COORD_URL_MAX         255
#define COORD_VERSION_MAX     31
#define COORD_SHARD_MAX       200
#define COORD_SETTINGS_MAX    159 // of the text of a member's settings
#define COORD_TOKEN_MAX       ((uint64_t)INT64_MAX - 1)
#define COORD_STORE_LEN       16 // bytes of a store's id
#define COORD_MEMBERS_MAX     1000
#define COORD_WHY_MAX         240
#define COORD_LEASE_MS        5000
#define COORD_LEASE_HIGH_MS   15000 // on a high-latency store
#define COORD_LONE_MS         60000 // a lone node on `store:` lists the members so often

struct coord;

// What other nodes may know of a node. The incarnation itself is a secret: it proves the identity
// of the node. Only its SHA-256 is stored (coord_incarnation).
struct coord_member {
    char name[COORD_NAME_MAX + 1]; // [A-Za-z0-9][A-Za-z0-9_.-]*
    char url[COORD_URL_MAX + 1];
    uint32_t capacity;
    uint32_t rules_lo, rules_hi;         // versions of the fold's rules that the node can fold
    char version[COORD_VERSION_MAX + 1]; // of the program
    // What the node goes by (cluster/tuning.h); "": it does not tell. Plain text.
    char settings[COORD_SETTINGS_MAX + 1];
    uint8_t incarnation[COORD_INCARNATION_LEN];
    uint8_t store[COORD_STORE_LEN]; // the id of its store
    bool leaving;                   // it gives its shards away
    bool beats; // set by `store:`: it knows of other members, so it sends heartbeats
    // Set by list, watch and heartbeat: the time since its last sign of life. 0 if the service does
    // not tell, and for a lone node, which gives none.
    int64_t age_ms;
    bool silent; // set by `store:`: perhaps a lone node, so nothing shows whether it lives
};
// Returns whether their stores are two.
bool coord_is_foreign(const struct coord_member *a, const struct coord_member *b);
void coord_incarnation(struct bytes secret, uint8_t out[static COORD_INCARNATION_LEN]);

// The node that holds a claim or the leader's lease.
struct coord_holder {
    char name[COORD_NAME_MAX + 1]; // empty: no node
    uint8_t incarnation[COORD_INCARNATION_LEN];
    uint64_t token;
};

// The results of a call. Init it once, pass it to any number of calls (each clears it), release it
// at the end.
struct coord_answer {
    uint64_t token;             // claim, renew: the token or epoch
    struct coord_holder holder; // the present holder; for a refused join: of the name
    // list, watch and heartbeat: the live members by name, the leader, and where a watch resumes.
    struct coord_member *members;
    size_t members_len;
    size_t members_cap;
    struct coord_holder leader;
    uint64_t at;
    uint64_t plan_epoch, plan_number; // the version of the published plan; 0: none
    // join and heartbeat: call coord_heartbeat again after next_ms. The session is surely held
    // until until_ms (clock_boot_ms). A node that has not renewed it by then must stop.
    int64_t next_ms;
    int64_t until_ms;
    int64_t lease_ms; // the length of the lease that the service granted
    struct cost cost; // requests to the store; 0 for other backends
    char why[COORD_WHY_MAX];
};
void coord_answer_init(struct coord_answer *a);
void coord_answer_done(struct coord_answer *a);

// Adds this node. The handle then has a session. If another live incarnation has the name, the
// call returns ERR_CONFLICT; with `replace` it ends the session of that incarnation instead. A
// repeated join changes the record, for example when the node begins to leave.
MUST_USE enum err coord_join(struct coord *c, const struct coord_member *member, bool replace,
                             struct coord_answer *a);
// Renews the session. The answer has the members where the backend learns them at no extra cost
// (a->at is not 0).
MUST_USE enum err coord_heartbeat(struct coord *c, struct coord_answer *a);
// Ends the session. Everything that the node holds is free at once.
MUST_USE enum err coord_leave(struct coord *c, struct coord_answer *a);

// The live members and the leader. Needs no session.
MUST_USE enum err coord_list(struct coord *c, struct coord_answer *a);
// Reports whether a silent member answers at its URL. If it does not, it has one lease from now to
// give a sign of life. Other services end its session by themselves.
void coord_answers(struct coord *c, const struct coord_member *member, bool answers);
// Waits until the members or the leader are not those of `at` any more, or wait_ms passed
// (ERR_NOT_FOUND). The answer is that of coord_list. ERR_OK may come without a change: compare. An
// `at` from before an outage or of another handle is fine; 0 returns at once.
MUST_USE enum err coord_watch(struct coord *c, uint64_t at, int64_t wait_ms,
                              struct coord_answer *a);

// The leader's lease. Its token is the epoch. All but observe need a session.
MUST_USE enum err coord_lead(struct coord *c, uint64_t after, struct coord_answer *a);
MUST_USE enum err coord_lead_renew(struct coord *c, uint64_t epoch, struct coord_answer *a);
MUST_USE enum err coord_resign(struct coord *c, uint64_t epoch, struct coord_answer *a);
MUST_USE enum err coord_observe(struct coord *c, struct coord_answer *a); // sets holder

// The claim of a shard. `shard` is parts of A-Z a-z 0-9 _ . - joined by '/'. A node that holds the
// claim already gets its token again, if that is greater than `after`, else a new one.
MUST_USE enum err coord_claim(struct coord *c, const char *shard, uint64_t after,
                              struct coord_answer *a);
// Renews the session, and checks that it still holds this claim. coord_heartbeat renews all
// claims at once, without this check.
MUST_USE enum err coord_claim_renew(struct coord *c, const char *shard, uint64_t token,
                                    struct coord_answer *a);
MUST_USE enum err coord_release(struct coord *c, const char *shard, uint64_t token,
                                struct coord_answer *a);
// Checks that this token is held now, by any node. ERR_FENCED: a newer token was given.
// ERR_NOT_FOUND: the holder has released it, or its session has ended.
MUST_USE enum err coord_validate(struct coord *c, const char *shard, uint64_t token,
                                 struct coord_answer *a);

// The plan of the leader: bytes with a version, which is the leader's epoch and a number. Plans of
// a later epoch are newer. Only a newer plan is written, so a former leader cannot replace the plan
// of its successor. ERR_CONFLICT: the plan in the service is not older. A repeated write of the
// same version returns ERR_OK or ERR_CONFLICT.
#define COORD_PLAN_MAX ((size_t)1 << 20) // bytes; Consul takes half of it
MUST_USE enum err coord_plan_write(struct coord *c, uint64_t epoch, uint64_t number,
                                   struct bytes plan, struct coord_answer *a);
// Replaces the contents of `out`. The answer has the version. ERR_NOT_FOUND: there is none.
MUST_USE enum err coord_plan_read(struct coord *c, struct buf *out, struct coord_answer *a);

// The id of the service that numbers the tokens. All zeros for `store:`.
void coord_id(const struct coord *c, uint8_t out[static COORD_ID_LEN]);
int64_t coord_lease_ms(const struct coord *c);    // that a join asks for
const char *coord_backend(const struct coord *c); // "store", "etcd" or "consul"
void coord_free(struct coord *c); // accepts NULL; does not leave; no call may be under way

struct store;
struct coord_config {
    int64_t lease_ms;     // 0: COORD_LEASE_MS, or COORD_LEASE_HIGH_MS on a high-latency store
    int64_t timeout_ms;   // of each call but coord_watch; 0: the lease, at most 5 s
    int64_t lone_ms;      // `store:`; 0: COORD_LONE_MS
    struct store *store;  // for `store:`; borrowed
    const uint8_t *id;    // COORD_ID_LEN bytes: refuse a service with another id; NULL: accept any
    const char *user;     // etcd; NULL: no authentication
    const char *password; // etcd
    const char *token;    // Consul's ACL token; NULL: the anonymous one
    const char *ca_file;  // of the +tls schemes; NULL: the system's authorities
};
// Opens the backend that the URL names (schemes.c). May ask the service for its id. On another
// result than ERR_OK, why has one sentence.
MUST_USE enum err coord_open(const char *url, const struct coord_config *config, struct coord **out,
                             char why[static COORD_WHY_MAX]);
// Checks the form of a URL; it opens nothing. Returns ERR_OK or ERR_INVALID.
MUST_USE enum err coord_check_url(const char *url, char why[static COORD_WHY_MAX]);
