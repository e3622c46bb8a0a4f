// SPDX-License-Identifier: Apache-2.0
// The library by way of a node: each call of sluice.h becomes a request of docs/http.md.
//
// A request whose answer did not come is sent again until the handle's timeout has passed. Writes
// carry a request id, so that the node does again nothing that it has done. What is then answered
// depends on what can be known: UNAVAILABLE when no try can have had an effect, else UNKNOWN.
#pragma once

#include "local/async.h"
#include "local/inside.h"
#include "net/http.h"
#include "os/fork_guard.h"
#include "json/json.h"

#define REMOTE_URL_MAX   1024
#define REMOTE_TOKEN_MAX 512
#define REMOTE_WAIT_MS   20000 // the longest that a node lets a receive wait

struct remote {
    struct sluice handle; // first
    char url[REMOTE_URL_MAX];
    char authorization[REMOTE_TOKEN_MAX + 32]; // a header's line; "": no token. Not for printing.
    struct http *http;             // for what takes a while: TLS, proxies, event streams
    struct http_plain *plain_http; // for all else; NULL: not possible
    struct fork_guard guard;
    bool forwards;       // what it is asked for was to be done here
    int64_t patience_ms; // for each answer, which is asked for once; 0: again and again
};

// Whether the URL names a node.
bool remote_is_url(const char *url);
// sluice_open for such a URL; an error never repeats what may be a secret in it.
enum sluice_code remote_open(const char *url, const struct sluice_options *options,
                             struct sluice **out, struct sluice_error *error);

// The same for a node that a journal names, to which a caller's own work is brought: nothing is
// told to anything that does not prove to be that node. The name is borrowed for as long as the
// handle lives.
struct owner_name;
enum sluice_code remote_open_peer(const struct owner_name *name,
                                  const struct sluice_options *options, struct sluice **out);

enum ask_kind {
    ASK_READ,  // changes nothing: may be repeated, and what is lost had no effect
    ASK_AGAIN, // may be repeated: it has a request id, or is the same the second time
    ASK_ONCE,  // not after it may have arrived
};

struct ask {
    enum ask_kind kind;
    const char *method;
    const char *path; // after the node's URL, percent-encoded
    const char *type; // of the body; NULL: there is none
    bool wire;        // the answer is wanted in the compact encoding
    bool failures;    // ... with what messages failed for
    struct bytes body;
    const struct sluice_request *request; // NULL: none
    int64_t until;   // clock_boot_ms; when it is to be given up; 0: after one try
    int64_t wait_ms; // how long the node may wait on purpose; longer than that is the network's
};

// Sends the request, again where it may be, until it was answered. SLUICE_OK: the answer's body is
// in call->body_in. `again` (may be NULL) tells that some earlier try may have been carried out.
enum sluice_code remote_ask(struct remote *r, const struct ask *ask, struct http_call *call,
                            bool *again, struct sluice_error *error);
// Its URL and headers, for somebody who sends it himself. They live as long as `head`.
#define ASK_HEADERS_MAX 5
#define ASK_REQUEST_MAX 64
struct ask_head {
    char url[REMOTE_URL_MAX + 512];
    char request[ASK_REQUEST_MAX];
    char content_type[64];
    const char *lines[ASK_HEADERS_MAX];
    size_t lines_len;
};
void ask_head_make(const struct remote *r, const struct ask *ask, struct ask_head *head);
// The error that an answer other than 2xx tells of.
enum sluice_code ask_read_error(const struct http_call *call, struct sluice_error *out);
int64_t remote_until(const struct remote *r); // from now on, the handle's timeout
// Waits before the next try: longer each time, and nobody as long as the others.
void remote_pause(unsigned tries, int64_t until);
// INVALID in a child of the process that opened the handle, or for a name that no queue has.
enum sluice_code remote_check(const struct remote *r, const char *queue,
                              struct sluice_error *error);
// The body as JSON, to be freed; NULL: it is not, and error says so.
struct json *remote_json(const struct http_call *call, struct sluice_error *error);
enum sluice_code remote_unreadable(const struct http_call *call, struct sluice_error *error);

// Room for a path with a queue and one more name in it.
#define REMOTE_PATH_MAX 480
struct remote_path {
    char text[REMOTE_PATH_MAX];
};
// "/v1/queues/tasks" and what comes after it.
struct remote_path remote_path(const char *queue, const char *rest);
// Appends "?name=value" or "&name=value", percent-encoded; what does not fit is left out.
void remote_query(struct remote_path *path, const char *name, const char *value);

static inline struct remote *remote_of(struct sluice *s)
{
    return (struct remote *)s;
}

enum sluice_code remote_queue_create(struct sluice *s, const char *queue,
                                     const struct sluice_setting *settings, size_t len,
                                     struct sluice_error *error);
enum sluice_code remote_queue_set(struct sluice *s, const char *queue,
                                  const struct sluice_setting *settings, size_t len,
                                  struct sluice_error *error);
enum sluice_code remote_queue_show(struct sluice *s, const char *queue,
                                   struct sluice_queue_info **out, struct sluice_error *error);
enum sluice_code remote_queue_list(struct sluice *s, struct sluice_names **out,
                                   struct sluice_error *error);
enum sluice_code remote_queue_pause(struct sluice *s, const char *queue,
                                    struct sluice_error *error);
enum sluice_code remote_queue_resume(struct sluice *s, const char *queue,
                                     struct sluice_error *error);
enum sluice_code remote_queue_purge(struct sluice *s, const char *queue, int dead, uint64_t *purged,
                                    struct sluice_error *error);
enum sluice_code remote_queue_delete(struct sluice *s, const char *queue,
                                     struct sluice_error *error);
enum sluice_code remote_send(struct sluice *s, const char *queue,
                             const struct sluice_send *messages, size_t len,
                             const struct sluice_request *request, struct sluice_sent *sent,
                             struct sluice_error *error);
bool remote_is_one_request(const struct sluice_send *messages, size_t len);
// ack, fail, release and renew, with the request's id
enum sluice_code remote_settle(struct sluice *s, const char *queue, const struct async_settle *what,
                               struct sluice_outcome *outcomes, struct sluice_error *error);
enum sluice_code remote_receive(struct sluice *s, const char *queue,
                                const struct sluice_receive *options, struct sluice_batch **out,
                                struct sluice_error *error);
enum sluice_code remote_ack(struct sluice *s, const char *queue, const char *const *tokens,
                            size_t len, struct sluice_outcome *outcomes,
                            struct sluice_error *error);
enum sluice_code remote_fail(struct sluice *s, const char *queue, const char *const *tokens,
                             size_t len, const char *reason, struct sluice_outcome *outcomes,
                             struct sluice_error *error);
enum sluice_code remote_release(struct sluice *s, const char *queue, const char *const *tokens,
                                size_t len, int64_t delay_ms, struct sluice_outcome *outcomes,
                                struct sluice_error *error);
enum sluice_code remote_renew(struct sluice *s, const char *queue, const char *const *tokens,
                              size_t len, int64_t visibility_ms, struct sluice_outcome *outcomes,
                              struct sluice_error *error);
enum sluice_code remote_peek(struct sluice *s, const char *queue, const struct sluice_peek *options,
                             struct sluice_batch **out, struct sluice_error *error);
enum sluice_code remote_show(struct sluice *s, const char *queue, const char *id,
                             struct sluice_batch **out, struct sluice_error *error);
enum sluice_code remote_stats(struct sluice *s, const char *queue, struct sluice_stats *out,
                              struct sluice_error *error);
void remote_requests(const struct sluice *s, struct sluice_requests *out);
enum sluice_code remote_workers(struct sluice *s, const char *queue, struct sluice_worker *out,
                                size_t max, size_t *len, struct sluice_error *error);
enum sluice_code remote_redrive(struct sluice *s, const char *queue, const char *to, uint32_t max,
                                uint64_t *redriven, struct sluice_error *error);
enum sluice_code remote_events_open(struct sluice *s, const char *queue, uint64_t position,
                                    struct sluice_events **out, struct sluice_error *error);
enum sluice_code remote_events_next(struct sluice_events *e, int64_t wait_ms,
                                    struct sluice_event *out, struct sluice_error *error);
void remote_events_close(struct sluice_events *e);
