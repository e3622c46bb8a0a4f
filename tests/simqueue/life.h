// SPDX-License-Identifier: Apache-2.0
// The queue's world: two or three queues, some with two shards. A shard is a "lane", with handles
// of its own, and the people around it: senders, workers, coordinators, carriers of dead letters,
// operators. The store, the wire, the faults and the runner are those of the journal's world
// (tests/sim), whose struct world is used with other life in it: this is the other life. All the
// functions that world.h promises are defined again here, for shards instead of journals.
#pragma once

#include "base/heap.h"
#include "queue/codec/body_name.h"
#include "reference.h"
#include "world.h"

#define LANES_MAX       4
#define QUEUES_MAX      3
#define SIM_WORKERS_MAX 100
#define HELD_LOCKS_MAX  3
#define STALE_MAX       64
#define NO_INDEX        UINT32_MAX
#define TRIES_MAX       24
#define SIM_CALLS_MAX   100000
#define SCENE_USUAL     0
#define SCENE_CROWD     1 // many workers and one message

#define SECOND          ((int64_t)1000)
#define MINUTE          (60 * SECOND)

// Beside those of world.h.
enum life_event {
    LIFE_WORK = EVENT_FREEZE + 1, // a: worker, b: its turn
    LIFE_BEAT,                    // a: worker
    LIFE_STALE,                   // an old token is tried again
    LIFE_DISPATCH,                // a: lane
    LIFE_MOVE,                    // a: ask of the letter
    LIFE_OPERATE,
    LIFE_RESUME,      // a: lane
    LIFE_LOOK,        // is everything drained?
    LIFE_UPLOADED,    // a: ask that refers to what was uploaded a while ago
    LIFE_LATE_UPLOAD, // a: which
    LIFE_DELETE,      // a: queue
    LIFE_SLEEPER,     // a: lane, b: slot
    LIFE_RAISE,       // a: lane
    LIFE_UPGRADE,     // a: node, b: its life
    LIFE_EVICT,       // an operator's act on a registered worker
    LIFE_PUBLISH,     // a: lane
    LIFE_SIGNAL,
};

// The shard of a node: world.nodes[i] has its life and its clock, handles[i] what it runs.
struct handle {
    struct shard *shard;
    uint32_t lane;
    uint32_t pen;     // of its writer
    size_t events_at; // I9: the next event it has to tell
    bool finishes;    // its collector began a round for a deleted queue after the faults ceased
    bool passes_on;   // a watcher was told of a message and claims nothing
    uint16_t rules_newest; // that its program folds
    bool upgrades;         // it stopped, and its next start is one of a newer program
};

// A writer id and whose it is.
struct pen {
    struct hash128 writer;
    uint32_t node;
    uint32_t life;
    uint64_t sequence;
};

enum sim_call_what {
    SIM_CALL_OP,
    SIM_CALL_RECEIVE,
    SIM_CALL_SYNC,
    SIM_CALL_OWN,
    SIM_CALL_FETCH,
    SIM_CALL_ARRIVE,
    SIM_CALL_AWAIT,  // something to claim, as a receive over several shards does
    SIM_CALL_RECALL, // what a receive brought, as it does before it asks another shard
    SIM_CALL_LISTEN  // waits for signals to the holder of these locks
};

// Submissions of one ask through one handle.
struct trial {
    uint32_t pen;
    uint32_t count;
    uint32_t refused;  // answered "not applied"
    uint32_t in_force; // entries with an effect
};

struct sim_call {
    enum sim_call_what what;
    uint16_t kind; // of its op
    uint32_t lane;
    uint32_t worker; // the worker that asks; NO_INDEX: a client
    struct request_id request;
    struct bytes payload; // owned; a fixed one, or empty
    uint8_t seed[16];     // claims
    uint32_t max;
    int64_t wait_ms; // of the op
    int64_t lease_ms;
    struct lock_ref refs[HELD_LOCKS_MAX]; // outcomes
    uint32_t refs_len;
    uint32_t numbers[HELD_LOCKS_MAX]; // answers to signals, by ref
    bool declines[HELD_LOCKS_MAX];
    bool foreign;       // outcomes: names another queue
    uint32_t of;        // recall: the receive
    uint64_t place_seq; // fetch
    struct place place;
    uint64_t token;     // own
    uint64_t expected;  // own
    uint32_t from_node; // arrive: whose letter, in which life, and its number
    uint32_t from_life;
    uint64_t number;
    int carried; // arrive: 1 it did, -1 it did not, 0 not known yet
    int64_t first_at;
    uint32_t tries;
    struct trial trials[TRIES_MAX];
    uint32_t trials_len;
    uint32_t node; // of the open submission
    uint32_t life;
    int64_t deadline;   // of the open submission
    uint64_t tail_then; // length of the history when it was submitted
    uint64_t slot_then; // what its handle had read then
    bool open;
    bool closed;
    bool in_doubt;     // an earlier attempt may still take effect
    bool given_up;     // the caller was refused and concludes that no attempt was applied
    struct bytes told; // owned: what it was answered when it was done
    bool is_told;
    // A receive and the acks it carries are two calls (joined.c).
    uint32_t partner; // the other one + 1; 0: none
    bool in_turn;     // the receive goes when its acks were answered, whatever that was
    bool acks_heard;  // ... and they were
    bool paused_then; // when it was asked, the handle believed so, or that it may hand out nothing
    // Its handle was not the owner any more and did not know. The handle learned it by this slot
    // or a later one. 0: that was not so.
    uint64_t fenced_slot;
    bool in_an_entry; // of the history
};

// What there was to see of them.
enum joined_figure {
    JOINED_ASKED,   // pairs
    JOINED_IN_TURN, // ... of which the acks go first
    JOINED_SENT,    // to a shard together, again and again
    JOINED_AGAIN,   // ... of which not for the first time
    JOINED_ALONE,   // one of the two sent again by itself
    JOINED_LOST,    // answers that did not get to the worker
    JOINED_CRASHED, // open when their handle died
    JOINED_ENTRIES, // that have both, in force
    JOINED_GIVEN,   // ... the claim brought something
    JOINED_REFUSED, // ... an ack was refused
    JOINED_BOTH,    // ... an ack was refused, and the claim brought something
    JOINED_STRICT,  // ... an ack was done and the claim brought something, in strict order
    JOINED_EXPIRED, // ... a lock ran out at its beginning
    JOINED_REPEATS, // entries that have both once more
    JOINED_FENCED,  // on their way through a handle that believed to be the owner
    JOINED_FIGURES
};

struct held_lock {
    struct lock_ref ref;
    int64_t deadline;
};

struct sim_worker {
    uint32_t lane;
    char name[16];
    uint32_t turn; // of the work event that counts
    bool busy;     // an ask of it is open
    struct held_lock held[HELD_LOCKS_MAX];
    uint32_t held_len;
    uint32_t capacity; // 0: never registers
    int64_t gone_until;
    int64_t stalls_until; // beats, but asks for nothing
    uint64_t instance;    // of its process, if it registers
    uint32_t labels;      // bits of fleet_labels
    uint32_t states;      // the capacity that it states, true or not
    bool won;             // the crowd: it got the message
    bool lost;            // ... or was told that there is none
};

// A put of an object that lands late.
struct late_upload {
    uint32_t lane;
    char name[BODY_NAME_LEN + 1];
    struct bytes body; // owned
};

struct lane {
    uint32_t index;
    uint32_t queue; // which
    uint32_t shard; // ... of its shards
    const char *name;
    char prefix[32];
    struct queue_id id;
    struct queue_config birth;
    bool mixed_groups; // its senders name groups
    struct bucket bucket;
    struct reference reference;
    uint64_t token; // the highest that the coordination service gave out
    struct lock_ref stale[STALE_MAX];
    uint32_t stale_len;
    bool finished; // a collector said so, after the last slot of a deleted queue was made
};

struct life {
    struct world *world;
    uint32_t scene;
    uint32_t queues_len;
    uint32_t shards[QUEUES_MAX];
    uint32_t lanes_len; // by queue and shard
    struct lane lanes[LANES_MAX];
    struct handle handles[MIX_NODES_MAX];
    struct pen *pens;
    uint32_t pens_len;
    struct sim_call *calls; // of SIM_CALLS_MAX: they stay where they are
    uint32_t sim_calls_len;
    uint32_t sim_calls_open; // all before it are closed
    struct sim_worker workers[SIM_WORKERS_MAX];
    uint32_t thread_pool_len;
    // what the seed draws beside the mix
    int64_t work_ms; // how long a job takes
    int64_t stale_every_ms;
    int64_t operate_every_ms;
    int64_t dispatch_every_ms; // 0: never
    uint32_t carriers;         // handles per lane that move letters
    size_t cache_bytes;
    struct heap agenda;
    struct world_event *events; // by handle in the agenda
    uint32_t events_len;
    uint32_t *events_free;
    uint32_t events_free_len;
    struct buf scratch;
    uint64_t letters;  // that arrived
    uint64_t swept;    // objects
    uint32_t uploads;  // chance that a message has a large body
    uint32_t joins;    // ... that acks travel with the next receive
    uint32_t sleepers; // ... that a dropped slot is created again
    // Worlds with programs of two releases draw what that needs from numbers of their own, so that
    // the other worlds are what they were.
    bool raises;
    struct rng releases;
    // The same for worlds whose queues are consumed through the owner alone.
    bool owner_only;
    struct rng consume;
    // The same for worlds whose queues keep how messages ended.
    bool keeps_ends;
    struct rng ends;
    // ... and for worlds whose workers register (fleet.c).
    bool fleet;
    struct rng fleet_rng;
    // ... and for worlds with workflows and a publisher (workflows.c).
    bool workflows;
    struct rng workflows_rng;
    // ... and for worlds with signals (signals.c).
    bool signals;
    struct rng signals_rng;
    int64_t signal_every_ms;
    uint64_t joined[JOINED_FIGURES];
    struct late_upload *lates;
    uint32_t lates_len;
    bool crowd_called;
    bool drained; // the healed phase is over
};

bool life_is_crowd(const struct world *w);
void life_after(struct world *w, int64_t delay, enum life_event kind, uint32_t a, uint32_t b);
// At the end of the node's pause. The end of the faults ends the pause, too.
void life_put_off(struct world *w, const struct node *n, enum world_event_kind kind, uint32_t a,
                  uint32_t b);
bool life_drains(const struct world *w); // the healed phase: every client tries to finish
struct lane *lane_of(struct world *w, const struct node *n);
struct lane *lane_pick(struct world *w);

void draw_life(struct world *w);
void draw_config(struct world *w, const struct lane *l, struct queue_config *c);
#define RETENTION_DEFAULT INT64_C(3600000)
int64_t draw_retention(struct world *w);

struct node *node_pick(struct world *w, uint32_t lane); // one that can act; NULL: none
// One that believes to own the lane, if there is such a one.
struct node *node_owner(struct world *w, uint32_t lane);

uint32_t sim_call_new(struct world *w, enum sim_call_what what, uint16_t kind, uint32_t lane);
bool sim_call_submit(struct world *w, uint32_t ask); // through some handle; false: none can
void sim_call_submit_to(struct world *w, uint32_t ask, struct node *n);
void sim_call_heard(struct world *w, struct node *n, const struct shard_reply *r);
void sim_call_orphans(struct world *w, const struct node *n);
void sim_call_again(struct world *w, uint32_t ask);
void sim_call_await(struct world *w, struct node *n);
struct sim_call *sim_call_by_request(struct world *w, const struct request_id *id); // NULL: none
struct trial *sim_call_trial(struct sim_call *a, uint32_t pen); // NULL: never went that way
uint32_t sim_call_index(const struct world *w, const struct sim_call *a);
void sim_calls_init(struct world *w);
void sim_calls_done(struct world *w);
// For those that are sent otherwise:
void sim_call_begins(struct world *w, uint32_t ask, struct node *n); // it is about to be sent
int64_t sim_call_patience(struct world *w);
void sim_call_put_outcome(struct world *w, const struct sim_call *a, const struct node *n,
                          struct buf *out);
struct op_claim sim_call_claim(const struct world *w, const struct sim_call *a);
void call_async(struct world *w, uint32_t ask); // again, after a while
bool sim_call_gives_up(const struct world *w, const struct sim_call *a);

void joined_ask(struct world *w, uint32_t worker, uint16_t kind);
void joined_again(struct world *w, uint32_t receive);
void joined_heard(struct world *w, uint32_t ask, const struct shard_reply *r, bool final);
void joined_orphan(struct world *w, uint32_t ask);

void sender_send(struct world *w);
void worker_work(struct world *w, uint32_t worker, uint32_t turn);
void worker_beat(struct world *w, uint32_t worker);
void worker_stale(struct world *w);
void worker_heard(struct world *w, uint32_t ask, const struct shard_reply *r, bool final);
void worker_soon(struct world *w, uint32_t worker, int64_t delay);
void worker_wants(struct world *w, struct sim_call *a); // how much, for how long
void worker_given(struct world *w, uint32_t worker, const struct shard_reply *r);
void worker_forget(struct lane *l, struct sim_worker *c); // what it holds; its tokens live on
void worker_goes_on(struct world *w, uint32_t worker);
void coordinator_own(struct world *w, struct lane *l);
bool coordinator_is_there(const struct world *w, uint32_t lane); // exactly one, at the tail
void coordinator_dispatch(struct world *w, struct lane *l);
void operator_operate(struct world *w);
void operator_resume(struct world *w, struct lane *l);
void operator_heal(struct world *w);
void operator_delete(struct world *w, uint32_t queue);
void carrier_take(struct world *w, struct node *n);
void mover_move(struct world *w, uint32_t ask);
void carrier_heard(struct world *w, uint32_t ask, const struct shard_reply *r);
void carrier_lost(struct world *w, uint32_t ask); // it gets no answer

void fleet_draw(struct world *w);
enum dispatch fleet_dispatch(struct world *w, bool strict); // for a configuration
void fleet_beat(struct world *w, uint32_t worker);          // joins, beats, leaves, begins again
void fleet_operate(struct world *w);                        // pauses, drains, evicts
void fleet_submit(struct world *w, uint32_t lane, const struct worker_change *rows, uint32_t count);
const char *fleet_requires(struct world *w); // of a message; "": nothing
uint32_t fleet_labels(struct bytes text);    // labels as bits

void workflows_draw(struct world *w);
void workflows_configure(struct world *w, const struct lane *l, struct queue_config *c);
void workflows_name(struct world *w, const struct lane *l, struct message *m, char text[4]);
void workflows_publish(struct world *w, struct lane *l);

void signals_draw(struct world *w);
void signals_configure(struct world *w, struct queue_config *c);
void signals_send(struct world *w);
void signals_listen(struct world *w, uint32_t worker);
void signals_heard(struct world *w, uint32_t ask, const struct shard_reply *r);
void signals_stale(struct world *w, const struct lane *l, struct lock_ref ref);
void signals_put_settle(struct world *w, const struct sim_call *a, const struct node *n,
                        struct buf *out);
struct bytes signals_extras(struct world *w, const struct sim_call *a, struct buf *out);

void releases_draw(struct world *w);
uint16_t releases_start(struct world *w, struct handle *h);   // the newest version of its program
void releases_stopped(struct world *w, const struct node *n); // "upgrade needed"
void releases_upgrade(struct world *w, uint32_t node, uint32_t life);
void operator_raise(struct world *w, struct lane *l);

void sleeper_may_wake(struct world *w, struct lane *l, uint64_t slot); // it was dropped just now
void sleeper_wakes(struct world *w, struct lane *l, uint64_t slot);

#define UPLOAD_KEY_MAX 160
void upload_key(const struct lane *l, struct bytes name, char out[UPLOAD_KEY_MAX]);
const struct bucket_object *upload_find(const struct lane *l, struct bytes name); // NULL: none
// text: where the name is kept.
struct body_reference upload_body(struct world *w, struct lane *l, struct bytes body,
                                  char text[BODY_NAME_LEN + 1]);
void upload_lands(struct world *w, uint32_t index);
struct bytes upload_copy(struct world *w, struct lane *from, struct lane *to, struct bytes payload);
void uploads_done(struct world *w);

void crowd_draw(struct world *w);
void crowd_send(struct world *w);  // the one message, once
void crowd_begin(struct world *w); // it is there
bool crowd_ended(const struct world *w);
void crowd_check(struct world *w);
