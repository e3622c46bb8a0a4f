// SPDX-License-Identifier: Apache-2.0
// Coordination by the store alone. Its objects, all under "coord/":
//
//   live/member/<name>/<n, 20 digits>   the record of the n-th incarnation of a node. A heartbeat
//                                       overwrites it, so its modification time is the heartbeat.
//                                       Empty: the node has left.
//   live/leader/<epoch, 20 digits>      the holder of the leader's lease. Empty: it has resigned.
//   live/plan/<epoch>.<number>          a plan; both numbers have 20 digits.
//   own/<shard>/<token, 20 digits>      the same as leader/ for a shard.
//
// put_new creates each number once, so it has one creator. The highest number counts. Lower ones
// are deleted, and the highest one never is. A reader that was slow can therefore create a number
// that was deleted: after put_new, a list must show it as the highest.
//
// One list of "coord/live/" shows members, heartbeats and the leader. A record is read once per
// number and size: its bytes change only when the node begins to leave.
//
// A lone node sends no heartbeats and lists once per lone_ms. So a node that sees a silent member
// for the first time gives it lone_ms and a lease to notice (row_is_live). The record of a node
// that knows of others says that it beats. Such a node is given a lease alone. So is a silent node
// that did not answer at its URL (coord_answers), from that moment on.
#pragma once

#include "coord/backend.h"
#include "coord/record.h"
#include "store/store.h"

#define COORD_KEYS    "coord/"
#define LIVE_KEYS     COORD_KEYS "live/"
#define MEMBER_KEYS   LIVE_KEYS "member/"
#define PLAN_KEYS     LIVE_KEYS "plan/"
#define NUMBER_DIGITS 20
#define FORGET_MS     ((int64_t)24 * 3600 * 1000) // objects of members that are gone
#define TRIES         3                           // of a write whose result is not known

// A row of the list: a member's newest number.
struct view_row {
    char name[COORD_NAME_MAX + 1];
    uint64_t number;
    uint64_t size; // 0: it has left
    struct interval modified;
    int64_t age_ms;     // since its last heartbeat
    int64_t doubted_at; // store time: it did not answer; TIME_NEVER: it did, or was not asked
    bool live;
    bool silent; // it gives no signs of life, because it may be alone
    bool known;  // record is set
    struct coord_member record;
};

// What one list showed.
struct view {
    struct view_row *rows; // by name
    size_t rows_len, rows_cap;
    struct interval time;   // store time of the list
    struct interval newest; // the latest heartbeat of all members
    int64_t began_ms;       // clock_boot_ms
    uint64_t epoch;         // highest number of the leader; 0: none
    bool resigned;
    struct holder_record leader;      // zeros: none is live
    uint64_t plan_epoch, plan_number; // the newest plan; 0: none
    char plans[8][STORE_KEY_MAX + 1]; // the keys of older plans
    size_t plans_len;
};

struct store_coord {
    struct coord base;
    struct store *store; // borrowed
    int64_t lone_ms;
    pthread_mutex_t lock; // guards the fields below
    pthread_cond_t changed;
    struct coord_member self;
    uint64_t number;       // of the session; 0: none
    uint64_t ended;        // of the last session that lapsed; 0: none
    int64_t until_ms;      // clock_boot_ms: the session is held until then
    bool company;          // the last list showed another live member
    bool beats;            // the record that was written last says so
    struct interval since; // store time from which members can have seen this handle
    bool since_known;
    struct view_row *records; // the records that were read
    size_t records_len, records_cap;
    struct holder_record leader; // the leader's record that was read last
    struct coord_answer last;    // of the newest list
    int64_t last_time;           // its store time at the latest; TIME_NEVER: not known
    int64_t last_began_ms;
};

struct store_coord *store_coord_of(struct coord *c);

void plan_key(char key[STORE_KEY_MAX + 1], uint64_t epoch, uint64_t number);
void view_init(struct view *v);
void view_done(struct view *v);
// Lists, decides which members live, reads new records, and wakes watches.
MUST_USE enum err view_read(struct store_coord *s, struct view *v, struct coord_answer *a);
const struct view_row *view_find(const struct view *v, const char *name);
// Returns whether the session that a record names is alive.
bool view_holds(const struct view *v, const struct holder_record *h);
void view_tell(const struct view *v, struct coord_answer *a);

// Runs a store call, adds its cost, and translates its error for a read or a write.
enum err store_said(struct coord_answer *a, const struct store_answer *sa, enum err e);
// Creates the object with put_new, and repeats while the result is not known. ERR_OK: it holds
// these bytes. ERR_CONFLICT: it has other bytes.
MUST_USE enum err create_once(struct store_coord *s, const char *key, struct bytes body,
                              struct coord_answer *a);
bool number_parse(const char *text, uint64_t *number); // exactly NUMBER_DIGITS digits
int64_t pace_ms(const struct store_coord *s);          // between two lists; the lock is held
// Returns the number of the present session and sets its member; 0: none, a->why says so.
uint64_t session_of(struct store_coord *s, struct coord_member *self, struct coord_answer *a);

enum err store_coord_join(struct coord *c, const struct coord_member *m, bool replace,
                          struct coord_answer *a);
enum err store_coord_heartbeat(struct coord *c, struct coord_answer *a);
enum err store_coord_leave(struct coord *c, struct coord_answer *a);
void store_coord_answers(struct coord *c, const struct coord_member *m, bool answers);
enum err store_coord_plan_write(struct coord *c, uint64_t epoch, uint64_t number, struct bytes plan,
                                struct coord_answer *a);
enum err store_coord_plan_read(struct coord *c, struct buf *out, struct coord_answer *a);
