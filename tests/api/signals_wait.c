// SPDX-License-Identifier: Apache-2.0
// Waiting for signals, on a store and by way of a node: the poll of a worker, the signals that come
// with a message, the count of a renewal, the wait of the sender.
#include "acting_rig.h"
#include "api/handle.h"
#include "os/clock.h"
#include "os/thread.h"
#include "queues/queues.h"

#define WAIT_MS 10000
#define SOON_MS 5000
#define THREADS 4

// The handle on the store, where ops are committed directly.
static struct sluice *store_of(const struct rig *r)
{
    return r->behind ? r->behind : r->s;
}

static void commit(const struct rig *r, const char *id, uint16_t kind, struct buf *payload)
{
    struct open_queue *q = NULL;
    struct shard_runner *runner;
    uint32_t shard;
    uint64_t seq;
    FINE(queue_get(store_of(r)->engine, "tasks", &q, &error));
    FINE(id_parse(queue_ref(q), id, &shard, &seq, &error));
    FINE(queue_work_runner(q, shard, &runner, &error));
    assert_int_equal(runner_do(runner, (struct op){kind, buf_bytes(payload)}, NULL), ERR_OK);
    queue_let_go(&q);
}

static void signal_send(const struct rig *r, const char *id, enum signal_kind kind,
                        const char *text, char signal[SLUICE_SIGNAL_ID_MAX])
{
    static uint8_t number;
    struct open_queue *q = NULL;
    uint32_t shard;
    uint64_t seq;
    FINE(queue_get(store_of(r)->engine, "tasks", &q, &error));
    FINE(id_parse(queue_ref(q), id, &shard, &seq, &error));
    queue_let_go(&q);
    CLEANUP(buf_done) struct buf payload, seqs;
    buf_init(&payload, 1 << 17);
    buf_init(&seqs, 8);
    buf_put_u64(&seqs, seq);
    struct op_signal op = {.request = {{9, ++number}},
                           .kind = kind,
                           .flags = kind == SIGNAL_ASK ? SIGNAL_ONCE : 0,
                           .ttl_ms = SIGNAL_TTL_DEFAULT_MS,
                           .payload = bytes_str(text),
                           .count = 1,
                           .seqs = buf_bytes(&seqs)};
    signal_encode(&payload, &op);
    commit(r, id, OP_SIGNAL, &payload);
    for (int i = 0; i < 16; i++)
        (void)snprintf(signal + 2 * i, 3, "%02x", op.request.bytes[i]);
}

static void answer_signal(const struct rig *r, const char *id, const char *token, uint32_t n,
                          const char *text)
{
    static uint8_t number;
    struct open_queue *q = NULL;
    struct lock_name lock;
    FINE(queue_get(store_of(r)->engine, "tasks", &q, &error));
    FINE(token_parse(queue_ref(q), token, &lock, &error));
    CLEANUP(buf_done) struct buf payload, rows;
    buf_init(&payload, 1 << 17);
    buf_init(&rows, 1 << 16);
    signal_answer_put(
        &rows, &(struct signal_answer){.ref = lock.ref, .number = n, .answer = bytes_str(text)});
    struct op_signal_settle op = {.request = {{8, ++number}},
                                  .queue = q->row.id,
                                  .shard = lock.shard,
                                  .arrived_at = 1,
                                  .count = 1,
                                  .rows = buf_bytes(&rows)};
    signal_settle_encode(&payload, &op);
    queue_let_go(&q);
    commit(r, id, OP_SIGNAL_SETTLE, &payload);
}

struct running {
    struct rig rig;
    char id[SLUICE_ID_MAX];
    char token[SLUICE_TOKEN_MAX];
};

static struct running running_new(const struct sluice_setting *settings, size_t len)
{
    struct running r;
    rig_queue(&r.rig, settings, len);
    send_text(r.rig.s, "job", r.id);
    struct sluice_batch *b = receive(r.rig.s, "w", 1);
    assert_int_equal(b->len, 1);
    assert_int_equal(b->messages[0].signals_len, 0);
    memcpy(r.token, b->messages[0].token, sizeof r.token);
    sluice_batch_free(b);
    return r;
}

static struct sluice_signals *poll_for(const struct running *r, int64_t wait_ms)
{
    const char *token = r->token;
    struct sluice_signals *list;
    FINE(sluice_signals_receive(r->rig.s, "tasks", &token, 1, wait_ms, &list, &error));
    return list;
}

static void assert_signal(const struct running *r, const struct sluice_signal_state *row,
                          uint32_t number, const char *text)
{
    assert_int_equal(row->code, SLUICE_OK);
    assert_int_equal(row->number, number);
    assert_string_equal(row->state, "pending");
    assert_string_equal(row->message, r->id);
    assert_string_equal(row->token, r->token);
    assert_int_equal(row->payload_len, strlen(text));
    assert_string_equal(row->payload, text);
    assert_true(row->sent_at > 0);
}

static void signals_come_once_and_in_order(void **state)
{
    (void)state;
    struct running r = running_new(NULL, 0);
    char signal[SLUICE_SIGNAL_ID_MAX];
    signal_send(&r.rig, r.id, SIGNAL_STEER, "{\"a\":1}", signal);
    signal_send(&r.rig, r.id, SIGNAL_ASK, "how far", signal);
    struct sluice_signals *list = poll_for(&r, WAIT_MS);
    assert_int_equal(list->len, 2);
    assert_signal(&r, &list->rows[0], 1, "{\"a\":1}");
    assert_string_equal(list->rows[0].kind, "steer");
    assert_signal(&r, &list->rows[1], 2, "how far");
    assert_string_equal(list->rows[1].id, signal);
    sluice_signals_free(list);
    list = poll_for(&r, 0); // each number comes once
    assert_int_equal(list->len, 0);
    sluice_signals_free(list);
    signal_send(&r.rig, r.id, SIGNAL_STEER, "{}", signal);
    list = poll_for(&r, WAIT_MS);
    assert_int_equal(list->len, 1);
    assert_signal(&r, &list->rows[0], 3, "{}");
    sluice_signals_free(list);
    rig_close(&r.rig);
}

struct poller {
    const struct running *running;
    pthread_t thread;
    size_t got;
    int64_t took_ms;
};

static void *poll_thread(void *ctx)
{
    struct poller *p = ctx;
    int64_t began = clock_boot_ms();
    struct sluice_signals *list = poll_for(p->running, SOON_MS);
    p->took_ms = clock_boot_ms() - began;
    p->got = list->len;
    sluice_signals_free(list);
    return NULL;
}

static void a_poll_that_waits_ends_with_the_signal(void **state)
{
    (void)state;
    struct running r = running_new(NULL, 0);
    char signal[SLUICE_SIGNAL_ID_MAX];
    struct poller p = {.running = &r};
    assert_int_equal(pthread_create(&p.thread, NULL, poll_thread, &p), 0);
    clock_sleep(100); // usually it waits by now; the result is the same if not
    signal_send(&r.rig, r.id, SIGNAL_STEER, "{}", signal);
    assert_int_equal(pthread_join(p.thread, NULL), 0);
    assert_int_equal(p.got, 1);
    assert_true(p.took_ms < SOON_MS);
    rig_close(&r.rig);
}

// Several threads of a handle poll for the same lock: one of them gets the signal.
static void a_number_comes_once_from_a_handle(void **state)
{
    (void)state;
    struct running r = running_new(NULL, 0);
    char signal[SLUICE_SIGNAL_ID_MAX];
    struct poller p[THREADS];
    signal_send(&r.rig, r.id, SIGNAL_STEER, "{}", signal);
    for (int i = 0; i < THREADS; i++) {
        p[i] = (struct poller){.running = &r};
        assert_int_equal(pthread_create(&p[i].thread, NULL, poll_thread, &p[i]), 0);
    }
    size_t got = 0;
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(p[i].thread, NULL), 0);
        got += p[i].got;
    }
    assert_int_equal(got, 1);
    rig_close(&r.rig);
}

static void a_lock_that_is_gone_ends_the_poll_with_the_reason(void **state)
{
    (void)state;
    struct running r = running_new(NULL, 0);
    const char *token = r.token;
    FINE(sluice_ack(r.rig.s, "tasks", &token, 1, NULL, &error));
    struct sluice_signals *list = poll_for(&r, WAIT_MS);
    assert_int_equal(list->len, 1);
    assert_int_equal(list->rows[0].code, SLUICE_CONFLICT);
    assert_string_equal(list->rows[0].token, r.token);
    assert_string_equal(list->rows[0].reason, "terminal");
    assert_int_equal(list->rows[0].number, 0);
    sluice_signals_free(list);
    rig_close(&r.rig);
}

static void bad_tokens_are_named(void **state)
{
    (void)state;
    struct running r = running_new(NULL, 0);
    const char *tokens[] = {r.token, "nonsense"};
    struct sluice_signals *list;
    struct sluice_error e;
    FINE(sluice_signals_receive(r.rig.s, "tasks", tokens, 2, WAIT_MS, &list, &error));
    assert_int_equal(list->len, 1);
    assert_int_equal(list->rows[0].code, SLUICE_INVALID);
    assert_string_equal(list->rows[0].token, "nonsense");
    sluice_signals_free(list);
    assert_int_equal(sluice_signals_receive(r.rig.s, "tasks", tokens, 0, 0, &list, &e),
                     SLUICE_INVALID);
    assert_string_equal(e.field, "tokens");
    assert_int_equal(sluice_signals_receive(r.rig.s, "tasks", tokens, SLUICE_SIGNAL_TOKENS_MAX + 1,
                                            0, &list, &e),
                     SLUICE_INVALID);
    assert_int_equal(sluice_signals_receive(r.rig.s, "nowhere", tokens, 1, 0, &list, &e),
                     SLUICE_NOT_FOUND);
    rig_close(&r.rig);
}

static void signals_come_with_the_message(void **state)
{
    (void)state;
    struct running r;
    char signal[SLUICE_SIGNAL_ID_MAX];
    rig_queue(&r.rig, NULL, 0);
    send_text(r.rig.s, "job", r.id);
    signal_send(&r.rig, r.id, SIGNAL_STEER, "{\"with\":\"it\"}", signal);
    struct sluice_batch *b = receive(r.rig.s, "w", 1);
    assert_int_equal(b->len, 1);
    memcpy(r.token, b->messages[0].token, sizeof r.token);
    assert_int_equal(b->messages[0].signals_len, 1);
    assert_signal(&r, &b->messages[0].signals[0], 1, "{\"with\":\"it\"}");
    sluice_batch_free(b);
    struct sluice_signals *list = poll_for(&r, 0); // it came already
    assert_int_equal(list->len, 0);
    sluice_signals_free(list);
    rig_close(&r.rig);
}

static void a_renewal_says_how_many_wait(void **state)
{
    (void)state;
    struct running r = running_new(NULL, 0);
    const char *token = r.token;
    char signal[SLUICE_SIGNAL_ID_MAX];
    struct sluice_outcome outcome;
    FINE(sluice_renew(r.rig.s, "tasks", &token, 1, 0, &outcome, &error));
    assert_int_equal(outcome.signals, 0);
    signal_send(&r.rig, r.id, SIGNAL_STEER, "{}", signal);
    signal_send(&r.rig, r.id, SIGNAL_STEER, "{}", signal);
    FINE(sluice_renew(r.rig.s, "tasks", &token, 1, 0, &outcome, &error));
    assert_int_equal(outcome.signals, 2);
    rig_close(&r.rig);
}

static void the_sender_gets_the_answer(void **state)
{
    (void)state;
    struct running r = running_new(NULL, 0);
    char signal[SLUICE_SIGNAL_ID_MAX];
    struct sluice_signals *list;
    struct sluice_error e;
    signal_send(&r.rig, r.id, SIGNAL_ASK, "how far", signal);
    FINE(sluice_signal_wait(r.rig.s, "tasks", signal, NULL, 20, &list, &error));
    assert_int_equal(list->len, 1);
    assert_string_equal(list->rows[0].state, "pending");
    sluice_signals_free(list);
    answer_signal(&r.rig, r.id, r.token, 1, "half");
    FINE(sluice_signal_wait(r.rig.s, "tasks", signal, r.id, WAIT_MS, &list, &error));
    assert_int_equal(list->len, 1);
    assert_string_equal(list->rows[0].state, "acked");
    assert_string_equal(list->rows[0].answer, "half");
    assert_true(list->rows[0].ended_at > 0);
    sluice_signals_free(list);
    const char *unknown = "00000000000000000000000000000077";
    assert_int_equal(sluice_signal_wait(r.rig.s, "tasks", unknown, NULL, 0, &list, &e),
                     SLUICE_NOT_FOUND);
    assert_string_equal(e.reason, "unknown-signal");
    assert_int_equal(sluice_signal_wait(r.rig.s, "tasks", "no id", NULL, 0, &list, &e),
                     SLUICE_INVALID);
    rig_close(&r.rig);
}

// Eight locks of a queue with several shards.
struct locks {
    struct rig rig;
    char ids[8][SLUICE_ID_MAX], tokens[8][SLUICE_TOKEN_MAX];
    const char *list[8];
};

static void locks_init(struct locks *l)
{
    struct sluice_setting shards = {"shards", "4"};
    rig_queue(&l->rig, &shards, 1);
    for (int i = 0; i < 8; i++) {
        send_text(l->rig.s, "job", l->ids[i]);
        struct sluice_batch *b = receive(l->rig.s, "w", 1);
        assert_int_equal(b->len, 1);
        memcpy(l->ids[i], b->messages[0].id, SLUICE_ID_MAX);
        memcpy(l->tokens[i], b->messages[0].token, SLUICE_TOKEN_MAX);
        l->list[i] = l->tokens[i];
        sluice_batch_free(b);
    }
}

// A poll of all locks; returns how many signals of this message came.
static size_t locks_poll(const struct locks *l, const char *id)
{
    size_t got = 0;
    struct sluice_signals *list;
    FINE(sluice_signals_receive(l->rig.s, "tasks", l->list, 8, WAIT_MS, &list, &error));
    for (size_t i = 0; i < list->len; i++)
        got += strcmp(list->rows[i].message, id) == 0;
    sluice_signals_free(list);
    return got;
}

static void a_poll_asks_all_shards_of_its_tokens(void **state)
{
    (void)state;
    struct locks l;
    char signal[SLUICE_SIGNAL_ID_MAX];
    locks_init(&l);
    for (int i = 0; i < 8; i++) {
        signal_send(&l.rig, l.ids[i], SIGNAL_STEER, "{}", signal);
        assert_int_equal(locks_poll(&l, l.ids[i]), 1);
    }
    rig_close(&l.rig);
}

static char shard_of(const char *id)
{
    return strchr(id, '-')[1];
}

// Every poll finds something in the first of the shards, or in the last.
static void poll_beside_busy(bool first)
{
    struct locks l;
    char signal[SLUICE_SIGNAL_ID_MAX];
    size_t got[8] = {0};
    int busy = 0;
    locks_init(&l);
    for (int i = 1; i < 8; i++) {
        char at = shard_of(l.ids[i]), best = shard_of(l.ids[busy]);
        if (first ? at < best : at > best) busy = i;
    }
    for (int i = 0; i < 8; i++)
        signal_send(&l.rig, l.ids[i], SIGNAL_STEER, "{}", signal);
    size_t served = 0;
    for (int polls = 0; polls < 100 && served < 8; polls++) {
        struct sluice_signals *list;
        signal_send(&l.rig, l.ids[busy], SIGNAL_STEER, "{}", signal);
        FINE(sluice_signals_receive(l.rig.s, "tasks", l.list, 8, WAIT_MS, &list, &error));
        for (size_t i = 0; i < list->len; i++)
            for (int k = 0; k < 8; k++)
                if (strcmp(list->rows[i].message, l.ids[k]) == 0) served += got[k]++ == 0;
        sluice_signals_free(list);
    }
    assert_int_equal(served, 8);
    rig_close(&l.rig);
}

static void a_shard_with_many_signals_leaves_polls_for_others(void **state)
{
    (void)state;
    poll_beside_busy(true);
    poll_beside_busy(false);
}

int main(int argc, char **argv)
{
    if (argc != 2) return 2;
    backend = argv[1];
    (void)stats;
    (void)state_is;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signals_come_once_and_in_order),
        cmocka_unit_test(a_poll_that_waits_ends_with_the_signal),
        cmocka_unit_test(a_number_comes_once_from_a_handle),
        cmocka_unit_test(a_lock_that_is_gone_ends_the_poll_with_the_reason),
        cmocka_unit_test(bad_tokens_are_named),
        cmocka_unit_test(signals_come_with_the_message),
        cmocka_unit_test(a_renewal_says_how_many_wait),
        cmocka_unit_test(the_sender_gets_the_answer),
        cmocka_unit_test(a_poll_asks_all_shards_of_its_tokens),
        cmocka_unit_test(a_shard_with_many_signals_leaves_polls_for_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
