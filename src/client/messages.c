// SPDX-License-Identifier: Apache-2.0
// Sends, receives and settles messages through a node, in the compact encoding. A call that is too
// large for one request becomes several. Their request ids are derived from the caller's id.
#include "client/client.h"
#include "protocol/names.h"

#include "base/memory.h"
#include "os/clock.h"
#include "os/entropy.h"
#include "protocol/wire.h"
#include "queue/codec/ops.h"

#include <string.h>

#define PART_BYTES_MAX ((size_t)8 << 20) // of messages in one request, unless one message is larger
#define MESSAGE_ROOM   4096              // an estimate of a message without its body
#define WAIT_MAX_MS    (INT64_C(24) * 3600 * 1000)
// the first part number of surplus acks; the node derives other numbers for the receive
#define SURPLUS_PART   ((size_t)1 << 29)

static struct sluice_request request_new(void)
{
    struct sluice_request request;
    entropy_fill(request.bytes, sizeof request.bytes);
    return request;
}

// Derives the request id of one part of a call. The node numbers the ops of a request from 0, so
// the numbers of parts are above those.
static struct sluice_request part_of(const struct sluice_request *whole, size_t part)
{
    struct request_id id = request_part(whole->bytes, (uint64_t)part << 32);
    struct sluice_request request;
    memcpy(request.bytes, id.bytes, sizeof request.bytes);
    return request;
}

// A call that may need several requests, each with a part of its messages or tokens.
struct parts {
    struct node_client *remote;
    struct ask ask;
    struct http_call call;
    struct buf body;
    struct sluice_error *error;
    enum sluice_code code; // of the first refusal
};

static void parts_init(struct parts *p, struct node_client *s, enum route_id id, const char *queue,
                       struct sluice_error *error)
{
    struct node_client *r = s;
    struct ask ask = {.call = id, .queue = queue, .wire = true, .until = client_until(r)};
    *p = (struct parts){.remote = r, .ask = ask, .error = error};
    http_call_init(&p->call, NULL, NULL);
    buf_init(&p->body, SIZE_MAX);
}

static void parts_done(struct parts *p)
{
    buf_done(&p->body);
    http_call_done(&p->call);
}

// Sends the part in p->body. It is answered by rows of one of the two kinds; the other is NULL.
static void ask_part(struct parts *p, const struct sluice_request *request,
                     struct sluice_sent *sent, struct sluice_outcome *outcomes, size_t len)
{
    struct sluice_error why = {.code = SLUICE_OK};
    bool again = false;
    p->ask.request = request;
    p->ask.body = buf_bytes(&p->body);
    enum sluice_code code = client_ask(p->remote, &p->ask, &p->call, &again, &why);
    struct bytes answer = buf_bytes(&p->call.body_in);
    bool readable = !code && (sent ? wire_read_sent(answer, sent, len, &why)
                                   : wire_read_outcomes(answer, outcomes, len, &why));
    if (!code && !readable) code = client_unreadable(&p->call, &why);
    if (readable && again) {
        sent_repeated(sent, len);
        outcomes_repeated(outcomes, len);
        why.code = code_repeated(why.code);
    }
    if (readable) code = why.code;
    for (size_t i = 0; sent && !readable && i < len; i++)
        sent[i] = (struct sluice_sent){.code = code};
    for (size_t i = 0; outcomes && !readable && i < len; i++)
        outcomes[i] = (struct sluice_outcome){.code = code, .status = ""};
    if (p->code || !code) return;
    p->code = code;
    if (p->error) *p->error = why;
}

static size_t size_of(const struct sluice_send *m)
{
    size_t size = m->body_len + MESSAGE_ROOM;
    for (size_t i = 0; i < m->headers_len; i++)
        size += (m->headers[i].name ? strlen(m->headers[i].name) : 0) +
                (m->headers[i].value ? strlen(m->headers[i].value) : 0) + 10;
    return size;
}

// Returns how many of the messages fit in one request.
static size_t part_len(const struct sluice_send *messages, size_t len)
{
    size_t bytes = 0, count = 0;
    while (count < len && count < ROUTE_ITEMS_MAX) {
        bytes += size_of(&messages[count]);
        if (count > 0 && bytes > PART_BYTES_MAX) break;
        count++;
    }
    return count;
}

// A body that every node refuses is not sent.
static enum sluice_code check_sizes(const struct sluice_send *messages, size_t len,
                                    struct sluice_error *error)
{
    for (size_t i = 0; i < len; i++)
        if (messages[i].body_len > BODY_BYTES_MAX)
            return refuse(error, ERR_INVALID, "body", "body has %zu bytes; at most %zu are allowed",
                          messages[i].body_len, BODY_BYTES_MAX);
    return SLUICE_OK;
}

enum sluice_code client_send(struct node_client *s, const char *queue,
                             const struct sluice_send *messages, size_t len,
                             const struct sluice_request *request, struct sluice_sent *sent,
                             struct sluice_error *error)
{
    enum sluice_code code = client_check(s, queue, error);
    if (!code) code = check_sizes(messages, len, error);
    for (size_t i = 0; code && sent && i < len; i++)
        sent[i] = (struct sluice_sent){.code = code};
    if (code) return code;
    struct sluice_request whole = request ? *request : request_new();
    struct sluice_sent *answers = sent ? sent : memory_zeroed(len + 1, sizeof *answers);
    struct nodes *nodes = &s->nodes;
    LOCAL(parts, sending, s, ROUTE_SEND, queue, error);
    size_t done = 0, part = 0;
    do { // with no message, too: the answer says whether the queue exists
        size_t count = part_len(messages + done, len - done);
        struct sluice_request id = part_of(&whole, part++);
        buf_clear(&sending.body);
        wire_put_sends(&sending.body, messages + done, count);
        sending.ask.prefer = 1 + nodes_for_sends(nodes, queue, messages + done, count, &id);
        ask_part(&sending, &id, answers + done, NULL, count);
        done += count;
    } while (done < len);
    size_t taken = 0;
    bool in_doubt = false;
    for (size_t i = 0; i < len; i++) {
        taken += answers[i].code == SLUICE_OK;
        in_doubt = in_doubt || answers[i].code == SLUICE_UNKNOWN;
    }
    if (!sent) memory_free(answers);
    return taken > 0 || in_doubt ? refuse_partly(error, sending.code, taken, len, "messages")
                                 : sending.code;
}

// The leases of the answer count from the node's answer. The network's time is subtracted.
static void shorten_leases(struct sluice_batch *b, const struct http_call *call)
{
    struct bytes text = http_header(call, "sluice-took");
    int64_t took = 0;
    for (size_t i = 0; i < text.len && i < 12 && text.data[i] >= '0' && text.data[i] <= '9'; i++)
        took = took * 10 + text.data[i] - '0';
    int64_t way = call->received_ms - call->sent_ms - took;
    for (size_t i = 0; way > 0 && i < b->len; i++) {
        int64_t *lease = &b->messages[i].lease_ms;
        *lease = *lease > way ? *lease - way : 0;
    }
}

struct client_receive {
    struct node_client *remote;
    const char *queue;
    struct receive_in what; // its acks are empty if there are none or if they are done
    size_t acks_len;
    const struct sluice_ack *results; // of the acks; NULL: none
    struct sluice_outcome *acked;
    struct sluice_batch **out;
    struct sluice_error *error;
};

// If the answer can be read, the acks are done, even if the receive failed.
static enum sluice_code read_answer(struct client_receive *r, const struct http_call *call)
{
    struct bytes body = buf_bytes(&call->body_in);
    struct sluice_error why = {.code = SLUICE_OK};
    bool read = r->what.acks.len > 0
                    ? wire_read_batch_acked(body, r->out, r->acked, r->acks_len, &why)
                    : wire_read_batch(body, r->out);
    if (!read) return client_unreadable(call, r->error);
    r->what.acks.len = 0;
    if (why.code == SLUICE_OK) return SLUICE_OK;
    sluice_batch_free(*r->out);
    *r->out = NULL;
    if (r->error) *r->error = why;
    return why.code;
}

// Sends one request. The node waits up to what.wait.
static enum sluice_code receive_once(struct client_receive *r, const struct sluice_request *request)
{
    CLEANUP(http_call_done) struct http_call call;
    struct ask ask = {.call = ROUTE_RECEIVE,
                      .queue = r->queue,
                      .wire = true,
                      .request = request,
                      .worker = r->what.worker,
                      .until = client_until(r->remote),
                      .wait_ms = r->what.wait};
    const struct field_texts *acks = &r->what.acks;
    ask.prefer = 1 + nodes_for_tokens(&r->remote->nodes, r->queue, acks->rows, acks->len);
    http_call_init(&call, NULL, NULL);
    LOCAL(buf, body, SIZE_MAX);
    wire_put_receive(&body, &r->what, acks->len > 0 ? r->results : NULL);
    ask.body = buf_bytes(&body);
    bool again = false;
    enum sluice_code code = client_ask(r->remote, &ask, &call, &again, r->error);
    if (!code) code = read_answer(r, &call);
    if (again) {
        outcomes_repeated(r->acked, r->acks_len);
        code = code_repeated(code);
        if (code && r->error) r->error->code = code;
    }
    if (!code) shorten_leases(*r->out, &call);
    return code;
}

// Returns how many tokens, with their results, fit in one request.
static size_t settle_len(const struct settle *what, size_t first)
{
    size_t bytes = 0, count = 0, len = what->len - first;
    while (count < len && count < ROUTE_ITEMS_MAX) {
        bytes += what->acks ? what->acks[first + count].result_len : 0;
        if (count > 0 && bytes > PART_BYTES_MAX) break;
        count++;
    }
    return count;
}

// Acks that do not fit in the request are sent before it. Their part numbers are above those of the
// receive.
static void ack_surplus(struct node_client *s, const char *queue, const struct sluice_receive *o,
                        struct client_receive *r)
{
    struct settle all = {.len = o->acks_len, .acks = o->results};
    size_t first = settle_len(&all, 0), surplus = o->acks_len - first;
    if (surplus == 0) return;
    struct sluice_request part;
    if (o->request) part = part_of(o->request, SURPLUS_PART);
    struct settle what = {.kind = SETTLE_ACK,
                          .tokens = o->acks + first,
                          .len = surplus,
                          .acks = o->results ? o->results + first : NULL,
                          .request = o->request ? &part : NULL};
    (void)client_settle(s, queue, &what, o->acked + first, NULL);
    r->acks_len = r->what.acks.len = first;
}

// If the acks are done and the receive failed, the receive is sent again without acks.
static bool may_go_on(enum sluice_code code, bool readable)
{
    return readable && (code == SLUICE_UNKNOWN || code == SLUICE_UNAVAILABLE);
}

enum sluice_code client_receive(struct node_client *s, const char *queue,
                                const struct sluice_receive *options, struct sluice_batch **out,
                                struct sluice_error *error)
{
    static const struct sluice_receive none = {0};
    const struct sluice_receive *o = options ? options : &none;
    struct node_client *remote = s;
    char name[WORKER_NAME_MAX + 1];
    *out = NULL;
    enum sluice_code code = client_check(remote, queue, error);
    if (code) return code;
    if (!o->worker) worker_default(name);
    if (o->worker) code = worker_check(o->worker, error);
    if (code) return code;
    struct client_receive r = {.remote = remote,
                               .queue = queue,
                               .what = {.worker = o->worker ? o->worker : name,
                                        .max = o->max > 0 ? o->max : 1,
                                        .visibility = o->visibility_ms,
                                        .acks = {o->acks, o->acks_len}},
                               .acks_len = o->acks_len,
                               .results = o->results,
                               .acked = o->acked,
                               .out = out,
                               .error = error};
    code = settle_check(&(struct settle){.len = o->acks_len, .acks = o->results}, error);
    if (code) return code;
    ack_surplus(s, queue, o, &r);
    int64_t wait = o->wait_ms < 0 ? 0 : o->wait_ms < WAIT_MAX_MS ? o->wait_ms : WAIT_MAX_MS;
    int64_t until = clock_boot_ms() + wait;
    for (struct sluice_request id;;) {
        if (!code) id = o->request ? *o->request : request_new();
        int64_t left = until - clock_boot_ms();
        r.what.wait = left < 0 ? 0 : left < RECEIVE_WAIT_MAX_MS ? left : RECEIVE_WAIT_MAX_MS;
        bool acks = r.what.acks.len > 0;
        code = receive_once(&r, &id);
        if (may_go_on(code, acks && r.what.acks.len == 0)) continue;
        if (code || (*out)->len > 0 || clock_boot_ms() >= until) return code;
        sluice_batch_free(*out);
        *out = NULL;
    }
}

enum sluice_code client_settle(struct node_client *s, const char *queue, const struct settle *what,
                               struct sluice_outcome *outcomes, struct sluice_error *error)
{
    static const enum route_id calls[] = {[SETTLE_ACK] = ROUTE_ACK,
                                          [SETTLE_FAIL] = ROUTE_FAIL,
                                          [SETTLE_RELEASE] = ROUTE_RELEASE,
                                          [SETTLE_RENEW] = ROUTE_RENEW};
    enum sluice_code code = client_check(s, queue, error);
    if (!code) code = settle_check(what, error);
    if (code) return code;
    struct nodes *nodes = &s->nodes;
    LOCAL(parts, parts, s, calls[what->kind], queue, error);
    size_t len = what->len, done = 0, part = 0;
    struct sluice_outcome *answers = outcomes ? outcomes : memory_zeroed(len + 1, sizeof *answers);
    do {
        size_t count = settle_len(what, done);
        struct sluice_request id = what->request ? part_of(what->request, part++) : request_new();
        buf_clear(&parts.body);
        struct settle_in in = {
            .tokens = {what->tokens + done, count}, .wait = what->wait_ms, .reason = what->reason};
        wire_put_settle(&parts.body, &in, what->acks ? what->acks + done : NULL,
                        what->renewals ? what->renewals + done : NULL);
        parts.ask.prefer = 1 + nodes_for_tokens(nodes, queue, what->tokens + done, count);
        ask_part(&parts, &id, NULL, answers + done, count);
        done += count;
    } while (done < len);
    if (!outcomes) memory_free(answers);
    return parts.code;
}
