// SPDX-License-Identifier: Apache-2.0
// Inside the server: what its files share. A request becomes a struct exchange, which a handler of
// the table in router.c answers exactly once, now or later.
#pragma once

#include "local/async.h"
#include "local/liveness.h"
#include "net/httpd.h"
#include "net/listen.h"
#include "queue/config.h"
#include "queue/message.h"
#include "server/call_pool.h"
#include "server/fields.h"
#include "server/limiter.h"
#include "server/log.h"
#include "server/memory_budget.h"
#include "server/metrics.h"
#include "server/server.h"
#include "server/slow.h"
#include "server/target.h"
#include "server/tokens.h"
#include "json/json.h"

#include <pthread.h>
#include <stdatomic.h>

#define WAIT_MAX_MS    20000
#define ADDRESS_MAX    (LISTEN_HOST_MAX + 8)
#define NODE_NAME_MAX  128
#define LAST_EVENT_MAX 2048
#define JSON_TYPE      "application/json"
#define PROBLEM_TYPE   "application/problem+json"
#define REQUEST_HEADER "Sluice-Request"
#define MESSAGE_HEADER "Sluice-Header-"
#define NO_ROOM        "no-room" // a refusal's reason: bodies or answers take all memory

struct server {
    struct server_config config;
    struct sluice *store;
    struct httpd *httpd;
    struct call_pool *pool;    // for calls that wait for the store
    struct call_pool *parsers; // for large JSON
    struct call_pool *health;  // for the question whether the store takes writes
    struct metrics metrics;
    struct memory_budget budget; // for answers
    struct log log;
    struct slow slow; // calls of the store
    atomic_bool log_requests;
    uint64_t seed; // of the clients' numbers: none can be chosen
    struct limiter *limiter;
    struct relays *relays;
    struct tls *tls; // NULL: plain HTTP
    pthread_rwlock_t tokens_lock;
    struct tokens *tokens; // under its lock; NULL: nobody is asked for one
    char host[LISTEN_HOST_MAX];
    char address[ADDRESS_MAX];
    char node[NODE_NAME_MAX + 1];
    char store_name[512];
    int64_t started_ms;
    atomic_bool stopping;
    atomic_bool draining; // /readyz says no, so that nobody new comes; all else goes on
    pthread_mutex_t lock;
    pthread_cond_t fewer;
    size_t calls;             // of the library, under way: the store may not be closed before
    struct exchange *waiting; // receives that may be told to end
    size_t waiting_len;
    struct clients waiters;   // their places
    struct clients streaming; // of event streams
    size_t streams;           // those that end, too
    struct readiness {
        int64_t asked_ms;  // when the store last answered that; 0: never
        int64_t asking_ms; // since when it is being asked for this; 0: it is not
        enum sluice_code code;
        struct sluice_error error;
    } ready;
    struct concerns { // of the store, as the log has them
        int64_t looked_ms;
        bool told[STORE_CONCERNS];
    } concerns;
    struct queues_shown { // their metrics, as they were a moment ago
        pthread_mutex_t lock;
        bool asking; // somebody asks the store for them
        int64_t at_ms;
        struct bytes text;
    } queues_shown;
};

struct exchange;
struct route {
    const char *method;
    const char *pattern; // "/v1/queues/{queue}/messages/{id}"
    enum scope scope;
    bool blocks;     // the handler makes blocking calls: it runs on the pool
    size_t body_max; // of what it is sent; SIZE_MAX: as much as the node takes at all
    void (*handle)(struct exchange *x);
};

struct exchange {
    struct async_call async; // first: what the library calls back with
    struct pool_job job;
    struct server *server;
    struct httpd_request *http;
    const struct route *route;
    struct target target;
    char token[TOKEN_NAME_MAX + 1]; // the name of the token it came with; "": none
    uint64_t client;                // that the node's threads and places are shared by
    char queue[QUEUE_NAME_MAX + 1];
    char id[SLUICE_ID_MAX];
    struct sluice_request request;
    bool has_request;
    bool head;          // HEAD: the handler of GET, without a body
    bool wire_in;       // the compact encoding came in ...
    bool wire_out;      // ... or goes out
    bool wire_failures; // ... with what messages failed for
    bool single;        // one part: its refusal is the answer
    struct kept_texts kept;
    int status;
    int64_t began_ns;
    const char *last_event;      // where an event stream is to go on; NULL: not said
    enum async_outcome outcome;  // ack, fail, release, renew
    struct answer_budget budget; // for the messages in its answer
    size_t budget_part;          // of the server's that it has
    // on its way to the queue's owner (relay.h)
    struct relay *relay; // under the server's lock
    bool looked;         // it was found out who that is
    bool relayed;        // it was tried
    bool named_here;     // the request id is this node's: no client will repeat it
    // receive
    struct exchange *next, *before;   // of those that wait
    struct share waiting;             // under the lock
    char worker[WORKER_NAME_MAX + 1]; // of one that waits; "": it gave no name
    bool waits;
    bool begun;                       // the library has it, and can cancel it; under the lock
    bool unwanted;                    // it was to be cancelled before that
    bool acks;                        // it carries some: what became of them is told in any case
    bool crowded;                     // there was no room to wait in
    char (*tokens)[SLUICE_TOKEN_MAX]; // handed out by this answer
    size_t tokens_len;
};

// All of them, in the table's order; NULL past the last.
const struct route *route_at(size_t place);
size_t route_place(const struct route *r);
const char *route_label(const struct route *r); // its pattern, for people
// The route for a method and a path; NULL: 404, or 405 when allow is not empty.
#define ALLOW_MAX 64
const struct route *route_find(const char *method, struct target *t, char allow[ALLOW_MAX]);

// What asks for the room of messages; the library is given it with the call.
struct answer_budget *answer_budget_of(struct exchange *x);
void answer_with(struct exchange *x, struct httpd_answer *a, struct buf *body); // takes it
void answer_json(struct exchange *x, int status, struct json *body);
void answer_bytes(struct exchange *x, int status, const char *type, struct buf *body); // takes it
void answer_empty(struct exchange *x, int status);
void answer_error(struct exchange *x, const struct sluice_error *error);
struct json *problem_json(int status, const struct sluice_error *e);
// With a status of its own, not that of the error's code. extra: one more header; may be NULL.
void answer_problem(struct exchange *x, int status, const struct sluice_error *error,
                    const struct httpd_pair *extra);
struct sluice_error error_of(enum sluice_code code, const char *reason, const char *field,
                             const char *format, ...) __attribute__((format(printf, 4, 5)));

// Reads the JSON object into `out` by the table; an empty body is an object without members.
// False: it was answered.
bool read_fields(struct exchange *x, const struct field *table, size_t len, void *out);
// The same for an object inside it.
bool read_object(struct exchange *x, struct json *object, const char *path,
                 const struct field *table, size_t len, void *out);
// Counts what the body would take as JSON, before it is parsed. False: that is too much, too deep,
// or more than there is now, and it was answered.
bool admit_json(struct exchange *x);
void refuse_body(struct exchange *x); // there is no memory for it now
// The parsed body, kept with the exchange; NULL: it was answered.
struct json *read_json(struct exchange *x);

// The query by the same sort of table. False: it was answered.
bool read_query(struct exchange *x, const struct field *table, size_t len, void *out);
// Whether the head is one that can be understood in one way only. False: it was answered.
bool read_framing(struct exchange *x);
// Queue, id, request id, encodings. False: it was answered.
bool read_head(struct exchange *x);
bool is_type(const char *header, const char *type); // "application/json; charset=utf-8" is

void call_begin(struct server *s);
void call_end(struct server *s);

enum sluice_code live_settings_start(struct server *s, struct sluice_error *error);
void live_settings_end(struct server *s);

bool store_is_up(struct server *s); // it is asked, if that is not known; blocks

void metrics_queues(struct server *s, struct buf *to);
void metrics_process(struct buf *to);

bool auth_admit(struct exchange *x);
// ... and for something beside its route: a queue named in its body. queue "": about none; NULL:
// about all of them.
bool auth_allow(struct exchange *x, enum scope scope, const char *queue);
// The same as a question.
bool auth_may(const struct exchange *x, enum scope scope, const char *queue);
// All scopes for a queue, a bit for each (1 << scope); "": those for any queue.
unsigned auth_scopes(const struct exchange *x, const char *queue);
bool auth_asks_tokens(struct server *s);
uint64_t auth_client(const struct exchange *x); // a number for its token, else for its address

void log_access(const struct exchange *x);

struct json *stats_json(const char *queue, const struct sluice_stats *v);
struct json *requests_json(const struct sluice_requests *r);
struct json *message_json(const char *queue, const struct sluice_message *m);
void answer_batch(struct exchange *x, const struct sluice_batch *b);
// spent: freed as soon as it is not needed; may be NULL. acked: as below, or NULL.
void answer_messages(struct exchange *x, const struct sluice_batch *b, struct sluice_batch *spent,
                     const struct async_answer *acked);
// ... of a receive that carried acks; code SLUICE_OK, or why it received nothing
void answer_acked(struct exchange *x, const struct sluice_batch *b, const struct async_answer *a);

struct json *outcomes_json(const struct async_answer *a);

void receive_end_all(struct server *s); // those that wait get nothing
// [{"name", "receives"}]: those of a queue that wait here.
struct json *receive_waiting(struct server *s, const char *queue);
void receive_over(struct exchange *x, bool delivered);
// Another node has answered it; body: what it gave, empty if that were no messages.
void receive_relayed(struct exchange *x, struct bytes body);

void handle_queue_list(struct exchange *x);
void handle_queue_put(struct exchange *x);
void handle_queue_patch(struct exchange *x);
void handle_queue_get(struct exchange *x);
void handle_queue_delete(struct exchange *x);
void handle_pause(struct exchange *x);
void handle_resume(struct exchange *x);
void handle_purge(struct exchange *x);
void handle_redrive(struct exchange *x);
void handle_stats(struct exchange *x);
void handle_workers(struct exchange *x);
void handle_send(struct exchange *x);
void handle_receive(struct exchange *x);
void handle_ack(struct exchange *x);
void handle_fail(struct exchange *x);
void handle_release(struct exchange *x);
void handle_renew(struct exchange *x);
void handle_peek(struct exchange *x);
void handle_show(struct exchange *x);
void handle_events(struct exchange *x);
void handle_node(struct exchange *x);
void handle_dashboard(struct exchange *x);
void handle_asset(struct exchange *x);
void handle_openapi(struct exchange *x);
void handle_metrics(struct exchange *x);
void handle_healthz(struct exchange *x);
void handle_readyz(struct exchange *x);
