// SPDX-License-Identifier: Apache-2.0
// Inside the server: what its files share. A request becomes a struct exchange. A handler of the
// table in router.c answers it exactly once, at once or later.
#pragma once

#include "base/list.h"
#include "net/httpd.h"
#include "net/listen.h"
#include "ops/async.h"
#include "protocol/routes.h"
#include "queue/codec/message.h"
#include "queues/liveness.h"
#include "server/call_share.h"
#include "server/heartbeats.h"
#include "server/limiter.h"
#include "server/log.h"
#include "server/memory_budget.h"
#include "server/metrics.h"
#include "server/server.h"
#include "server/slow.h"
#include "server/target.h"
#include "server/tokens.h"

#include <pthread.h>
#include <stdatomic.h>

#define ADDRESS_MAX    (LISTEN_HOST_MAX + 8)
#define NODE_NAME_MAX  128
#define LAST_EVENT_MAX 8192
#define PROBLEM_TYPE   "application/problem+json"
#define REQUEST_HEADER "Sluice-Request"
#define MESSAGE_HEADER "Sluice-Header-"
#define NO_ROOM        "no-room" // the reason of a refusal: bodies or answers use all memory

struct server {
    struct server_config config;
    struct sluice *store;
    struct engine *engine; // of the store
    struct httpd *httpd;
    struct call_share *blocking; // for calls that wait for the store
    struct call_share *parsers;  // for large JSON
    struct call_share *health;   // for probes of the store
    struct pool_share *stream_threads;
    _Atomic int flags[CAPABILITY_COUNT]; // enum rollout
    struct metrics metrics;
    struct memory_budget budget; // of answers
    struct log log;
    struct slow_call_log slow; // logs slow calls of the store
    atomic_bool log_requests;
    uint64_t seed; // keys the hashes of clients, so that no client can choose its own
    struct limiter *limiter;
    // NULL: the node is no member of a cluster, or not yet. Requests come before it is one.
    struct membership *_Atomic member;
    struct publish_engine *publishing; // of events to the bus; NULL: none
    struct cluster_bus *cluster_bus;   // ... of the cluster; NULL: none
    struct owners_cache *owners_shown; // the owners of shards, as clients are told
    struct tls *tls;                   // NULL: plain HTTP
    pthread_rwlock_t tokens_lock;
    struct tokens *tokens;          // under tokens_lock; NULL: no token is required
    _Atomic uint64_t token_changes; // how often a reload replaced them
    char host[LISTEN_HOST_MAX];
    uint16_t port; // as configured; 0: a free one
    char address[ADDRESS_MAX];
    char node[NODE_NAME_MAX + 1];
    char store_name[512];
    int64_t started_ms;
    atomic_bool stopping;
    atomic_bool draining; // /readyz refuses, so that balancers send no new clients
    pthread_mutex_t lock;
    pthread_cond_t fewer;
    size_t calls;        // library calls in progress: the store must stay open for them
    struct list waiting; // the receives that wait
    size_t waiting_len;
    struct clients waiters;                // places of waiting receives
    struct clients streaming;              // places of event streams
    struct clients subscribing;            // places of clients of /v1/stream
    struct hub *hub;                       // what these are told (hub.h)
    struct heartbeats *_Atomic heartbeats; // of registered workers; NULL: the node starts or stops
    struct presence *presence;             // the workers that receive here (presence.h)
    struct waiting_metrics_cache *waiting_shown; // those at other nodes (workers.c)
    size_t streams;                              // event streams, including those that are ending
    struct readiness {
        int64_t asked_ms;  // clock_boot_ms of the last answer to a probe; 0: none
        int64_t asking_ms; // clock_boot_ms of the start of the running probe; 0: none runs
        enum sluice_code code;
        struct sluice_error error;
        int64_t down_ms;       // clock_boot_ms since when all requests fail; 0: they do not
        bool down;             // calls are refused at once
        struct call_job probe; // for a call; /readyz has a job of its own
    } ready;
    struct store_warnings {    // warnings about the store that were logged
        int64_t durability_ms; // when the one about durability was
        int64_t looked_ms;
        bool logged[STORE_CONCERNS];
    } concerns;
    struct queue_metrics_cache { // cached metrics of the queues
        pthread_mutex_t lock;
        bool asking; // a thread reads them from the store
        int64_t at_ms;
        struct bytes text;
    } queues_shown;
};

struct exchange;
struct served_call;
struct route_handler {
    const struct route *row;
    void (*handle)(struct exchange *x);
};

typedef void answer_fn(struct exchange *x, const struct async_answer *a);

struct exchange {
    struct async_call async; // first: the library passes it to the callback
    struct call_job job;
    struct server *server;
    struct httpd_request *http;
    const struct route_handler *route;
    struct target target;
    char token[TOKEN_NAME_MAX + 1]; // the name of its token; "": none
    uint64_t client;                // number of the client, for fair sharing (server/clients.h)
    char queue[QUEUE_NAME_MAX + 1];
    char id[SLUICE_ID_MAX];
    const char *workflow; // in the path; NULL: none
    const char *named;    // ... a worker
    const char *signal;   // ... a signal's id
    struct sluice_request request;
    bool has_request;
    bool head;                        // HEAD: the handler of GET, without a body
    bool wire_in;                     // the request is in the compact encoding
    bool wire_out;                    // the answer is in the compact encoding
    bool single;                      // it has one part: a refusal of the part is the answer
    const struct sluice_found *found; // how far a search came; NULL: it is none
    struct kept_texts kept;
    struct {
        uint64_t instance; // 0: it has no such header
        char name[WORKER_NAME_MAX + 1];
    } joined; // the worker of which the call is a sign of life (WORKER_HEADER)
    int status;
    int64_t began_ns;
    const char *last_event;      // Last-Event-ID; NULL: not given
    struct event_stream *stream; // of a collect (collect_stream.c); NULL: none
    enum settle_kind outcome;    // ack, fail, release, renew
    answer_fn *answer;           // of a call that was started with act()
    void *result;                // ... where it puts its result
    struct answer_budget budget; // for the messages in its answer
    size_t budget_part;          // bytes of the server's budget that it holds
    struct served_call *served;  // an op of another process (shards.c); NULL: none
    uint16_t served_op;          // ... of this kind; 0: a claim or an await
    bool served_lost;            // ... whose answer cannot arrive
    // receive
    struct list_link link;            // in a list of exchanges that wait
    struct share waiting;             // under the lock
    char worker[WORKER_NAME_MAX + 1]; // if it waits: the worker's name, or ""
    bool waits;
    bool present;                     // it is counted in the presence list
    atomic_bool left;                 // its client has disconnected
    bool begun;                       // the library has it; under the lock
    bool unwanted;                    // cancel was called; under the lock
    bool acks;                        // it carries acks, whose outcomes must be answered
    bool crowded;                     // there was no place to wait in
    char (*tokens)[SLUICE_TOKEN_MAX]; // of the messages in this answer
    size_t tokens_len;
};

// Returns the route for a method and a path. NULL: answer 404, or 405 if `allow` is not empty.
#define ALLOW_MAX 64
const struct route_handler *route_find(const char *method, struct target *t, char allow[ALLOW_MAX]);

// The memory budget for the messages of an answer. The library gets it with the call.
struct answer_budget *answer_budget_of(struct exchange *x);
void answer_with(struct exchange *x, struct httpd_answer *a, struct buf *body); // takes the body
void answer_json(struct exchange *x, int status, struct json *body);
void answer_bytes(struct exchange *x, int status, const char *type, struct buf *body); // takes it
void answer_empty(struct exchange *x, int status);
void answer_error(struct exchange *x, const struct sluice_error *error);
struct json *problem_json(int status, const struct sluice_error *e);
// Answers with this status instead of that of the error's code. `extra` is one more header, or
// NULL.
void answer_problem(struct exchange *x, int status, const struct sluice_error *error,
                    const struct httpd_pair *extra);
// Answers with an error and returns false.
bool refuse_request(struct exchange *x, enum sluice_code code, const char *reason,
                    const char *field, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
// Returns true if there is no error. Otherwise it answers with the error and returns false.
bool answer_unless(struct exchange *x, enum sluice_code code, const struct sluice_error *error);
struct sluice_error error_of(enum sluice_code code, const char *reason, const char *field,
                             const char *format, ...) __attribute__((format(printf, 4, 5)));

// Reads the query and the JSON body into the call's request struct, which is zeroed. An empty body
// is an object without members; the body of a GET is ignored. This function and the next ones
// return false, or NULL, if they have answered the request with an error. `out` may be NULL if the
// call has no fields.
bool read_request(struct exchange *x, void *out);
// Checks the limits of the call's fields, for a body in the compact encoding.
bool check_fields(struct exchange *x, void *in);
// Reads an object inside the body.
bool read_object(struct exchange *x, struct json *object, const char *path,
                 const struct fields *table, void *out);
// Reserves the memory that the parsed body will need. Returns false, after an answer, if that is
// too much or too deep, or if the memory is in use.
bool admit_json(struct exchange *x);
void refuse_body(struct exchange *x); // answers that there is no memory for the body now
// Reads a value that is given as JSON (`name`), or as bytes (`name`Base64), which `bytes` has
// already. text: of the object. False: both are given, and the request was answered.
bool read_value(struct exchange *x, struct json *object, struct bytes text, const char *name,
                struct bytes *bytes);
// Returns the parsed body, which the exchange keeps.
struct json *read_json(struct exchange *x);
// Frees the body and its JSON before a long wait. No text of the request may be used after it.
void forget_body(struct exchange *x);

bool read_query(struct exchange *x, const struct fields *table, void *out);
// Checks that the head has one reading only.
bool read_framing(struct exchange *x);
// The instance of a worker's process. Returns 0 if the text is not such a number.
#define INSTANCE_DIGITS 16
uint64_t read_instance(const char *text);
// Reads queue, id, request id and encodings.
bool read_head(struct exchange *x);
bool is_type(const char *header, const char *type); // ignores parameters such as charset

struct sluice_error no_thread_error(void); // the pool has no thread for a call
// How a handler starts a call (start_<name> in ops/ops.h): no thread waits for it. `answer` answers
// the request; it must not block. x->result has `result_len` bytes, as zeros.
struct request_origin act(struct exchange *x, size_t result_len, answer_fn *answer);
answer_fn answer_done; // 204, or the error
void call_begin(struct server *s);
void call_end(struct server *s);

enum sluice_code live_settings_start(struct server *s, struct sluice_error *error);
void live_settings_end(struct server *s);

// "bus=off placement=on ..."
#define FLAGS_MAX 96
void flags_text(struct server *s, char out[FLAGS_MAX]);
const char *rollout_name(int state);
const char *capability_name(int capability);

// Returns whether the store has failed all requests for some seconds, and a probe just now. A call
// that changes something is then refused at once, with this error. Does not block.
bool store_is_down(struct server *s, struct sluice_error *error);
bool store_is_up(struct server *s); // probes the store if nothing recent is known; blocks

void metrics_queues(struct server *s, struct buf *to);
void metrics_process(struct buf *to);
void metrics_cluster(struct server *s, struct buf *to);
void metrics_bus(struct server *s, struct buf *to);

// These two answer the request if they return false. auth_admit checks the scope of the route and
// the rate. auth_allow checks another scope, for example for a queue that the body names. `queue`
// is "" for a request about no queue, and NULL for one about all queues.
bool auth_admit(struct exchange *x);
bool auth_allow(struct exchange *x, enum token_scope scope, const char *queue);
// Like auth_allow, without an answer.
bool auth_may(const struct exchange *x, enum token_scope scope, const char *queue);
// Returns all scopes for a queue as bits (1 << scope). "": those for any queue.
// Whether the token of the request may still do what the route does: tokens expire and are removed.
bool auth_still(const struct exchange *x);
unsigned auth_scopes(const struct exchange *x, const char *queue);
bool auth_asks_tokens(struct server *s);           // returns whether the node requires tokens
const char *auth_secret(const struct exchange *x); // the token of the request; NULL: none
uint64_t auth_client(const struct exchange *x);    // the number of its token, else of its address

void log_access(const struct exchange *x);

struct json *stats_json(const char *queue, const struct sluice_stats *v);
// `spent` is freed as soon as it is not needed; may be NULL. `acked`: as for answer_acked, or NULL.
void answer_messages(struct exchange *x, const struct sluice_batch *b, struct sluice_batch *spent,
                     const struct async_answer *acked);
// Answers a receive that carried acks. a->code is SLUICE_OK, or the reason why it received nothing.
void answer_acked(struct exchange *x, const struct sluice_batch *b, const struct async_answer *a);

struct json *outcomes_json(const struct async_answer *a);

// Adds the workers of the request's queue that the other nodes list. May block.
struct waiting_list; // ops/workers.h
void workers_at_other_nodes(struct exchange *x, struct waiting_list *out);
// Sets v->waiting: the workers that wait in a receive, here and at the other nodes. May block.
void stats_add_waiting(struct exchange *x, const char *queue, struct sluice_stats *v);
// Answers with the statistics in x->result, to which it adds the same. Does not block.
answer_fn answer_stats;
struct waiting_metrics_cache *waiting_shown_new(void);
void waiting_shown_free(struct waiting_metrics_cache *w); // NULL is allowed

void receive_end_all(struct server *s); // the receives that wait end without messages
// Returns [{"name", "receives"}]: the receives of a queue that wait at this node.
// The outcomes of a collect as Server-Sent Events (collect_stream.c).
struct collect_poll; // ops/collect.h
struct collected_list;
void collect_stream(struct exchange *x, const struct collect_poll *poll);
// Asks the running messages of a poll, which goes on with the questions in *asked. Free that after
// the poll. False: the request was answered.
bool collect_ask_running(struct exchange *x, struct collect_poll *poll,
                         struct collected_list **asked);
struct sluice_error receive_too_many(const struct server *s);
struct json *receive_waiting(struct server *s, const char *queue);
// Call it when the exchange ends. If the answer was not delivered, the messages in it are released,
// unless the client can repeat the receive with its request id.
void receive_over(struct exchange *x, bool delivered);
// A receive that waits takes a place until wait_end. Returns false if there is none for its client.
bool wait_begin(struct exchange *x, const char *worker);
// The worker is present until wait_end, even if the receive does not wait.
void present_begin(struct exchange *x, const char *worker);
void present_note(struct exchange *x); // of the worker that the head names, if any
void wait_begun(struct exchange *x);   // it was passed on: performs a cancel that came before
void wait_end(struct exchange *x);
void receive_client_gone(void *mine); // for httpd_watch

#define HANDLER(id, name, ...) void handle_##name(struct exchange *x);
ROUTE_LIST(HANDLER)
#undef HANDLER
