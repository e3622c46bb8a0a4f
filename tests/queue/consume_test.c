// SPDX-License-Identifier: Apache-2.0
// The setting `consume`: with `owner`, a claim, take or ticket counts only in an entry of the
// owner's epoch. Everything else stays with the holder of the token.
#include "queue_test.h"

#define OWNER  1 // the epoch of an entry
#define DIRECT 0

static struct rig owner_only(void)
{
    struct rig r;
    struct queue_config config = defaults();
    config.consume = CONSUME_OWNER;
    rig_init(&r, &config);
    return r;
}

static uint64_t refused(const struct rig *r)
{
    struct machine_stats stats;
    machine_stats(r->m, machine_now(r->m), &stats);
    return stats.refused;
}

static enum reason claim(struct rig *r, uint64_t epoch, uint16_t kind, const char *worker)
{
    r->epoch = epoch;
    rig_put_claim(r, kind, worker, 3, 0);
    rig_commit(r);
    machine_check(r->m);
    return rig_reason(r, 0);
}

static enum reason configure(struct rig *r, enum consume consume)
{
    struct buf b;
    buf_init(&b, 4096);
    struct op_configure op = {.config = *machine_config(r->m)};
    op.config.consume = consume;
    configure_encode(&b, &op);
    rig_op(r, OP_CONFIGURE, &b);
    rig_commit(r);
    return rig_reason(r, 0);
}

static enum reason publish(struct rig *r, uint64_t epoch, const char *worker)
{
    struct buf rows, b;
    buf_init(&rows, 256);
    buf_init(&b, 1024);
    r->epoch = epoch;
    ticket_row_put(&rows, &(struct ticket_row){.worker = bytes_str(worker), .max = 1});
    publish_encode(&b, &(struct op_publish){.count = 1, .rows = buf_bytes(&rows)});
    buf_done(&rows);
    rig_op(r, OP_PUBLISH, &b);
    rig_commit(r);
    return rig_reason(r, 0);
}

static void a_claim_outside_the_owners_epoch_is_refused_with_an_event(void **state)
{
    (void)state;
    struct rig r = owner_only();
    rig_send(&r, "x", NULL);
    assert_int_equal(claim(&r, DIRECT, OP_CLAIM, "w"), REASON_NOT_OWNER);
    const struct event *e = rig_event(&r, EVENT_CLAIM_REJECTED, 0);
    assert_non_null(e);
    assert_int_equal(e->reason, REASON_NOT_OWNER);
    assert_int_equal(e->count, 3);
    assert_int_equal(e->seq, 0);
    assert_true(bytes_equal(event_worker(&r.events, e), bytes_str("w")));
    assert_int_equal(rig_events(&r, EVENT_MESSAGE_CLAIMED), 0);
    assert_int_equal(rig_count(&r, STATE_READY), 1);
    assert_int_equal(refused(&r), 1);
    rig_done(&r);
}

static void a_claim_in_the_owners_epoch_counts(void **state)
{
    (void)state;
    struct rig r = owner_only();
    rig_send(&r, "x", NULL);
    assert_int_equal(claim(&r, OWNER, OP_CLAIM, "w"), REASON_NONE);
    assert_int_equal(rig_events(&r, EVENT_CLAIM_REJECTED), 0);
    assert_int_equal(rig_count(&r, STATE_LOCKED), 1);
    assert_int_equal(refused(&r), 0);
    rig_done(&r);
}

static void tickets_are_published_and_taken_only_by_the_owner(void **state)
{
    (void)state;
    struct rig r = owner_only();
    rig_send(&r, "x", NULL);
    rig_put_worker(&r, "w", 4, 60000);
    rig_commit(&r);
    assert_int_equal(publish(&r, DIRECT, "w"), REASON_NOT_OWNER);
    assert_int_equal(rig_events(&r, EVENT_CLAIM_REJECTED), 1);
    assert_int_equal(publish(&r, OWNER, "w"), REASON_NONE);
    assert_int_equal(rig_events(&r, EVENT_TICKETS_PUBLISHED), 1);
    assert_int_equal(claim(&r, DIRECT, OP_TAKE, "w"), REASON_NOT_OWNER);
    assert_int_equal(rig_events(&r, EVENT_MESSAGE_CLAIMED), 0);
    assert_int_equal(claim(&r, OWNER, OP_TAKE, "w"), REASON_NONE);
    assert_int_equal(rig_events(&r, EVENT_MESSAGE_CLAIMED), 1);
    assert_int_equal(refused(&r), 2);
    rig_done(&r);
}

// The journal of a queue that any process may consume refuses a ticket too, without an event.
static void without_the_setting_a_direct_claim_counts(void **state)
{
    (void)state;
    struct rig r;
    rig_defaults(&r);
    rig_send(&r, "x", NULL);
    assert_int_equal(publish(&r, DIRECT, "w"), REASON_NOT_OWNER);
    assert_int_equal(rig_events(&r, EVENT_CLAIM_REJECTED), 0);
    assert_int_equal(claim(&r, DIRECT, OP_CLAIM, "w"), REASON_NONE);
    assert_int_equal(rig_count(&r, STATE_LOCKED), 1);
    assert_int_equal(refused(&r), 0);
    rig_done(&r);
}

static void ack_fail_release_and_renew_stay_with_the_token(void **state)
{
    (void)state;
    const uint16_t kinds[] = {OP_RENEW, OP_ACK, OP_FAIL, OP_RELEASE};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct rig r = owner_only();
        struct grant g;
        rig_send(&r, "x", NULL);
        assert_int_equal(rig_claim(&r, "w", 1, &g), 1);
        r.epoch = DIRECT;
        assert_int_equal(rig_word(&r, kinds[i], &g).reason, REASON_NONE);
        assert_int_equal(refused(&r), 0);
        rig_done(&r);
    }
}

static void the_setting_can_be_switched_at_any_time(void **state)
{
    (void)state;
    struct rig r;
    rig_defaults(&r);
    struct grant g;
    r.epoch = DIRECT;
    for (int i = 0; i < 4; i++)
        rig_send(&r, "x", NULL);
    assert_int_equal(rig_claim(&r, "w", 1, &g), 1);
    assert_int_equal(configure(&r, CONSUME_OWNER), REASON_NONE);
    assert_int_equal(claim(&r, DIRECT, OP_CLAIM, "w"), REASON_NOT_OWNER);
    assert_int_equal(rig_word(&r, OP_ACK, &g).reason, REASON_NONE); // in flight at the switch
    assert_int_equal(configure(&r, CONSUME_ANY), REASON_NONE);
    assert_int_equal(claim(&r, DIRECT, OP_CLAIM, "w"), REASON_NONE);
    assert_int_equal(rig_count(&r, STATE_LOCKED), 3);
    rig_done(&r);
}

static void a_queue_can_be_created_with_it(void **state)
{
    (void)state;
    struct rig r = owner_only();
    assert_true(machine_owner_only(r.m));
    rig_send(&r, "x", NULL);
    assert_int_equal(rig_event(&r, EVENT_MESSAGE_ENQUEUED, 0)->sequence, 1);
    machine_reset(r.m);
    rig_done(&r);
}

static void a_refused_claim_is_not_remembered_for_its_request_id(void **state)
{
    (void)state;
    struct rig r = owner_only();
    rig_send(&r, "x", NULL);
    for (uint64_t epoch = DIRECT; epoch <= OWNER; epoch++) {
        struct buf b;
        buf_init(&b, 1024);
        struct op_claim op = {.request = {{7}}, .worker = bytes_str("w"), .max = 1};
        claim_encode(&b, &op);
        r.epoch = epoch;
        rig_op(&r, OP_CLAIM, &b);
        rig_commit(&r);
        assert_int_equal(rig_reason(&r, 0), epoch == OWNER ? REASON_NONE : REASON_NOT_OWNER);
    }
    assert_int_equal(rig_count(&r, STATE_LOCKED), 1);
    rig_done(&r);
}

static void the_count_of_refused_claims_is_in_the_snapshot(void **state)
{
    (void)state;
    struct rig r = owner_only();
    rig_send(&r, "x", NULL);
    (void)claim(&r, DIRECT, OP_CLAIM, "w");
    (void)claim(&r, DIRECT, OP_CLAIM, "w");
    uint64_t digest = machine_digest(r.m);
    struct buf b;
    buf_init(&b, 1 << 20);
    machine_save(r.m, &b);
    machine_reset(r.m);
    assert_int_equal(refused(&r), 0);
    assert_int_equal(machine_load(r.m, buf_bytes(&b)), ERR_OK);
    assert_int_equal(refused(&r), 2);
    assert_true(machine_digest(r.m) == digest);
    buf_done(&b);
    rig_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_claim_outside_the_owners_epoch_is_refused_with_an_event),
        CASE(a_claim_in_the_owners_epoch_counts),
        CASE(tickets_are_published_and_taken_only_by_the_owner),
        CASE(without_the_setting_a_direct_claim_counts),
        CASE(ack_fail_release_and_renew_stay_with_the_token),
        CASE(the_setting_can_be_switched_at_any_time),
        CASE(a_queue_can_be_created_with_it),
        CASE(a_refused_claim_is_not_remembered_for_its_request_id),
        CASE(the_count_of_refused_claims_is_in_the_snapshot),
    };
    return RUN(tests);
}
