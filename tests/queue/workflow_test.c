// SPDX-License-Identifier: Apache-2.0
// Workflows: their counts and events, refusals, order, and how long their rows stay.
#include "queue_test.h"

#include "queue/core/state.h"

static void begin(struct rig *r, const struct queue_config *config)
{
    rig_init(r, config);
}

static struct message of(const char *workflow, bool last)
{
    return (struct message){
        .body = bytes_str("x"), .workflow = bytes_str(workflow), .workflow_last = last};
}

static struct send_row send(struct rig *r, const char *workflow, bool last)
{
    struct message m = of(workflow, last);
    struct send_row row = rig_send_message(r, &m);
    machine_check(r->m);
    return row;
}

static struct workflow_view view(const struct rig *r, const char *id)
{
    struct workflow_view v;
    assert_true(machine_workflow(r->m, bytes_str(id), &v));
    return v;
}

static void expect(const struct rig *r, const char *id, enum workflow_state state, uint64_t open,
                   uint64_t done, uint64_t failed, uint64_t cancelled)
{
    struct workflow_view v = view(r, id);
    assert_string_equal(workflow_state_name(v.state), workflow_state_name(state));
    assert_int_equal(v.open, open);
    assert_int_equal(v.done, done);
    assert_int_equal(v.failed, failed);
    assert_int_equal(v.cancelled, cancelled);
}

static bool event_is_of(const struct rig *r, const struct event *e, const char *id)
{
    return bytes_equal(event_workflow(&r->events, e), bytes_str(id));
}

static void finish(struct rig *r, uint16_t kind)
{
    struct grant g;
    assert_int_equal(rig_claim(r, "w", 1, &g), 1);
    (void)rig_word(r, kind, &g);
    machine_check(r->m);
}

static void a_workflow_completes_when_its_last_message_was_sent_and_all_are_done(void **state)
{
    (void)state;
    struct rig r;
    struct queue_config c = defaults();
    begin(&r, &c);
    send(&r, "order-7", false);
    assert_int_equal(r.events.len, 2);
    assert_int_equal(r.events.rows[0].kind, EVENT_WORKFLOW_SUBMITTED); // first
    assert_int_equal(r.events.rows[0].count, 1);
    assert_int_equal(r.events.rows[1].kind, EVENT_MESSAGE_ENQUEUED);
    assert_true(event_is_of(&r, &r.events.rows[0], "order-7"));
    assert_true(event_is_of(&r, &r.events.rows[1], "order-7"));
    finish(&r, OP_ACK); // all are done, but more may come
    assert_int_equal(rig_events(&r, EVENT_WORKFLOW_COMPLETED), 0);
    expect(&r, "order-7", WORKFLOW_OPEN, 0, 1, 0, 0);
    send(&r, "order-7", false);
    assert_int_equal(rig_events(&r, EVENT_WORKFLOW_SUBMITTED), 0); // once
    send(&r, "order-7", true);
    expect(&r, "order-7", WORKFLOW_OPEN, 2, 1, 0, 0);
    finish(&r, OP_ACK);
    assert_int_equal(rig_events(&r, EVENT_WORKFLOW_COMPLETED), 0);
    finish(&r, OP_ACK);
    const struct event *e = rig_event(&r, EVENT_WORKFLOW_COMPLETED, 0);
    assert_non_null(e);
    assert_int_equal(e->count, 3);
    assert_int_equal(e->seq, 0);
    assert_true(event_is_of(&r, e, "order-7"));
    assert_true(event_is_of(&r, rig_event(&r, EVENT_MESSAGE_OUTCOME, 0), "order-7"));
    assert_true(e > rig_event(&r, EVENT_MESSAGE_OUTCOME, 0)); // after its cause
    expect(&r, "order-7", WORKFLOW_COMPLETED, 0, 3, 0, 0);
    rig_done(&r);
}

static void a_dead_message_fails_its_workflow_after_the_last_one(void **state)
{
    (void)state;
    struct rig r;
    struct queue_config c = defaults();
    c.retries_max = 0;
    begin(&r, &c);
    send(&r, "a", false);
    send(&r, "a", true);
    finish(&r, OP_FAIL);
    assert_int_equal(rig_events(&r, EVENT_WORKFLOW_FAILED), 0);
    expect(&r, "a", WORKFLOW_OPEN, 1, 0, 1, 0);
    finish(&r, OP_ACK);
    const struct event *e = rig_event(&r, EVENT_WORKFLOW_FAILED, 0);
    assert_non_null(e);
    assert_int_equal(e->count, 1);
    assert_int_equal(rig_events(&r, EVENT_WORKFLOW_COMPLETED), 0);
    expect(&r, "a", WORKFLOW_FAILED, 0, 1, 1, 0);
    rig_done(&r);
}

static void the_end_by_an_expired_lock_has_its_events_in_order(void **state)
{
    (void)state;
    struct rig r;
    struct queue_config c = defaults();
    c.retries_max = 0;
    begin(&r, &c);
    send(&r, "a", true);
    struct grant g;
    assert_int_equal(rig_claim_lease(&r, "w", 1, 100, &g), 1);
    rig_tick(&r, 200);
    machine_check(r.m);
    assert_int_equal(r.events.len, 3);
    assert_int_equal(r.events.rows[0].kind, EVENT_LOCK_EXPIRED);
    assert_int_equal(r.events.rows[1].kind, EVENT_MESSAGE_OUTCOME);
    assert_int_equal(r.events.rows[2].kind, EVENT_WORKFLOW_FAILED);
    for (size_t i = 0; i < 3; i++)
        assert_true(event_is_of(&r, &r.events.rows[i], "a"));
    rig_done(&r);
}

static void a_purge_cancels_the_messages_of_a_workflow(void **state)
{
    (void)state;
    struct rig r;
    struct queue_config c = defaults();
    begin(&r, &c);
    send(&r, "b", false);
    send(&r, "a", true);
    send(&r, "b", true);
    struct buf b;
    buf_init(&b, 64);
    purge_encode(&b, &(struct op_purge){0});
    rig_op(&r, OP_PURGE, &b);
    rig_commit(&r);
    machine_check(r.m);
    assert_int_equal(rig_events(&r, EVENT_WORKFLOW_COMPLETED), 2);
    assert_true(event_is_of(&r, rig_event(&r, EVENT_WORKFLOW_COMPLETED, 0), "b")); // by number
    expect(&r, "b", WORKFLOW_COMPLETED, 0, 0, 0, 2);
    rig_done(&r);
}

static void a_redriven_message_begins_the_next_run(void **state)
{
    (void)state;
    struct rig r;
    struct queue_config c = defaults();
    c.retries_max = 0;
    begin(&r, &c);
    send(&r, "a", true);
    finish(&r, OP_FAIL);
    expect(&r, "a", WORKFLOW_FAILED, 0, 0, 1, 0);
    rig_put_redrive(&r, 1);
    rig_commit(&r);
    machine_check(r.m);
    assert_int_equal(rig_event(&r, EVENT_WORKFLOW_SUBMITTED, 0)->count, 2);
    assert_true(event_is_of(&r, rig_event(&r, EVENT_MESSAGE_ENQUEUED, 0), "a"));
    expect(&r, "a", WORKFLOW_OPEN, 1, 0, 0, 0);
    finish(&r, OP_ACK);
    assert_int_equal(rig_events(&r, EVENT_WORKFLOW_COMPLETED), 1);
    // In a run that goes on, the failure is taken back.
    send(&r, "b", false);
    send(&r, "b", true);
    finish(&r, OP_FAIL);
    expect(&r, "b", WORKFLOW_OPEN, 1, 0, 1, 0);
    rig_put_redrive(&r, 1);
    rig_commit(&r);
    assert_int_equal(rig_events(&r, EVENT_WORKFLOW_SUBMITTED), 0);
    expect(&r, "b", WORKFLOW_OPEN, 2, 0, 0, 0);
    rig_done(&r);
}

static void a_message_after_the_end_begins_the_next_run(void **state)
{
    (void)state;
    struct rig r;
    struct queue_config c = defaults();
    begin(&r, &c);
    send(&r, "a", true);
    finish(&r, OP_ACK);
    send(&r, "a", false);
    assert_int_equal(rig_event(&r, EVENT_WORKFLOW_SUBMITTED, 0)->count, 2);
    assert_int_equal(view(&r, "a").run, 2);
    expect(&r, "a", WORKFLOW_OPEN, 1, 0, 0, 0);
    rig_done(&r);
}

// Only a snapshot can say that there were so many runs.
static void runs_after_the_last_number_have_that_number(void **state)
{
    (void)state;
    struct rig r;
    struct queue_config c = defaults();
    c.retries_max = 0;
    begin(&r, &c);
    send(&r, "a", true);
    finish(&r, OP_FAIL);
    struct workflows *t = &r.m->workflows;
    r.m->digest -= workflow_hash(&t->rows[1]);
    t->rows[1].run = WORKFLOW_RUN_MAX;
    r.m->digest += workflow_hash(&t->rows[1]);
    for (int i = 0; i < 3; i++) {
        send(&r, "a", true);
        finish(&r, i < 2 ? OP_ACK : OP_FAIL);
        assert_int_equal(view(&r, "a").run, WORKFLOW_RUN_MAX);
    }
    send(&r, "a", false);
    rig_put_redrive(&r, 2); // the last one was of another run with that number
    rig_commit(&r);
    machine_check(r.m);
    expect(&r, "a", WORKFLOW_OPEN, 3, 0, 0, 0);
    struct buf saved;
    buf_init(&saved, SIZE_MAX);
    machine_save(r.m, &saved);
    assert_int_equal(machine_load(r.m, buf_bytes(&saved)), ERR_OK);
    buf_done(&saved);
    rig_done(&r);
}

static void rows_stay_for_retention_and_idle_ones_for_a_day(void **state)
{
    (void)state;
    struct rig r;
    struct queue_config c = defaults();
    c.retention_ms = 60000;
    begin(&r, &c);
    send(&r, "ended", true);
    finish(&r, OP_ACK);
    send(&r, "idle", false);
    finish(&r, OP_ACK);
    send(&r, "open", true);
    assert_int_equal(machine_workflow_count(r.m), 3);
    rig_tick(&r, 59999);
    assert_int_equal(machine_workflow_count(r.m), 3);
    rig_tick(&r, 1);
    machine_check(r.m);
    assert_int_equal(machine_workflow_count(r.m), 2);
    rig_tick(&r, 86400000);
    machine_check(r.m);
    assert_int_equal(machine_workflow_count(r.m), 1);
    expect(&r, "open", WORKFLOW_OPEN, 1, 0, 0, 0);
    rig_done(&r);
}

static void the_table_is_bounded(void **state)
{
    (void)state;
    struct rig r;
    struct queue_config c = defaults();
    begin(&r, &c);
    struct buf b;
    for (int batch = 0; batch < WORKFLOWS_MAX / 10000; batch++) {
        buf_init(&b, 8 << 20);
        send_begin(&b, &(struct request_id){0});
        for (int i = 0; i < 10000; i++) {
            char id[16];
            (void)snprintf(id, sizeof id, "w%d", batch * 10000 + i);
            struct message m = of(id, false);
            send_add(&b, &m);
        }
        send_end(&b, 0, 10000);
        rig_op(&r, OP_SEND, &b);
        rig_commit(&r);
    }
    machine_check(r.m);
    assert_int_equal(machine_workflow_count(r.m), WORKFLOWS_MAX);
    struct message more = of("one more", false), known = of("w5", false);
    assert_int_equal(rig_send_message(&r, &more).reason, REASON_WORKFLOWS_FULL);
    assert_int_equal(rig_send_message(&r, &known).reason, REASON_NONE);
    finish(&r, OP_ACK); // w0 has no messages now
    assert_int_equal(rig_send_message(&r, &more).reason, REASON_NONE);
    struct workflow_view v;
    assert_false(machine_workflow(r.m, bytes_str("w0"), &v));
    assert_int_equal(machine_workflow_count(r.m), WORKFLOWS_MAX);
    machine_check(r.m);
    rig_done(&r);
}

static void group_and_workflow_need_one_shard(void **state)
{
    (void)state;
    struct rig r;
    struct queue_config c = defaults();
    begin(&r, &c);
    struct message m = of("a", false);
    m.group = bytes_str("g");
    assert_int_equal(rig_send_message(&r, &m).reason, REASON_NONE);
    rig_done(&r);
    c.shards = 8;
    begin(&r, &c);
    assert_int_equal(rig_send_message(&r, &m).reason, REASON_WORKFLOW_GROUP);
    uint32_t here = 0, foreign = 0;
    for (int i = 0; i < 64; i++) { // one shard for each workflow
        char id[16];
        (void)snprintf(id, sizeof id, "w%d", i);
        bool ours = hash64_of(bytes_str(id), 0) % 8 == RIG_SHARD;
        enum reason reason = send(&r, id, false).reason;
        assert_int_equal(reason, ours ? REASON_NONE : REASON_WORKFLOW_SHARD);
        *(ours ? &here : &foreign) += 1;
    }
    assert_true(here > 0 && foreign > 0);
    m.workflow = BYTES_EMPTY;
    m.group = BYTES_EMPTY;
    m.workflow_last = true;
    assert_int_equal(rig_send_message(&r, &m).reason, REASON_LAST_WITHOUT_WORKFLOW);
    rig_done(&r);
}

static void workflow_order_makes_a_workflow_one_strict_scope(void **state)
{
    (void)state;
    struct rig r;
    struct queue_config c = defaults();
    c.workflow_order = WORKFLOW_ORDER_ON;
    struct config_error error;
    assert_int_equal(config_check(&c, NULL, &error), ERR_INVALID);
    assert_non_null(strstr(error.text, "workflowOrder \"on\" needs orderingGuarantee"));
    c.ordering_guarantee = true;
    begin(&r, &c);
    uint64_t first = send(&r, "a", false).seq;
    send(&r, "a", true);
    uint64_t other = send(&r, "b", true).seq;
    struct grant g[3];
    assert_int_equal(rig_claim(&r, "w", 3, g), 2); // one of each
    assert_int_equal(g[0].seq, first);
    assert_int_equal(g[1].seq, other);
    const struct event *e = rig_event(&r, EVENT_MESSAGE_CLAIMED, 1);
    char key[EVENT_KEY_MAX];
    event_ordering_key(&r.events, e, "q.1", &r.queue, RIG_SHARD, key);
    assert_string_equal(key, "workflow:q=2E1:b");
    struct message m = of("c", false);
    m.group = bytes_str("g");
    assert_int_equal(rig_send_message(&r, &m).reason, REASON_WORKFLOW_ORDER_GROUP);
    (void)rig_word(&r, OP_ACK, &g[0]);
    assert_int_equal(rig_claim(&r, "w", 3, g), 1);
    machine_check(r.m);
    c.workflow_order = WORKFLOW_ORDER_OFF;
    rig_put_configure(&r, &c);
    rig_commit(&r);
    assert_int_equal(rig_reason(&r, 0), REASON_NOT_EMPTY);
    rig_done(&r);
}

static void expect_key(const struct rig *r, const struct event *e, const char *key)
{
    char found[EVENT_KEY_MAX];
    event_ordering_key(&r->events, e, "q.1", &r->queue, RIG_SHARD, found);
    assert_string_equal(found, key);
}

static void every_event_has_an_ordering_key(void **state)
{
    (void)state;
    struct rig r;
    struct queue_config c = defaults();
    begin(&r, &c);
    char task[MESSAGE_ID_MAX + 5] = "task:";
    message_id_print(&r.queue, RIG_SHARD, 1, task + 5);
    send(&r, "a:\xff", false);
    expect_key(&r, &r.events.rows[0], "workflow:q=2E1:a=3A=FF");
    expect_key(&r, &r.events.rows[1], task); // without workflowOrder
    message_id_print(&r.queue, RIG_SHARD, 2, task + 5);
    rig_send(&r, "x", "g");
    expect_key(&r, &r.events.rows[0], task); // best effort: the fold does not keep the group
    rig_put_plain(&r, OP_PAUSE);
    rig_commit(&r);
    expect_key(&r, &r.events.rows[0], "queue:q=2E1:3");
    rig_done(&r);
    c.ordering_guarantee = true;
    begin(&r, &c);
    rig_send(&r, "x", "g");
    char key[EVENT_KEY_MAX];
    (void)snprintf(key, sizeof key, "group:q=2E1:%016llx",
                   (unsigned long long)hash64_of(bytes_str("g"), 0));
    expect_key(&r, &r.events.rows[0], key);
    rig_send(&r, "x", NULL);
    expect_key(&r, &r.events.rows[0], "group:q=2E1:0000000000000000");
    rig_done(&r);
}

static void the_workflow_is_known_without_the_entry_of_the_send(void **state)
{
    (void)state;
    struct rig r;
    struct queue_config c = defaults();
    begin(&r, &c);
    send(&r, "a", true);
    struct buf b;
    buf_init(&b, 1 << 20);
    machine_save(r.m, &b);
    struct machine *m = machine_new(&r.queue, RIG_SHARD, &r.config);
    assert_int_equal(machine_load(m, buf_bytes(&b)), ERR_OK);
    machine_check(m);
    assert_true(machine_digest(m) == machine_digest(r.m));
    machine_free(r.m);
    r.m = m; // knows only the snapshot
    finish(&r, OP_ACK);
    assert_true(event_is_of(&r, rig_event(&r, EVENT_MESSAGE_OUTCOME, 0), "a"));
    assert_int_equal(rig_events(&r, EVENT_WORKFLOW_COMPLETED), 1);
    buf_done(&b);
    rig_done(&r);
}

static void every_flipped_bit_of_the_table_is_noticed(void **state)
{
    (void)state;
    struct rig r;
    struct queue_config c = defaults();
    c.retries_max = 0;
    begin(&r, &c);
    send(&r, "ended", true);
    finish(&r, OP_ACK);
    send(&r, "dead", false);
    finish(&r, OP_FAIL);
    send(&r, "open", true);
    struct buf b;
    buf_init(&b, 1 << 20);
    machine_save(r.m, &b);
    struct machine *m = machine_new(&r.queue, RIG_SHARD, &r.config);
    for (size_t bit = (b.len - 360) * 8; bit < b.len * 8; bit++) {
        b.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(machine_load(m, buf_bytes(&b)), ERR_CORRUPT);
        b.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t cut = 1; cut < 300; cut++)
        assert_int_equal(machine_load(m, bytes_of(b.data, b.len - cut)), ERR_CORRUPT);
    assert_int_equal(machine_load(m, buf_bytes(&b)), ERR_OK);
    machine_free(m);
    buf_done(&b);
    rig_done(&r);
}

static void workflows_are_listed_by_number_with_their_messages(void **state)
{
    (void)state;
    struct rig r;
    struct queue_config c = defaults();
    begin(&r, &c);
    for (int i = 0; i < 6; i++)
        send(&r, (const char *[]){"c", "a", "b"}[i % 3], false);
    struct workflow_view rows[2];
    assert_int_equal(machine_workflows(r.m, 0, rows, 2), 2);
    assert_true(bytes_equal(rows[0].id, bytes_str("c")));
    assert_true(bytes_equal(rows[1].id, bytes_str("a")));
    assert_int_equal(machine_workflows(r.m, rows[1].number, rows, 2), 1);
    assert_true(bytes_equal(rows[0].id, bytes_str("b")));
    uint64_t seqs[9];
    assert_int_equal(machine_workflow_messages(r.m, bytes_str("a"), seqs, 9), 2);
    assert_int_equal(seqs[0], 2);
    assert_int_equal(seqs[1], 5);
    assert_int_equal(machine_workflow_messages(r.m, bytes_str("a"), seqs, 1), 1);
    assert_int_equal(seqs[0], 2);
    rig_put_plain(&r, OP_DELETE);
    rig_commit(&r);
    machine_check(r.m);
    assert_int_equal(machine_workflow_count(r.m), 0);
    rig_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_workflow_completes_when_its_last_message_was_sent_and_all_are_done),
        CASE(a_dead_message_fails_its_workflow_after_the_last_one),
        CASE(the_end_by_an_expired_lock_has_its_events_in_order),
        CASE(a_purge_cancels_the_messages_of_a_workflow),
        CASE(a_redriven_message_begins_the_next_run),
        CASE(a_message_after_the_end_begins_the_next_run),
        CASE(runs_after_the_last_number_have_that_number),
        CASE(rows_stay_for_retention_and_idle_ones_for_a_day),
        CASE(the_table_is_bounded),
        CASE(group_and_workflow_need_one_shard),
        CASE(workflow_order_makes_a_workflow_one_strict_scope),
        CASE(every_event_has_an_ordering_key),
        CASE(the_workflow_is_known_without_the_entry_of_the_send),
        CASE(every_flipped_bit_of_the_table_is_noticed),
        CASE(workflows_are_listed_by_number_with_their_messages),
    };
    return RUN(tests);
}
