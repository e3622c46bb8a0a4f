// SPDX-License-Identifier: Apache-2.0
// Many wait, somebody else writes, and the store cannot be read just then: whoever fetches what was
// written waits for the time to pass, which takes a thread. One is left for that.
#include "../unit/unit.h"
#include "base/memory.h"
#include "node/desk.h"
#include "os/entropy.h"
#include "scratch.h"
#include "store/fault.h"
#include "store/mem.h"

#include <stdatomic.h>
#include <string.h>

#define CREW        4
#define DESKS       8 // more than there are threads
#define PATIENCE_MS 600000
#define OUTAGE_MS   1000
#define WAIT_MS     60000 // it does not take so long unless it hangs

static const struct fault_options well = {.seed = 1}, away = {.seed = 1, .lost_request = 10000};

struct post {
    struct desk_later receive; // first
    struct desk *desk;
    struct desk *other; // whose store is well
};

static _Atomic uint32_t received_len;

static struct desk *open_desk(struct store *s, struct crew *crew, uint32_t number)
{
    struct desk *d;
    struct desk_config config = {.queue = "q", .crew = crew, .patience_ms = PATIENCE_MS};
    config_defaults(&config.birth);
    memcpy(config.id.queue, "outage", 6);
    config.id.shard = number;
    assert_int_equal(desk_open(s, &config, &d), ERR_OK);
    return d;
}

static void received(struct desk_later *l, enum err err, struct desk_answer *a)
{
    (void)l;
    if (!err && a->deliveries_len == 1) atomic_fetch_add(&received_len, 1);
}

static void wait_at(struct post *p)
{
    struct op_claim claim = {.worker = bytes_str("w"), .max = 1, .lease_ms = 60000};
    entropy_fill(claim.seed, sizeof claim.seed);
    entropy_fill(claim.request.bytes, sizeof claim.request.bytes);
    p->receive.then = received;
    desk_receive_later(p->desk, &claim, PATIENCE_MS, &p->receive);
}

static void send_to(struct post *p)
{
    CLEANUP(buf_done) struct buf payload;
    CLEANUP(desk_answer_done) struct desk_answer answer;
    struct request_id id;
    struct message m = {.body = bytes_str("work")};
    entropy_fill(id.bytes, sizeof id.bytes);
    buf_init(&payload, JOURNAL_OP_MAX);
    desk_answer_init(&answer);
    send_begin(&payload, &id);
    send_add(&payload, &m);
    send_end(&payload, 0, 1);
    struct op op = {OP_SEND, buf_bytes(&payload)};
    assert_int_equal(desk_do(p->other, op, &answer), ERR_OK);
}

static bool all_received(void *ctx)
{
    (void)ctx;
    return atomic_load(&received_len) == DESKS;
}

static bool never(void *ctx)
{
    (void)ctx;
    return false;
}

static void whoever_waits_is_served_after_an_outage(void **state)
{
    (void)state;
    struct store *inner = store_mem_new(), *store = store_fault_take(inner, &well);
    struct crew *crew = crew_new(CREW), *others = crew_new(CREW);
    struct post *places = memory_zeroed(DESKS, sizeof *places);
    for (uint32_t i = 0; i < DESKS; i++) {
        places[i].desk = open_desk(store, crew, i);
        places[i].other = open_desk(inner, others, i);
        wait_at(&places[i]);
    }
    store_fault_set(store, &away);
    for (uint32_t i = 0; i < DESKS; i++)
        send_to(&places[i]);
    (void)eventually(never, NULL, OUTAGE_MS); // a time, since nothing happens that could be awaited
    store_fault_set(store, &well);
    assert_true(eventually(all_received, NULL, WAIT_MS));
    for (uint32_t i = 0; i < DESKS; i++) {
        desk_close(places[i].desk);
        desk_close(places[i].other);
    }
    crew_free(crew);
    crew_free(others);
    store_free(store);
    memory_free(places);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whoever_waits_is_served_after_an_outage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
