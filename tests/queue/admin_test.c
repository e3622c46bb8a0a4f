// SPDX-License-Identifier: Apache-2.0
// Operators' ops, request ids, and snapshots.
#include "queue_test.h"

static void a_paused_queue_hands_out_nothing_but_takes_messages_and_acks(void **state)
{
    (void)state;
    struct rig r;
    struct grant g, other;
    rig_defaults(&r);
    rig_send(&r, "1", NULL);
    rig_claim(&r, "w", 1, &g);
    rig_put_plain(&r, OP_PAUSE);
    rig_commit(&r);
    assert_int_equal(rig_events(&r, EVENT_QUEUE_PAUSED), 1);
    assert_int_equal(rig_send(&r, "2", NULL).reason, REASON_NONE);
    rig_put_claim(&r, OP_CLAIM, "w", 1, 0);
    rig_commit(&r);
    assert_int_equal(rig_reason(&r, 0), REASON_PAUSED);
    assert_int_equal(r.results[0].err, ERR_UNAVAILABLE);
    assert_int_equal(machine_refuses(r.m, OP_CLAIM, 1), REASON_PAUSED);
    assert_int_equal(rig_word(&r, OP_ACK, &g).reason, REASON_NONE);
    rig_put_plain(&r, OP_RESUME);
    rig_commit(&r);
    assert_int_equal(rig_claim(&r, "w", 1, &other), 1);
    rig_done(&r);
}

static void a_purge_drops_what_is_pending_and_spares_what_is_locked(void **state)
{
    (void)state;
    struct rig r;
    struct grant g;
    rig_defaults(&r);
    for (int i = 0; i < 5; i++)
        rig_send(&r, "x", NULL);
    rig_send_message(&r, &(struct message){.when = WHEN_DELAY, .when_ms = 1000});
    rig_claim(&r, "w", 1, &g);
    rig_put_plain(&r, OP_PURGE);
    rig_commit(&r);
    assert_int_equal(rig_event(&r, EVENT_QUEUE_PURGED, 0)->count, 5);
    assert_int_equal(rig_count(&r, STATE_PURGED), 5);
    assert_int_equal(rig_word(&r, OP_ACK, &g).reason, REASON_NONE);
    assert_false(machine_needs(r.m, 1, machine_slot(r.m)));
    machine_check(r.m);
    rig_done(&r);
}

static void a_deleted_queue_refuses_everything(void **state)
{
    (void)state;
    struct rig r;
    struct grant g;
    rig_defaults(&r);
    rig_send(&r, "x", NULL);
    rig_claim(&r, "w", 1, &g);
    rig_put_plain(&r, OP_DELETE);
    rig_commit(&r);
    assert_int_equal(rig_reason(&r, 0), REASON_NONE);
    assert_true(machine_deleted(r.m));
    assert_int_equal(rig_send(&r, "x", NULL).reason, REASON_DELETED);
    assert_int_equal(rig_word(&r, OP_ACK, &g).reason, REASON_DELETED);
    rig_put_claim(&r, OP_CLAIM, "w", 1, 0);
    rig_put_plain(&r, OP_DELETE);
    rig_put_plain(&r, OP_PAUSE);
    rig_commit(&r);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(rig_reason(&r, i), REASON_DELETED);
    assert_false(machine_needs(r.m, 1, machine_slot(r.m)));
    machine_check(r.m);
    rig_done(&r);
}

static struct queue_config dead_lettering(void)
{
    struct queue_config c = defaults();
    c.failure_mode = FAILURE_DEAD_LETTER;
    strcpy(c.dead_letter_queue, "dlq");
    return c;
}

static void while_dead_letters_are_on_their_way_their_queue_stays(void **state)
{
    (void)state;
    struct queue_config c = dead_lettering();
    struct rig r;
    struct grant g;
    rig_init(&r, &c);
    rig_send(&r, "x", NULL);
    rig_claim(&r, "w", 1, &g);
    rig_word(&r, OP_FAIL, &g);
    c.ordering_guarantee = true; // nothing is held, but one is on its way
    rig_put_configure(&r, &c);
    rig_commit(&r);
    assert_int_equal(rig_reason(&r, 0), REASON_NOT_EMPTY);
    c.ordering_guarantee = false;
    strcpy(c.dead_letter_queue, "another");
    rig_put_configure(&r, &c);
    rig_put_plain(&r, OP_DELETE);
    rig_put_outbox(&r, 1);
    rig_put_configure(&r, &c);
    rig_commit(&r);
    assert_int_equal(rig_reason(&r, 0), REASON_OUTBOX_BUSY);
    assert_int_equal(rig_reason(&r, 1), REASON_OUTBOX_BUSY);
    assert_int_equal(rig_reason(&r, 2), REASON_NONE);
    assert_int_equal(rig_reason(&r, 3), REASON_NONE);
    rig_done(&r);
}

static void a_configuration_is_refused_for_its_own_reasons(void **state)
{
    (void)state;
    struct rig r;
    rig_defaults(&r);
    rig_send(&r, "x", NULL);
    struct queue_config strict = defaults(), shards = defaults(), broken = defaults();
    strict.ordering_guarantee = true;
    shards.shards = 2;
    broken.failure_mode = FAILURE_HYBRID;
    rig_put_configure(&r, &strict);
    rig_put_configure(&r, &shards);
    rig_put_configure(&r, &broken);
    struct buf b;
    buf_init(&b, 4096);
    configure_encode(&b, &(struct op_configure){.expected = 7, .config = defaults()});
    rig_op(&r, OP_CONFIGURE, &b);
    rig_commit(&r);
    assert_int_equal(rig_reason(&r, 0), REASON_NOT_EMPTY);
    assert_int_equal(rig_reason(&r, 1), REASON_SHARDS_FIXED);
    assert_int_equal(rig_reason(&r, 2), REASON_CONFIG_INVALID);
    assert_int_equal(rig_reason(&r, 3), REASON_CONFIG_CHANGED);
    assert_int_equal(machine_config_version(r.m), 1);
    rig_done(&r);
}

static void a_redrive_of_what_is_not_dead_is_refused(void **state)
{
    (void)state;
    struct rig r;
    rig_defaults(&r);
    rig_send(&r, "x", NULL);
    uint8_t seq[8] = {1};
    struct buf b;
    buf_init(&b, 4096);
    redrive_encode(&b, &(struct op_redrive){.count = 1, .seqs = bytes_of(seq, 8)});
    rig_op(&r, OP_REDRIVE, &b);
    rig_commit(&r);
    assert_int_equal(rig_reason(&r, 0), REASON_NOT_DEAD);
    rig_done(&r);
}

static void an_op_that_cannot_be_read_is_refused_and_harms_nothing(void **state)
{
    (void)state;
    struct rig r;
    rig_defaults(&r);
    for (uint16_t kind = OP_SEND; kind <= OP_KIND_END; kind++) {
        struct buf b;
        buf_init(&b, 64);
        buf_put_u32(&b, 0xffffffff);
        rig_op(&r, kind, &b);
        rig_commit(&r);
        bool known = kind < OP_KIND_END && !op_is_gone(kind);
        assert_int_equal(rig_reason(&r, 0), known ? REASON_MALFORMED : REASON_UNKNOWN_OP);
        assert_int_equal(r.results[0].err, ERR_INVALID);
    }
    rig_done(&r);
}

static void the_journals_own_ops_are_passed_over(void **state)
{
    (void)state;
    struct rig r;
    rig_defaults(&r);
    struct buf b;
    buf_init(&b, 64);
    buf_put_u8(&b, 1);
    rig_op(&r, 1, &b);
    r.results[0] = (struct op_result){.err = ERR_DENIED};
    rig_commit(&r);
    assert_int_equal(r.results[0].err, ERR_DENIED);
    rig_done(&r);
}

static void send_with_id(struct rig *r, uint8_t id, const char *body)
{
    struct buf b;
    buf_init(&b, 4096);
    send_begin(&b, &(struct request_id){{id}});
    send_add(&b, &(struct message){.body = bytes_str(body)});
    send_end(&b, 0, 1);
    rig_op(r, OP_SEND, &b);
}

static void a_request_sent_twice_is_done_once_and_later_bodies_are_still_found(void **state)
{
    (void)state;
    struct rig r;
    struct grant g[4];
    rig_defaults(&r);
    send_with_id(&r, 1, "a");
    send_with_id(&r, 1, "a");
    send_with_id(&r, 2, "b");
    rig_commit(&r);
    assert_true(bytes_equal(rig_body(&r, 0), rig_body(&r, 1)));
    assert_int_equal(rig_claim(&r, "w", 4, g), 2);
    assert_true(bytes_equal(rig_message(&r, g[1].place).body, bytes_str("b")));
    rig_done(&r);
}

static void a_request_id_used_for_another_op_is_refused(void **state)
{
    (void)state;
    struct rig r;
    rig_defaults(&r);
    send_with_id(&r, 1, "a");
    struct buf b;
    buf_init(&b, 64);
    plain_encode(&b, &(struct op_plain){.request = {{1}}});
    rig_op(&r, OP_PAUSE, &b);
    rig_commit(&r);
    assert_int_equal(rig_reason(&r, 1), REASON_REQUEST_REUSED);
    assert_false(machine_paused(r.m));
    rig_done(&r);
}

static void a_refusal_is_remembered_too(void **state)
{
    (void)state;
    struct queue_config c = defaults();
    c.capacity = 1;
    struct rig r;
    struct grant g;
    rig_init(&r, &c);
    rig_send(&r, "x", NULL);
    send_with_id(&r, 1, "a");
    rig_commit(&r);
    assert_int_equal(rig_reason(&r, 0), REASON_FULL);
    rig_claim(&r, "w", 1, &g);
    rig_word(&r, OP_ACK, &g);
    send_with_id(&r, 1, "a"); // a late copy must not happen after it was answered
    rig_commit(&r);
    assert_int_equal(rig_reason(&r, 0), REASON_FULL);
    assert_int_equal(rig_count(&r, STATE_READY), 0);
    rig_done(&r);
}

static void fill(struct rig *r)
{
    struct queue_config c = dead_lettering();
    rig_init(r, &c);
    struct grant g[4];
    for (int i = 0; i < 20; i++)
        rig_send_message(r, &(struct message){.priority = (uint8_t)(i % 3),
                                              .dedup = bytes_str(i % 2 ? "odd" : ""),
                                              .body = bytes_str("x")});
    rig_send_message(r, &(struct message){.when = WHEN_DELAY, .when_ms = 99});
    rig_put_worker(r, "w1", 4, 60000);
    rig_put_publish(r, "w1", 2, 5000);
    rig_put_arrive(r, 3, "letter");
    rig_commit(r);
    rig_claim(r, "w2", 3, g);
    rig_word(r, OP_FAIL, &g[0]);
    rig_word(r, OP_RELEASE, &g[1]);
    send_with_id(r, 9, "named");
    rig_commit(r);
}

static void a_snapshot_holds_the_whole_state(void **state)
{
    (void)state;
    struct rig r;
    fill(&r);
    struct buf saved, again;
    buf_init(&saved, (size_t)1 << 20);
    buf_init(&again, (size_t)1 << 20);
    machine_save(r.m, &saved);
    struct machine *copy = machine_new(&r.queue, RIG_SHARD, &r.config);
    assert_int_equal(machine_load(copy, buf_bytes(&saved)), ERR_OK);
    machine_check(copy);
    machine_save(copy, &again);
    assert_true(bytes_equal(buf_bytes(&saved), buf_bytes(&again)));
    assert_int_equal(machine_digest(copy), machine_digest(r.m));
    machine_free(copy);
    buf_done(&saved);
    buf_done(&again);
    rig_done(&r);
}

static void a_damaged_snapshot_is_corrupt_and_leaves_the_reset_state(void **state)
{
    (void)state;
    struct rig r;
    fill(&r);
    struct buf saved;
    buf_init(&saved, (size_t)1 << 20);
    machine_save(r.m, &saved);
    struct machine *copy = machine_new(&r.queue, RIG_SHARD, &r.config);
    uint64_t empty = machine_digest(copy);
    for (size_t i = 0; i < saved.len; i++) {
        saved.data[i] ^= (uint8_t)(1 + i % 255);
        assert_int_equal(machine_load(copy, buf_bytes(&saved)), ERR_CORRUPT);
        assert_int_equal(machine_digest(copy), empty);
        saved.data[i] ^= (uint8_t)(1 + i % 255);
        assert_int_equal(machine_load(copy, bytes_of(saved.data, i)), ERR_CORRUPT);
    }
    machine_free(copy);
    buf_done(&saved);
    rig_done(&r);
}

static void event_ids_are_stable_and_distinct(void **state)
{
    (void)state;
    struct rig r;
    struct grant g[2];
    rig_defaults(&r);
    rig_send(&r, "a", NULL);
    rig_send(&r, "b", NULL);
    rig_claim(&r, "w", 2, g);
    char one[EVENT_ID_MAX], two[EVENT_ID_MAX];
    event_id(&r.events.rows[0], &r.queue, RIG_SHARD, one);
    event_id(&r.events.rows[1], &r.queue, RIG_SHARD, two);
    assert_string_equal(one, "30313233343536373839616263646500-3-3-0-message-claimed-0");
    assert_string_equal(two, "30313233343536373839616263646500-3-3-0-message-claimed-1");
    rig_tick(&r, 30000);
    event_id(&r.events.rows[0], &r.queue, RIG_SHARD, one);
    assert_string_equal(one, "30313233343536373839616263646500-3-4-t-lock-expired-0");
    rig_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_paused_queue_hands_out_nothing_but_takes_messages_and_acks),
        CASE(a_purge_drops_what_is_pending_and_spares_what_is_locked),
        CASE(a_deleted_queue_refuses_everything),
        CASE(while_dead_letters_are_on_their_way_their_queue_stays),
        CASE(a_configuration_is_refused_for_its_own_reasons),
        CASE(a_redrive_of_what_is_not_dead_is_refused),
        CASE(an_op_that_cannot_be_read_is_refused_and_harms_nothing),
        CASE(the_journals_own_ops_are_passed_over),
        CASE(a_request_sent_twice_is_done_once_and_later_bodies_are_still_found),
        CASE(a_request_id_used_for_another_op_is_refused),
        CASE(a_refusal_is_remembered_too),
        CASE(a_snapshot_holds_the_whole_state),
        CASE(a_damaged_snapshot_is_corrupt_and_leaves_the_reset_state),
        CASE(event_ids_are_stable_and_distinct),
    };
    return RUN(tests);
}
