// SPDX-License-Identifier: Apache-2.0
// Clients with a runner of their own, as if each were a process that has the store open.
#include "inside.h"

#include "base/memory.h"
#include "os/clock.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>

void drivers_begin(struct bench *b)
{
    (void)b;
}

void drivers_end(struct bench *b)
{
    store_free(b->store);
}

void spec_join(struct client *w, const struct runner_config *config)
{
    (void)w;
    (void)config;
}

void spec_leave(struct client *w)
{
    (void)w;
}

void drivers_look(struct bench *b)
{
    (void)b;
}

struct send_row spec_send_message(struct client *w, const struct message *m,
                                  const struct request_id *request)
{
    CLEANUP(buf_done) struct buf payload;
    buf_init(&payload, 1 << 20);
    struct request_id id = request ? *request : request_new();
    send_begin(&payload, &id);
    send_add(&payload, m);
    send_end(&payload, 0, 1);
    struct result result;
    struct send_row row = {0};
    (void)bench_perform(w, OP_SEND, &payload, &result);
    if (!send_row_next(&result, &row)) row.reason = result.reason; // refused as a whole
    return row;
}

void spec_send_numbers(struct client *w, uint64_t first, uint32_t count)
{
    CLEANUP(buf_done) struct buf payload;
    buf_init(&payload, 1 << 20);
    struct request_id request = request_new();
    send_begin(&payload, &request);
    for (uint32_t i = 0; i < count; i++) {
        char body[BENCH_TEXT_MAX]; // long enough for a backlog to be larger than one read
        (void)snprintf(body, sizeof body, "%-190" PRIu64, first + i);
        send_add(&payload, &(struct message){.body = bytes_str(body)});
    }
    send_end(&payload, 0, count);
    struct result result;
    assert_int_equal(bench_perform(w, OP_SEND, &payload, &result), ERR_OK);
}

static void copy_text(char *to, struct bytes from)
{
    (void)snprintf(to, BENCH_TEXT_MAX, "%.*s", (int)from.len, (const char *)from.data);
}

static void hold(struct held_message *m, const struct delivery *d)
{
    *m = (struct held_message){.seq = d->grant.seq,
                               .token = d->grant.token,
                               .fence = d->grant.fence,
                               .deadline = d->grant.deadline,
                               .deliveries = d->grant.deliveries,
                               .retries = d->grant.retries,
                               .order = d->grant.order};
    copy_text(m->body, d->message.body);
    struct reader r = reader_of(d->message.headers);
    struct bytes name, value;
    while (m->headers_len < 8 && headers_next(&r, &name, &value)) {
        copy_text(m->headers[m->headers_len][0], name);
        copy_text(m->headers[m->headers_len++][1], value);
    }
}

size_t spec_claim_as(struct client *w, const struct request_id *request, struct held_message *out,
                     size_t max)
{
    struct op_claim claim = bench_claim(w->name, max);
    claim.request = *request;
    assert_int_equal(runner_receive(w->runner, &claim, 0, &w->answer), ERR_OK);
    for (size_t i = 0; i < w->answer.deliveries_len; i++)
        hold(&out[i], &w->answer.deliveries[i]);
    return w->answer.deliveries_len;
}

static void *receive(void *arg)
{
    struct receiver *r = arg;
    struct kept_reply answer;
    kept_reply_init(&answer);
    struct op_claim claim = bench_claim(r->name, 1);
    r->err = runner_receive(r->client->runner, &claim, RECEIVE_WAIT_MS, &answer);
    r->count = answer.deliveries_len;
    if (r->count > 0) hold(&r->got, &answer.deliveries[0]);
    kept_reply_done(&answer);
    return NULL;
}

void receiver_start(struct receiver *r, struct client *w, const char *name)
{
    *r = (struct receiver){.client = w, .name = name};
    size_t before = runner_waiting(w->runner);
    assert_int_equal(pthread_create(&r->thread, NULL, receive, r), 0);
    while (runner_waiting(w->runner) <= before)
        (void)sched_yield();
}

void receiver_end(struct receiver *r)
{
    assert_int_equal(pthread_join(r->thread, NULL), 0);
}

static struct outcome_row last_row(struct client *w, uint16_t kind)
{
    struct result result;
    struct outcome_row row = {0};
    assert_int_equal(result_open(buf_bytes(&w->answer.body), kind, &result), ERR_OK);
    if (!outcome_row_next(&result, &row)) row.reason = result.reason;
    return row;
}

enum reason spec_settle(struct client *w, const struct settle_step *s, const struct held_message *m)
{
    CLEANUP(buf_done) struct buf payload;
    CLEANUP(buf_done) struct buf refs;
    buf_init(&payload, 1 << 20);
    buf_init(&refs, LOCK_REF_BYTES);
    lock_ref_put(&refs, &(struct lock_ref){.seq = m->seq, .token = m->token});
    struct op_outcome op = {.request = s->request ? *s->request : request_new(),
                            .wait_ms = s->wait_ms,
                            .reason = bytes_str(s->why),
                            .count = 1,
                            .refs = buf_bytes(&refs),
                            .arrived_at = 0};
    runner_outcome_origin(w->runner, &op);
    outcome_encode(&payload, &op);
    struct result result;
    (void)bench_perform(w, s->kind, &payload, &result);
    return last_row(w, s->kind).reason;
}

enum outcome_status spec_status(struct client *w)
{
    return last_row(w, OP_ACK).status;
}

int64_t spec_until(struct client *w)
{
    return last_row(w, OP_RENEW).until;
}

static void plain(struct client *w, uint16_t kind)
{
    CLEANUP(buf_done) struct buf payload;
    buf_init(&payload, 1 << 10);
    plain_encode(&payload, &(struct op_plain){.request = request_new()});
    struct result result;
    assert_int_equal(bench_perform(w, kind, &payload, &result), ERR_OK);
}

void spec_pause(struct client *w)
{
    plain(w, OP_PAUSE);
}

void spec_resume(struct client *w)
{
    plain(w, OP_RESUME);
}

uint64_t spec_purge(struct client *w, bool dead)
{
    CLEANUP(buf_done) struct buf payload;
    buf_init(&payload, 1 << 10);
    purge_encode(&payload, &(struct op_purge){.request = request_new(), .dead = dead});
    struct result result;
    assert_int_equal(bench_perform(w, OP_PURGE, &payload, &result), ERR_OK);
    return result.value;
}

uint64_t spec_redrive(struct client *w, uint32_t max)
{
    CLEANUP(buf_done) struct buf payload;
    buf_init(&payload, 1 << 10);
    redrive_encode(&payload, &(struct op_redrive){.request = request_new(), .max = max});
    struct result result;
    assert_int_equal(bench_perform(w, OP_REDRIVE, &payload, &result), ERR_OK);
    return result.value;
}

struct machine_stats spec_stats(struct client *w)
{
    return bench_look(w, 0).stats;
}

enum message_state spec_state(struct client *w, uint64_t seq, enum err *err)
{
    struct state_look look = bench_look(w, seq);
    if (err) *err = look.err;
    return look.view.state;
}

bool spec_end(struct client *w, uint64_t seq, struct spec_end *out)
{
    struct state_look look = bench_look(w, seq);
    *out = look.end;
    return look.ended;
}

static enum err carry(void *ctx, const char *to, struct op op)
{
    struct client *w = ctx;
    (void)to;
    return runner_do(w->runner, op, &w->answer);
}

size_t spec_carry(struct client *w, struct client *to)
{
    spec_look(w);
    size_t carried = runner_move_dead_letters(w->runner, carry, to);
    // The source forgets what was carried by an op that no call waits for.
    int64_t end = clock_boot_ms() + 20000;
    while (spec_stats(w).counts[STATE_OUTBOUND] > 0 && clock_boot_ms() < end)
        spec_look(w);
    return carried;
}

static void keep_event(void *ctx, const struct events *list, const struct event *e)
{
    (void)list;
    struct client *w = ctx;
    w->events = memory_resize(w->events, (w->events_len + 1) * sizeof *w->events);
    w->events[w->events_len++] = *e;
}

size_t spec_events(struct client *w, enum event_kind kind, struct event *out, size_t max)
{
    spec_look(w);
    runner_events(w->runner, keep_event, w);
    size_t count = 0;
    for (size_t i = 0; i < w->events_len; i++) {
        if (w->events[i].kind != kind) continue;
        if (count < max) out[count] = w->events[i];
        count++;
    }
    return count;
}
