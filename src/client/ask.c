// SPDX-License-Identifier: Apache-2.0
// Sends one request to a node until it is answered. Decides which requests may be repeated, and
// whether a request without an answer may have been applied.
#include "client/client.h"
#include "client/probe.h"

#include "base/check.h"
#include "base/digits.h"
#include "net/http1.h"
#include "net/http_text.h"
#include "os/clock.h"
#include "os/entropy.h"
#include "protocol/owner_map.h"
#include "protocol/wire.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define PAUSE_MIN_MS 10
#define PAUSE_MAX_MS 1000
#define GRACE_MS     1000 // a node whose time runs out together with ours can still answer
#define CONNECT_MS   1000 // for a connection, if there are other nodes
#define ATTEMPT_MS   5000 // for an answer, if there are other nodes
#define ANSWER_MAX   ((size_t)1 << 30)

int64_t client_until(const struct node_client *r)
{
    return clock_boot_ms() + r->timeout_ms;
}

enum sluice_code client_check(const struct node_client *r, const char *queue,
                              struct sluice_error *error)
{
    if (!fork_guard_same(&r->guard))
        return refuse(error, ERR_INVALID, "",
                      "this handle was opened before fork; open another one in the child");
    return queue ? queue_check_name(queue, error) : SLUICE_OK;
}

// Text that is appended piece by piece. Each request makes its URL, and snprintf would take longer
// than the rest of the request.
struct line {
    char *at;
    const char *end; // the last place, for the final zero
};

static void line_put(struct line *l, const char *text, size_t len)
{
    CHECK(len <= (size_t)(l->end - l->at));
    memcpy(l->at, text, len);
    l->at += len;
    *l->at = '\0';
}

static void line_text(struct line *l, const char *text)
{
    line_put(l, text, strlen(text));
}

static bool is_unreserved(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.' || c == '~';
}

// Writes the value percent-encoded.
static void put_encoded(struct line *l, const char *value)
{
    static const char digits[] = "0123456789ABCDEF";
    while (*value) {
        size_t plain = 0;
        while (is_unreserved(value[plain]))
            plain++;
        line_put(l, value, plain);
        value += plain;
        if (!*value) return;
        uint8_t byte = (uint8_t)*value++;
        line_put(l, (char[]){'%', digits[byte >> 4], digits[byte & 15]}, 3);
    }
}

// A value that does not fit is left out.
static void put_parameter(struct line *l, char *before, const char *name, const char *value)
{
    if (strlen(name) + 3 * strlen(value) + 2 > (size_t)(l->end - l->at)) return;
    line_put(l, before, 1);
    *before = '&';
    line_text(l, name);
    line_text(l, "=");
    put_encoded(l, value);
}

// Puts the queue's name and the id of a message or workflow in their places.
static void put_path(struct line *l, const struct ask *ask)
{
    const char *at = route_table[ask->call].pattern;
    for (const char *open; (open = strchr(at, '{')); at = strchr(open, '}') + 1) {
        line_put(l, at, (size_t)(open - at));
        put_encoded(l, open[1] == 'q' ? ask->queue : ask->id);
    }
    line_text(l, at);
}

static void put_query(struct line *l, const struct fields *table, const void *in)
{
    char before = '?';
    for (size_t i = 0; i < table->len; i++) {
        char number[FIELD_TEXT_MAX];
        const struct field *f = &table->rows[i];
        const char *value = field_text(f, in, number);
        if (value) put_parameter(l, &before, f->name, value);
        if (f->kind != FIELD_TEXTS) continue;
        const struct field_texts *list = (const void *)((const char *)in + f->at);
        for (size_t k = 0; k < list->len; k++)
            put_parameter(l, &before, f->name, list->rows[k]);
    }
}

static void put_url(const struct client_node *node, const struct ask *ask, struct ask_head *head)
{
    const struct fields *query = route_table[ask->call].query;
    struct line l = {head->url, head->url + sizeof head->url - 1};
    line_text(&l, node->url);
    l.end = l.at + ASK_PATH_MAX - 1;
    put_path(&l, ask);
    if (ask->in && query) put_query(&l, query, ask->in);
}

static void add_line(struct ask_head *head, const char *line)
{
    CHECK(head->lines_len < ASK_HEADERS_MAX);
    head->lines[head->lines_len++] = line;
}

static void print_request(const struct sluice_request *request, char text[ASK_REQUEST_MAX])
{
    static const char name[] = "Sluice-Request: ";
    static_assert(sizeof name + 2 * sizeof request->bytes <= ASK_REQUEST_MAX,
                  "the buffer is large enough");
    memcpy(text, name, sizeof name);
    *digits_put_hex(text + sizeof name - 1, request->bytes, sizeof request->bytes) = '\0';
}

// Returns whether nodes forward the call to a shard's owner.
static bool is_forwarded(const struct ask *ask)
{
    return ask->queue && route_table[ask->call].repeat == REPEAT_ID;
}

// The call is a sign of life of the worker, if it joined with this handle.
static void add_worker(struct node_client *r, const struct ask *ask, struct ask_head *head)
{
    char name[WORKER_NAME_MAX + 1];
    uint64_t instance;
    bool signs = ask->call == ROUTE_RECEIVE || ask->call == ROUTE_RENEW;
    if (!signs || !r->worker || !r->worker(r->worker_ctx, ask->queue, ask->worker, name, &instance))
        return;
    (void)snprintf(head->worker, sizeof head->worker, WORKER_HEADER ": %016llx %s",
                   (unsigned long long)instance, name);
    add_line(head, head->worker);
}

void ask_head_make(struct node_client *r, size_t node, const struct ask *ask, struct ask_head *head)
{
    head->lines_len = 0;
    put_url(&r->nodes.all[node], ask, head);
    if (is_forwarded(ask) && nodes_ask_owners(&r->nodes, ask->queue, head->owners))
        add_line(head, head->owners);
    if (r->authorization[0]) add_line(head, r->authorization);
    if (ask->wire || ask->wire_answer) add_line(head, "Accept: " WIRE_TYPE);
    if (ask->body.len > 0)
        add_line(head, ask->wire ? "Content-Type: " WIRE_TYPE : "Content-Type: application/json");
    if (ask->request) {
        print_request(ask->request, head->request);
        add_line(head, head->request);
    }
    add_worker(r, ask, head);
}

static bool type_is(const struct http_call *call, const char *type)
{
    struct bytes given = http_header(call, "content-type");
    size_t len = strlen(type);
    return given.len >= len && strncasecmp((const char *)given.data, type, len) == 0;
}

static bool read_problem(struct bytes body, struct sluice_error *out)
{
    CLEANUP(json_let_go) struct json *o = json_read_object(body);
    if (o) fields_take(o, &problem_answer, out);
    return out->code != SLUICE_OK;
}

// The answer is not from a node: a proxy or another server sent it.
static void report_status(const struct http_call *call, struct sluice_error *out)
{
    int status = call->status;
    enum err err = status == 401 || status == 403                                     ? ERR_DENIED
                   : status == 413 || status == 429                                   ? ERR_LIMIT
                   : status == 500 || status == 502 || status == 503 || status == 504 ? ERR_UNKNOWN
                                                                                      : ERR_INVALID;
    char place[HTTP_PLACE_MAX] = "";
    if (call->url) http_place(call->url, place);
    bool secure = call->url && strncmp(call->url, "https:", 6) == 0;
    (void)refuse(out, err, "store",
                 err == ERR_INVALID ? "http%s://%s answered %d and is not a Sluice node; check the "
                                      "URL (a node listens on 7333 by default)"
                                    : "http%s://%s answered %d, but not like a Sluice node",
                 secure ? "s" : "", place, status);
}

// A node of an older release has no such path, or not with this method. It has done nothing.
static void report_old_node(const struct http_call *call, struct sluice_error *out)
{
    char place[HTTP_PLACE_MAX] = "";
    bool path = strcmp(out->reason, "unknown-path") == 0;
    if (!path && strcmp(out->reason, "method-not-allowed") != 0) return;
    if (call->url) http_place(call->url, place);
    (void)refuse(
        out, ERR_UNAVAILABLE, "store",
        "upgrade needed: the node at %s does not know this call; use a newer release there", place);
    (void)snprintf(out->reason, sizeof out->reason, UPGRADE_NEEDED);
}

enum sluice_code ask_read_error(const struct http_call *call, struct sluice_error *out)
{
    struct bytes body = buf_bytes(&call->body_in);
    *out = (struct sluice_error){.code = SLUICE_OK};
    bool read = false;
    if (type_is(call, WIRE_TYPE))
        read = wire_read_error(body, out) && out->code != SLUICE_OK;
    else if (body.len > 0)
        read = read_problem(body, out);
    if (!read) report_status(call, out);
    report_old_node(call, out);
    return out->code;
}

enum sluice_code client_unreadable(const struct http_call *call, struct sluice_error *error)
{
    return refuse(error, ERR_CORRUPT, "store", "cannot read the node's answer of %zu bytes",
                  call->body_in.len);
}

struct json *client_json(const struct http_call *call, struct sluice_error *error)
{
    struct json *o = json_read_object(buf_bytes(&call->body_in));
    if (!o) (void)client_unreadable(call, error);
    return o;
}

void client_pause(unsigned tries, int64_t until)
{
    int64_t most = tries < 7 ? (int64_t)PAUSE_MIN_MS << tries : PAUSE_MAX_MS;
    int64_t left = until - clock_boot_ms();
    if (most > left) most = left;
    if (most <= 0) return;
    clock_sleep((int64_t)(entropy_u64() % (uint64_t)most) + 1);
}

// Returns whether the call changes something, so that an attempt without an answer may have had an
// effect.
static bool changes(const struct ask *ask)
{
    return route_table[ask->call].repeat != REPEAT_READ;
}

// Classifies the end of one attempt. `maybe` becomes true if the attempt may have taken effect.
static enum sluice_code classify_answer(const struct ask *ask, const struct http_call *call,
                                        bool *maybe, struct sluice_error *out)
{
    *maybe = false;
    switch (call->end) {
    case HTTP_NOT_SENT:
        return refuse(out, ERR_UNAVAILABLE, "store", "%s", call->why);
    case HTTP_LOST:
        *maybe = changes(ask);
        return refuse(out, *maybe ? ERR_UNKNOWN : ERR_UNAVAILABLE, "store", "%s", call->why);
    case HTTP_TOO_LONG:
        return refuse(out, ERR_LIMIT, "store", "%s", call->why);
    case HTTP_ANSWERED:
        break;
    }
    if (call->status >= 200 && call->status < 300) return SLUICE_OK;
    enum sluice_code code = ask_read_error(call, out);
    *maybe = code == SLUICE_UNKNOWN && changes(ask);
    if (code == SLUICE_UNKNOWN && !*maybe) code = out->code = SLUICE_UNAVAILABLE;
    return code;
}

static enum sluice_code give_up(const struct sluice_error *last, bool maybe,
                                struct sluice_error *error)
{
    enum sluice_code code = maybe ? code_repeated(last->code) : last->code;
    if (error) *error = *last;
    if (error) error->code = code;
    return code;
}

// One attempt at the node. `left`: how long it may take. `others`: another node may be asked next.
static void attempt(struct node_client *r, size_t node, const struct ask *ask, int64_t left,
                    bool others, struct ask_head *head, struct http_call *call)
{
    struct http1_client *plain = r->nodes.all[node].plain;
    struct probe_attempt this = {.remote = r, .node = node, .began = clock_boot_ms()};
    ask_head_make(r, node, ask, head);
    call->method = route_table[ask->call].method;
    call->url = head->url;
    call->headers = head->lines;
    call->headers_len = head->lines_len;
    call->body = ask->body;
    call->body_max = ANSWER_MAX;
    call->timeout_ms = left + ask->wait_ms + GRACE_MS;
    call->connect_ms = others ? CONNECT_MS : 0;
    call->hopeless = others ? probe_is_hopeless : NULL;
    call->hopeless_ctx = &this;
    if (plain)
        http1_do(plain, call);
    else
        http_do(r->http, call);
    nodes_report(&r->nodes, node, call->end == HTTP_ANSWERED || call->end == HTTP_TOO_LONG);
    if (is_forwarded(ask) && call->end == HTTP_ANSWERED)
        nodes_learn(&r->nodes, ask->queue, http_header(call, OWNER_MAP_HEADER));
    call->headers = NULL;
    call->headers_len = 0;
    call->hopeless = NULL;
}

// How long an attempt may take. If the call may be repeated, another node gets its turn before the
// time is over.
static int64_t attempt_ms(const struct ask *ask, bool others)
{
    int64_t left = ask->until - clock_boot_ms();
    return left <= 0 ? 0 : others && left > ATTEMPT_MS ? ATTEMPT_MS : left;
}

static bool is_reason(const struct sluice_error *error, enum reason reason)
{
    return strcmp(error->reason, reason_name(reason)) == 0;
}

enum sluice_code client_ask(struct node_client *r, const struct ask *ask, struct http_call *call,
                            bool *again, struct sluice_error *error)
{
    NOT_ZEROED struct sluice_error last; // set by each attempt that fails
    NOT_ZEROED struct ask_head head;     // the URL of the call is in it, for the error of an answer
    struct nodes_walk walk = nodes_walk(&r->nodes);
    bool maybe = false;
    enum sluice_code code = client_check(r, ask->queue, error);
    if (code) return code;
    bool once = route_table[ask->call].repeat == REPEAT_ONCE && !ask->same_if_twice;
    bool others = r->nodes.len > 1 && !once && !ask->only;
    probe_away(r);
    for (unsigned tries = 0, rounds = 0;; tries++) {
        bool this_one;
        // An earlier part of the same call may have used all the time.
        if (ask->until != 0 && clock_boot_ms() >= ask->until && tries == 0) {
            code = refuse(&last, ERR_UNAVAILABLE, "store",
                          "the time limit was reached before the request was sent");
            break;
        }
        size_t node = ask->only ? ask->prefer - 1 : nodes_next(&r->nodes, &walk, ask->prefer - 1);
        attempt(r, node, ask, attempt_ms(ask, others), others, &head, call);
        code = classify_answer(ask, call, &this_one, &last);
        call->url = NULL;
        if (again) *again = maybe;
        maybe = maybe || this_one;
        bool over = code != SLUICE_UNAVAILABLE && code != SLUICE_UNKNOWN;
        if (over || (this_one && once)) break;
        // Another node may answer at once.
        if (walk.left > 0 && !ask->only && ask->until != 0 && clock_boot_ms() < ask->until)
            continue;
        // A node that is too old for the queue stays so until it is replaced. A further attempt
        // would meet the same certificate. If that attempt timed out, its error would replace the
        // one that names the certificate.
        bool too_old = code == SLUICE_UNAVAILABLE && strcmp(last.reason, UPGRADE_NEEDED) == 0;
        // The node has waited for an owner.
        bool no_owner = code == SLUICE_UNAVAILABLE && strcmp(last.reason, NO_OWNER) == 0;
        // An operator paused or drains the worker, and the caller must know.
        bool ordered = code == SLUICE_UNAVAILABLE && (is_reason(&last, REASON_WORKER_PAUSED) ||
                                                      is_reason(&last, REASON_WORKER_DRAINING));
        if (too_old || no_owner || ordered || call->untrusted) break;
        client_pause(rounds++, ask->until);
        if (clock_boot_ms() >= ask->until) break;
    }
    call->url = NULL;
    return code ? give_up(&last, maybe, error) : SLUICE_OK;
}

struct json *client_ask_json(struct node_client *r, struct ask *ask, enum sluice_code *code,
                             struct sluice_error *error)
{
    CLEANUP(http_call_done) struct http_call call;
    CLEANUP(buf_done) struct buf body;
    const struct fields *fields = route_table[ask->call].body;
    http_call_init(&call, NULL, NULL);
    buf_init(&body, SIZE_MAX);
    if (ask->in && fields) json_write(fields_json(fields, ask->in), &body);
    ask->body = buf_bytes(&body);
    ask->until = client_until(r);
    *code = client_ask(r, ask, &call, NULL, error);
    ask->body = BYTES_EMPTY;
    if (*code) return NULL;
    struct json *o = client_json(&call, error);
    if (!o) *code = SLUICE_CORRUPT;
    return o;
}
