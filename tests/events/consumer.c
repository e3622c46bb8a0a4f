// SPDX-License-Identifier: Apache-2.0
// The consumer: what it returns of a stream that repeats, reorders and loses messages.
#include "unit.h"

#include "base/mutant.h"
#include "base/rng.h"
#include "events/consumer.h"

#include <stdio.h>
#include <string.h>

#define LIFE    "00112233445566778899aabbccddeeff"
#define SHARDS  3
#define EVENTS  40 // a shard
#define HOLD_MS 1000

#ifdef SLUICE_MUTANTS
enum mutant mutant_active;
#endif

static struct schema_set *schemas;

static void event_text(const char *life, uint32_t shard, uint64_t sequence, uint32_t version,
                       struct buf *to)
{
    char id[ENVELOPE_ID_MAX];
    struct envelope e = envelope_empty();
    (void)snprintf(id, sizeof id, "%s-%u-%llu-0-queue-paused-0", life, shard,
                   (unsigned long long)sequence);
    e.event_id = id;
    e.event_type = "queue-paused";
    e.schema_version = version;
    e.queue = "q";
    e.shard = shard;
    e.ordering_key = "queue:q";
    e.sequence = sequence;
    buf_init(to, ENVELOPE_MAX);
    envelope_print(&e, to);
}

static void give(struct consumer *c, uint64_t number, uint32_t shard, uint64_t sequence,
                 int64_t now)
{
    CLEANUP(buf_done) struct buf text;
    event_text(LIFE, shard, sequence, 1, &text);
    consumer_take(c, number, buf_bytes(&text), now);
}

// What comes out, as "shard.sequence", "gap shard first-last", "refused".
static const char *drained(struct consumer *c, int64_t now)
{
    static char all[4096];
    struct consumer_result out;
    size_t len = 0;
    all[0] = '\0';
    while (consumer_next(c, now, &out)) {
        const char *space = len > 0 ? " " : "";
        char *at = all + len;
        size_t room = sizeof all - len;
        if (out.kind == CONSUMER_EVENT)
            len += (size_t)snprintf(at, room, "%s%u.%llu", space, out.envelope->shard,
                                    (unsigned long long)out.envelope->sequence);
        else if (out.kind == CONSUMER_GAP)
            len += (size_t)snprintf(at, room, "%sgap %u %llu-%llu", space, out.shard,
                                    (unsigned long long)out.first, (unsigned long long)out.last);
        else
            len += (size_t)snprintf(at, room, "%srefused", space);
        assert_true(len < sizeof all);
    }
    return all;
}

static void events_come_out_once_and_in_order(void **state)
{
    (void)state;
    struct consumer_config config = {.hold_ms = HOLD_MS};
    struct consumer *c = consumer_new(&config, schemas);
    give(c, 1, 0, 5, 0);
    assert_string_equal(drained(c, 0), "0.5"); // it begins with what comes
    give(c, 2, 0, 6, 0);
    give(c, 3, 0, 6, 0);
    give(c, 4, 0, 5, 0);
    assert_string_equal(drained(c, 0), "0.6");
    give(c, 5, 0, 9, 0);
    give(c, 6, 0, 8, 0);
    give(c, 7, 1, 3, 0);
    assert_string_equal(drained(c, 0), "1.3"); // another shard does not wait
    assert_int_equal(consumer_counts(c).held, 2);
    assert_int_equal(consumer_resume(c), 5);
    give(c, 8, 0, 7, 0);
    assert_string_equal(drained(c, 0), "0.7 0.8 0.9");
    assert_int_equal(consumer_resume(c), 9);
    assert_int_equal(consumer_counts(c).duplicates, 2);
    assert_int_equal(consumer_counts(c).gaps, 0);
    consumer_free(c);
}

static void a_missing_event_is_a_gap_after_a_while(void **state)
{
    (void)state;
    struct consumer_config config = {.hold_ms = HOLD_MS, .from_first = true};
    struct consumer *c = consumer_new(&config, schemas);
    give(c, 1, 0, 3, 10);
    assert_string_equal(drained(c, 10), "");
    assert_int_equal(consumer_wake_at(c), 10 + HOLD_MS);
    assert_string_equal(drained(c, 9 + HOLD_MS), "");
    assert_string_equal(drained(c, 10 + HOLD_MS), "gap 0 1-2 0.3");
    assert_int_equal(consumer_wake_at(c), INT64_MAX);
    give(c, 2, 0, 2, 3000); // too late: a newer event of its key was returned
    assert_string_equal(drained(c, 3000), "");
    assert_int_equal(consumer_counts(c).gaps, 1);
    assert_int_equal(consumer_counts(c).missing, 2);
    consumer_free(c);
}

static void waiting_events_are_bounded_in_number_and_bytes(void **state)
{
    (void)state;
    struct consumer_config config = {.hold_ms = HOLD_MS, .from_first = true, .hold_max = 2};
    struct consumer *c = consumer_new(&config, schemas);
    give(c, 1, 0, 3, 0);
    give(c, 2, 0, 5, 0);
    assert_string_equal(drained(c, 0), "");
    give(c, 3, 0, 7, 0);
    assert_string_equal(drained(c, 0), "gap 0 1-2 0.3"); // two may wait
    consumer_free(c);
    config = (struct consumer_config){.hold_ms = HOLD_MS, .from_first = true, .hold_bytes = 300};
    c = consumer_new(&config, schemas);
    give(c, 1, 0, 3, 0);
    assert_string_equal(drained(c, 0), "");
    give(c, 2, 0, 4, 0);
    assert_string_equal(drained(c, 0), "gap 0 1-2 0.3 0.4");
    consumer_free(c);
}

static void give_gap(struct consumer *c, uint64_t number, uint64_t first, uint64_t last)
{
    CLEANUP(buf_done) struct buf text;
    char id[ENVELOPE_ID_MAX];
    struct envelope_room room;
    struct envelope_place place = {.queue = "q", .node = "n"};
    struct envelope e = envelope_gap(LIFE, &place, 0, first, last, 0, &room, id);
    buf_init(&text, ENVELOPE_MAX);
    envelope_print(&e, &text);
    consumer_take(c, number, buf_bytes(&text), 0);
}

static void a_gap_of_the_publisher_is_told_once(void **state)
{
    (void)state;
    struct consumer_config config = {.hold_ms = HOLD_MS, .from_first = true};
    struct consumer *c = consumer_new(&config, schemas);
    give(c, 1, 0, 1, 0);
    give(c, 2, 0, 2, 0);
    give_gap(c, 3, 2, 5); // one of them was published
    give_gap(c, 4, 2, 5);
    give(c, 5, 0, 6, 0);
    assert_string_equal(drained(c, 0), "0.1 0.2 gap 0 3-5 0.6");
    give_gap(c, 6, 8, 9); // 7 is still missing
    assert_string_equal(drained(c, 0), "");
    give(c, 7, 0, 7, 0);
    assert_string_equal(drained(c, 0), "0.7 gap 0 8-9");
    consumer_free(c);
}

static void another_life_of_a_queue_is_another_count(void **state)
{
    (void)state;
    struct consumer_config config = {.hold_ms = HOLD_MS, .from_first = true};
    struct consumer *c = consumer_new(&config, schemas);
    CLEANUP(buf_done) struct buf text;
    give(c, 1, 0, 1, 0);
    event_text("ffeeddccbbaa99887766554433221100", 0, 1, 1, &text);
    consumer_take(c, 2, buf_bytes(&text), 0);
    give(c, 3, 0, 1, 0);
    assert_string_equal(drained(c, 0), "0.1 0.1");
    assert_int_equal(consumer_counts(c).duplicates, 1);
    consumer_free(c);
}

static void bad_messages_and_other_majors_are_refused_with_a_reason(void **state)
{
    (void)state;
    struct consumer_config config = {0};
    struct consumer *c = consumer_new(&config, schemas);
    struct consumer_result out;
    CLEANUP(buf_done) struct buf text;
    consumer_take(c, 1, bytes_str("{"), 0);
    assert_true(consumer_next(c, 0, &out));
    assert_int_equal(out.kind, CONSUMER_REFUSED);
    assert_non_null(strstr(out.why, "not JSON"));
    assert_int_equal(out.number, 1);
    event_text(LIFE, 0, 1, 2, &text);
    consumer_take(c, 2, buf_bytes(&text), 0);
    assert_true(consumer_next(c, 0, &out));
    assert_int_equal(out.kind, CONSUMER_REFUSED);
    assert_non_null(strstr(out.why, "schema_version 2 is not known here"));
    assert_false(consumer_next(c, 0, &out));
    assert_int_equal(consumer_counts(c).refused, 2);
    consumer_free(c);
}

static void events_without_a_sequence_are_known_by_id(void **state)
{
    (void)state;
    struct consumer_config config = {.ids_max = 2};
    struct consumer *c = consumer_new(&config, schemas);
    struct consumer_result out;
    size_t came = 0;
    static const int ids[] = {1, 1, 2, 1, 3, 2, 1}; // the last 1 was forgotten
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        CLEANUP(buf_done) struct buf text;
        char id[ENVELOPE_ID_MAX], number[8];
        struct envelope_room room;
        (void)snprintf(number, sizeof number, "%d", ids[i]);
        struct sluice_cluster_event e = {
            .id = number, .type = "member-health", .node = "n", .status = "up", .queue = ""};
        struct envelope made = envelope_cluster(&e, "n", &room, id);
        buf_init(&text, ENVELOPE_MAX);
        envelope_print(&made, &text);
        consumer_take(c, i + 1, buf_bytes(&text), 0);
        while (consumer_next(c, 0, &out))
            came++;
    }
    assert_int_equal(came, 4);
    assert_int_equal(consumer_counts(c).duplicates, 3);
    consumer_free(c);
}

static void a_filtered_consumer_reports_no_gaps(void **state)
{
    (void)state;
    struct consumer_config config = {.filtered = true, .ids_max = 3};
    struct consumer *c = consumer_new(&config, schemas);
    CLEANUP(buf_done) struct buf position;
    char why[ENVELOPE_WHY_MAX];
    give(c, 1, 0, 4, 0);
    give(c, 2, 0, 9, 0);
    give(c, 3, 0, 4, 0);
    give(c, 4, 0, 7, 0); // the bus has it after 9
    assert_string_equal(drained(c, 0), "0.4 0.9 0.7");
    give(c, 5, 0, 10, 0); // 4 is forgotten, and still a duplicate
    give(c, 6, 0, 4, 0);
    assert_string_equal(drained(c, 0), "0.10");
    buf_init(&position, CONSUMER_POSITION_MAX);
    consumer_position_put(c, &position);
    consumer_free(c);
    c = consumer_new(&config, schemas);
    assert_int_equal(consumer_position_take(c, buf_bytes(&position), why), ERR_OK);
    give(c, 7, 0, 9, 0);
    give(c, 8, 0, 12, 0);
    assert_string_equal(drained(c, 0), "0.12");
    consumer_free(c);
}

static void shards_are_bounded(void **state)
{
    (void)state;
    struct consumer_config config = {.shards_max = 2, .from_first = true};
    struct consumer *c = consumer_new(&config, schemas);
    give(c, 1, 0, 1, 0);
    give(c, 2, 1, 1, 0);
    assert_string_equal(drained(c, 0), "1.1 0.1"); // shards have no order
    give(c, 3, 2, 1, 0);                           // shard 0 gives way
    give(c, 4, 1, 1, 0);
    assert_string_equal(drained(c, 0), "2.1");
    give(c, 5, 0, 1, 0);
    assert_string_equal(drained(c, 0), "0.1");
    consumer_free(c);
}

static void a_position_is_read_as_it_was_written(void **state)
{
    (void)state;
    struct consumer_config config = {.hold_ms = HOLD_MS};
    struct consumer *c = consumer_new(&config, schemas);
    CLEANUP(buf_done) struct buf first, second;
    char why[ENVELOPE_WHY_MAX] = "";
    buf_init(&first, CONSUMER_POSITION_MAX);
    buf_init(&second, CONSUMER_POSITION_MAX);
    give(c, 7, 0, 5, 0);
    give(c, 8, 2, 1, 0);
    give(c, 9, 0, 7, 0); // waits, so it is needed again
    assert_string_equal(drained(c, 0), "0.5 2.1");
    consumer_position_put(c, &first);
    consumer_free(c);
    static const char right[] =
        "sluice-position 1\nresume 9\nshard " LIFE " 0 6\nshard " LIFE " 2 2\ncheck ";
    assert_true(first.len > sizeof right && memcmp(first.data, right, sizeof right - 1) == 0);
    c = consumer_new(&config, schemas);
    assert_int_equal(consumer_position_take(c, buf_bytes(&first), why), ERR_OK);
    assert_int_equal(consumer_resume(c), 9);
    consumer_position_put(c, &second);
    assert_true(bytes_equal(buf_bytes(&first), buf_bytes(&second)));
    give(c, 9, 0, 7, 0);
    give(c, 10, 0, 5, 0);
    give(c, 11, 0, 6, 0);
    assert_string_equal(drained(c, 0), "0.6 0.7");
    consumer_free(c);
}

// The bus carries what any of its clients publishes.
static void a_forged_event_leaves_a_position_that_can_be_read(void **state)
{
    (void)state;
    static const struct {
        const char *life;
        uint64_t sequence;
    } forged[] = {{"no hex digits, but as long as an", 5}, {LIFE, INT64_MAX}};
    for (size_t i = 0; i < sizeof forged / sizeof *forged; i++) {
        struct consumer_config config = {.hold_ms = HOLD_MS};
        struct consumer *c = consumer_new(&config, schemas);
        CLEANUP(buf_done) struct buf text, position;
        char why[ENVELOPE_WHY_MAX] = "";
        buf_init(&position, CONSUMER_POSITION_MAX);
        event_text(forged[i].life, 0, forged[i].sequence, 1, &text);
        consumer_take(c, 1, buf_bytes(&text), 0);
        give(c, 2, 0, 5, 0);
        (void)drained(c, 0);
        consumer_position_put(c, &position);
        assert_int_equal(consumer_position_take(c, buf_bytes(&position), why), ERR_OK);
        assert_int_equal(consumer_resume(c), 3);
        consumer_free(c);
    }
}

static void every_change_of_a_position_is_damage(void **state)
{
    (void)state;
    struct consumer_config config = {0};
    struct consumer *c = consumer_new(&config, schemas);
    CLEANUP(buf_done) struct buf text;
    char why[ENVELOPE_WHY_MAX];
    buf_init(&text, CONSUMER_POSITION_MAX);
    give(c, 7, 0, 5, 0);
    (void)drained(c, 0);
    consumer_position_put(c, &text);
    for (size_t bit = 0; bit < text.len * 8; bit++) {
        text.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(consumer_position_take(c, buf_bytes(&text), why), ERR_CORRUPT);
        text.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    for (size_t len = 0; len < text.len; len++)
        assert_int_equal(consumer_position_take(c, bytes_of(text.data, len), why), ERR_CORRUPT);
    assert_int_equal(consumer_resume(c), 8);
    consumer_free(c);
}

// A world: shards with numbered events, and a stream that has them with faults. The consumer
// crashes at random and continues from its last position.
struct world {
    struct rng rng;
    bool lost[SHARDS][EVENTS + 1];
    struct cell {
        uint32_t shard;
        uint64_t sequence;
    } stream[SHARDS * EVENTS * 4];
    size_t len;
    uint64_t seen[SHARDS]; // the newest sequence that came out, or was reported as missing
    char wrong[200];       // "": nothing
};

static void publish(struct world *w, uint32_t shard, uint64_t sequence)
{
    if (w->len < sizeof w->stream / sizeof *w->stream)
        w->stream[w->len++] = (struct cell){shard, sequence};
}

// Loses some events for ever, repeats some much later, and swaps neighbours.
static void make_stream(struct world *w)
{
    uint32_t loss = (uint32_t)rng_below(&w->rng, 3) * 400,
             again = (uint32_t)rng_below(&w->rng, 4) * 900;
    for (uint64_t s = 1; s <= EVENTS; s++) {
        for (uint32_t shard = 0; shard < SHARDS; shard++) {
            w->lost[shard][s] = s < EVENTS && rng_chance(&w->rng, loss);
            if (w->lost[shard][s]) continue;
            publish(w, shard, s);
            if (rng_chance(&w->rng, again)) publish(w, shard, s);
            uint64_t old = 1 + rng_below(&w->rng, s);
            if (rng_chance(&w->rng, again) && !w->lost[shard][old]) publish(w, shard, old);
        }
    }
    size_t reach = rng_below(&w->rng, 12);
    for (size_t i = 0; reach > 0 && i < w->len; i++) {
        size_t other = i + rng_below(&w->rng, reach);
        if (other >= w->len) continue;
        struct cell kept = w->stream[i];
        w->stream[i] = w->stream[other];
        w->stream[other] = kept;
    }
}

static void see(struct world *w, const struct consumer_result *out)
{
    bool gap = out->kind == CONSUMER_GAP;
    uint32_t shard = gap ? out->shard : out->envelope->shard;
    uint64_t first = gap ? out->first : out->envelope->sequence;
    uint64_t last = gap ? out->last : first;
    if (first != w->seen[shard] + 1)
        (void)snprintf(w->wrong, sizeof w->wrong, "shard %u: %llu after %llu", shard,
                       (unsigned long long)first, (unsigned long long)w->seen[shard]);
    for (uint64_t s = first; s <= last && s <= EVENTS; s++)
        if (w->lost[shard][s] != gap)
            (void)snprintf(w->wrong, sizeof w->wrong, "shard %u: %llu is %s", shard,
                           (unsigned long long)s, gap ? "no gap" : "lost");
    w->seen[shard] = last;
}

// The caller stores the position together with what it did, so a crash takes back both.
struct stored {
    struct buf position;
    uint64_t seen[SHARDS];
};

static void store(struct world *w, const struct consumer *c, struct stored *to)
{
    buf_clear(&to->position);
    consumer_position_put(c, &to->position);
    memcpy(to->seen, w->seen, sizeof w->seen);
}

static void run_stream(struct world *w)
{
    struct consumer_config config = {.hold_ms = HOLD_MS, .from_first = true};
    struct consumer *c = consumer_new(&config, schemas);
    struct consumer_result out;
    struct stored stored = {0};
    char why[ENVELOPE_WHY_MAX];
    int64_t now = 0;
    int crashes = (int)rng_below(&w->rng, 6);
    buf_init(&stored.position, CONSUMER_POSITION_MAX);
    store(w, c, &stored);
    for (size_t at = 0; at < w->len && !w->wrong[0]; at++, now++) {
        give(c, at + 1, w->stream[at].shard, w->stream[at].sequence, now);
        while (consumer_next(c, now, &out)) {
            see(w, &out);
            if (rng_chance(&w->rng, 3000)) store(w, c, &stored);
        }
        if (crashes == 0 || !rng_chance(&w->rng, 200)) continue;
        crashes--;
        consumer_free(c);
        c = consumer_new(&config, schemas);
        assert_int_equal(consumer_position_take(c, buf_bytes(&stored.position), why), ERR_OK);
        memcpy(w->seen, stored.seen, sizeof w->seen);
        at = consumer_resume(c) - 2; // the loop adds one, and numbers begin with 1
    }
    while (!w->wrong[0] && consumer_next(c, now + HOLD_MS, &out))
        see(w, &out);
    for (uint32_t shard = 0; shard < SHARDS && !w->wrong[0]; shard++)
        if (w->seen[shard] != EVENTS)
            (void)snprintf(w->wrong, sizeof w->wrong, "shard %u ends at %llu", shard,
                           (unsigned long long)w->seen[shard]);
    consumer_free(c);
    buf_done(&stored.position);
}

static bool world_is_right(uint64_t seed, char wrong[200])
{
    struct world w = {0};
    rng_init(&w.rng, seed);
    make_stream(&w);
    run_stream(&w);
    (void)snprintf(wrong, 200, "%s", w.wrong);
    return !w.wrong[0];
}

static int open_schemas(void **state)
{
    (void)state;
    schemas = schema_set_new();
    return 0;
}

static int close_schemas(void **state)
{
    (void)state;
    schema_set_free(schemas);
    return 0;
}

#ifdef SLUICE_MUTANTS
static void a_consumer_that_does_not_drop_duplicates_is_caught(void **state)
{
    (void)state;
    char wrong[200];
    uint64_t seed = 1;
    mutant_active = MUTANT_CONSUMER_DEDUP_OFF;
    while (seed <= 20 && world_is_right(seed, wrong))
        seed++;
    assert_true(seed <= 20);
    mutant_active = MUTANT_NONE;
    assert_true(world_is_right(seed, wrong));
}
#else
static void random_streams_come_out_as_the_journal_has_them(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        char wrong[200];
        if (!world_is_right(seed, wrong))
            fail_msg("seed %llu: %s", (unsigned long long)seed, wrong);
    }
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
#ifdef SLUICE_MUTANTS
        cmocka_unit_test(a_consumer_that_does_not_drop_duplicates_is_caught),
#else
        cmocka_unit_test(random_streams_come_out_as_the_journal_has_them),
#endif
        cmocka_unit_test(events_come_out_once_and_in_order),
        cmocka_unit_test(a_missing_event_is_a_gap_after_a_while),
        cmocka_unit_test(waiting_events_are_bounded_in_number_and_bytes),
        cmocka_unit_test(a_gap_of_the_publisher_is_told_once),
        cmocka_unit_test(another_life_of_a_queue_is_another_count),
        cmocka_unit_test(bad_messages_and_other_majors_are_refused_with_a_reason),
        cmocka_unit_test(events_without_a_sequence_are_known_by_id),
        cmocka_unit_test(a_filtered_consumer_reports_no_gaps),
        cmocka_unit_test(shards_are_bounded),
        cmocka_unit_test(a_position_is_read_as_it_was_written),
        cmocka_unit_test(a_forged_event_leaves_a_position_that_can_be_read),
        cmocka_unit_test(every_change_of_a_position_is_damage),
    };
    return cmocka_run_group_tests(tests, open_schemas, close_schemas);
}
