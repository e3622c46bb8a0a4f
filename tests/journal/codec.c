// SPDX-License-Identifier: Apache-2.0
// Stored bytes: what is written reads back, any damage is CORRUPT, and format 1 stays format 1 (the
// golden files).
#include "../unit/unit.h"
#include "os/file.h"
#include "samples.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum err decoder(struct bytes from);

static enum err decode_entry(struct bytes from)
{
    struct entry e;
    const char *why = NULL;
    enum err err = entry_decode(from, &e, &why);
    assert_true((err == ERR_OK) == (why == NULL));
    if (!err) entry_done(&e);
    return err;
}

static enum err decode_snapshot(struct bytes from)
{
    struct core core;
    struct snapshot s;
    core_init(&core);
    enum err err = snapshot_decode(from, &core, &s);
    core_done(&core);
    return err;
}

static enum err decode_floor(struct bytes from)
{
    struct floor f;
    return floor_decode(from, &f);
}

static void every_flipped_bit_is_noticed(const struct buf *good, decoder *decode)
{
    struct bytes copy = bytes_copy(buf_bytes(good));
    uint8_t *bytes = (uint8_t *)(uintptr_t)copy.data;
    for (size_t bit = 0; bit < copy.len * 8; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        assert_int_equal(decode(copy), ERR_CORRUPT);
        bytes[bit / 8] ^= (uint8_t)(1u << (bit % 8));
    }
    assert_int_equal(decode(copy), ERR_OK);
    bytes_free(copy);
}

static void every_cut_and_every_extra_byte_is_noticed(const struct buf *good, decoder *decode)
{
    for (size_t len = 0; len < good->len; len++) {
        struct bytes cut = bytes_copy(bytes_of(good->data, len));
        assert_int_equal(decode(cut), ERR_CORRUPT);
        bytes_free(cut);
    }
    CLEANUP(buf_done) struct buf longer;
    buf_init(&longer, good->len + 1);
    buf_put(&longer, buf_bytes(good));
    buf_put_u8(&longer, 0);
    assert_int_equal(decode(buf_bytes(&longer)), ERR_CORRUPT);
}

static void golden_file_still_matches(const struct buf *made, const char *name)
{
    char path[1000];
    const char *dir = getenv("GOLDEN");
    assert_non_null(dir);
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    if (getenv("GOLDEN_WRITE")) assert_int_equal(file_write(path, buf_bytes(made)), 0);
    CLEANUP(buf_done) struct buf stored;
    buf_init(&stored, 1 << 20);
    assert_int_equal(file_read(path, &stored), 0);
    assert_true(bytes_equal(buf_bytes(&stored), buf_bytes(made)));
}

#define SAMPLE(name, limit)                                                                        \
    CLEANUP(buf_done) struct buf name;                                                             \
    buf_init(&name, limit);                                                                        \
    sample_##name(&name);                                                                          \
    assert_false(name.bad)

static void entry_reads_back_as_written(void **state)
{
    (void)state;
    SAMPLE(entry, ENTRY_LEN_MAX);
    struct entry e;
    const char *why;
    assert_int_equal(entry_decode(buf_bytes(&entry), &e, &why), ERR_OK);
    assert_int_equal(e.slot, 42);
    assert_int_equal(e.id.shard, 3);
    assert_int_equal(e.sequence, 9);
    assert_int_equal(e.time.hi - e.time.lo, 1000);
    assert_int_equal(e.ops_len, 3);
    assert_int_equal(e.ops[2].kind, 300);
    assert_true(bytes_equal(e.ops[2].payload, bytes_str("a third op")));
    assert_int_equal(e.ops[1].payload.len, 0);
    entry_done(&e);
}

static void damaged_entry_is_corrupt(void **state)
{
    (void)state;
    SAMPLE(entry, ENTRY_LEN_MAX);
    every_flipped_bit_is_noticed(&entry, decode_entry);
    every_cut_and_every_extra_byte_is_noticed(&entry, decode_entry);
}

static void entry_over_its_limit_is_not_written(void **state)
{
    (void)state;
    CLEANUP(buf_done) struct buf small;
    buf_init(&small, 150);
    sample_entry(&small);
    assert_true(small.bad);
}

// Fields that only a broken writer could produce, with a checksum that fits.
static void well_sealed_nonsense_is_corrupt(void **state)
{
    (void)state;
    SAMPLE(entry, ENTRY_LEN_MAX);
    static const struct {
        size_t at;
        uint32_t value;
    } lies[] = {{6, 1},   {32, 0},           {36, 0xffffffff}, {112, 2},
                {112, 4}, {112, 0xffffffff}, {116, 1},         {124, 6}};
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        CLEANUP(buf_done) struct buf lie;
        buf_init(&lie, ENTRY_LEN_MAX);
        buf_put(&lie, bytes_of(entry.data, entry.len - ENTRY_CHECKSUM_LEN));
        buf_set_u32(&lie, lies[i].at, lies[i].value);
        buf_put_hash128(&lie, hash128_of(buf_bytes(&lie)));
        assert_int_equal(decode_entry(buf_bytes(&lie)), ERR_CORRUPT);
    }
}

// Numbers that would wrap or overflow where the journal counts on with them.
static void impossible_numbers_in_a_snapshot_or_floor_are_corrupt(void **state)
{
    (void)state;
    SAMPLE(snapshot, SNAPSHOT_LEN_MAX);
    SAMPLE(floor, FLOOR_LEN);
    static const struct {
        size_t at; // of the high half
        uint32_t value;
    } lies[] = {{44, 0xffffffff},   // floor index
                {52, 0x80000000},   // floor slot
                {68, 0xffffffff},   // slot
                {92, 0x80000000},   // now
                {92, 0x7fffffff},   // ... and too far
                {100, 0xffffffff},  // epoch
                {151, 0x7fffffff},  // horizon
                {187, 0x80000000}}; // a session's time
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        CLEANUP(buf_done) struct buf lie;
        buf_init(&lie, SNAPSHOT_LEN_MAX);
        buf_put(&lie, bytes_of(snapshot.data, snapshot.len - 16));
        buf_set_u32(&lie, lies[i].at, lies[i].value);
        buf_put_hash128(&lie, hash128_of(buf_bytes(&lie)));
        assert_int_equal(decode_snapshot(buf_bytes(&lie)), ERR_CORRUPT);
    }
    for (size_t at = 36; at <= 44; at += 8) { // index, slot
        CLEANUP(buf_done) struct buf lie;
        buf_init(&lie, FLOOR_LEN);
        buf_put(&lie, bytes_of(floor.data, FLOOR_LEN - 8));
        buf_set_u32(&lie, at, 0xffffffff);
        buf_put_u64(&lie, hash128_of(buf_bytes(&lie)).lo);
        assert_int_equal(decode_floor(buf_bytes(&lie)), ERR_CORRUPT);
    }
}

static void snapshot_reads_back_as_written(void **state)
{
    (void)state;
    SAMPLE(snapshot, SNAPSHOT_LEN_MAX);
    struct core core;
    struct snapshot s;
    core_init(&core);
    assert_int_equal(snapshot_decode(buf_bytes(&snapshot), &core, &s), ERR_OK);
    assert_int_equal(core.slot, 2);
    assert_int_equal(core.epoch, 1);
    assert_int_equal(core.token, 77);
    assert_int_equal(core.sessions_len, 2);
    assert_int_equal(s.floor_index, 4);
    assert_true(bytes_equal(s.machine, bytes_str("the machine's own bytes")));
    CLEANUP(buf_done) struct buf again;
    buf_init(&again, SNAPSHOT_LEN_MAX);
    snapshot_encode(&s, &again);
    assert_true(bytes_equal(buf_bytes(&again), buf_bytes(&snapshot)));
    core_done(&core);
}

static void damaged_snapshot_is_corrupt(void **state)
{
    (void)state;
    SAMPLE(snapshot, SNAPSHOT_LEN_MAX);
    every_flipped_bit_is_noticed(&snapshot, decode_snapshot);
    every_cut_and_every_extra_byte_is_noticed(&snapshot, decode_snapshot);
}

static void damaged_floor_is_corrupt(void **state)
{
    (void)state;
    SAMPLE(floor, FLOOR_LEN);
    every_flipped_bit_is_noticed(&floor, decode_floor);
    every_cut_and_every_extra_byte_is_noticed(&floor, decode_floor);
}

// The files are named by their version of the rules.
static void the_bytes_match_the_golden_files(void **state)
{
    (void)state;
    SAMPLE(entry, ENTRY_LEN_MAX);
    SAMPLE(snapshot, SNAPSHOT_LEN_MAX);
    SAMPLE(floor, FLOOR_LEN);
    golden_file_still_matches(&entry, "entry.1");
    golden_file_still_matches(&snapshot, "snapshot.1");
    golden_file_still_matches(&floor, "floor.1");
    SAMPLE(raised_entry, ENTRY_LEN_MAX);
    SAMPLE(raised_snapshot, SNAPSHOT_LEN_MAX);
    golden_file_still_matches(&raised_entry, "entry.2");
    golden_file_still_matches(&raised_snapshot, "snapshot.2");
}

static void raised_bytes_read_back_as_written(void **state)
{
    (void)state;
    SAMPLE(raised_entry, ENTRY_LEN_MAX);
    SAMPLE(raised_snapshot, SNAPSHOT_LEN_MAX);
    struct entry e;
    const char *why;
    assert_int_equal(entry_decode(buf_bytes(&raised_entry), &e, &why), ERR_OK);
    assert_int_equal(e.rules, 2);
    entry_done(&e);
    struct core core;
    struct snapshot s;
    core_init(&core);
    assert_int_equal(snapshot_decode(buf_bytes(&raised_snapshot), &core, &s), ERR_OK);
    assert_int_equal(s.rules, 2);
    core_done(&core);
    every_flipped_bit_is_noticed(&raised_entry, decode_entry);
    every_flipped_bit_is_noticed(&raised_snapshot, decode_snapshot);
}

// Puts a format and a version into the header, and a fitting checksum at the end.
static void reseal(struct buf *b, uint8_t format, uint8_t rules)
{
    b->data[4] = format;
    b->data[6] = rules;
    b->len -= ENTRY_CHECKSUM_LEN;
    buf_put_hash128(b, hash128_of(buf_bytes(b)));
}

static void a_later_format_is_too_new_and_not_damaged(void **state)
{
    (void)state;
    SAMPLE(raised_entry, ENTRY_LEN_MAX);
    SAMPLE(raised_snapshot, SNAPSHOT_LEN_MAX);
    struct entry e;
    const char *why;
    struct core core;
    struct snapshot s;
    core_init(&core);
    reseal(&raised_entry, 2, 9);
    reseal(&raised_snapshot, 2, 9);
    assert_int_equal(entry_decode(buf_bytes(&raised_entry), &e, &why), ERR_UNAVAILABLE);
    assert_int_equal(e.rules, 9);
    assert_int_equal(snapshot_decode(buf_bytes(&raised_snapshot), &core, &s), ERR_UNAVAILABLE);
    assert_int_equal(s.rules, 9);
    static const uint8_t wrong[][2] = {{0, 0}, {0, 1}, {1, 0}, {2, 0}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        reseal(&raised_entry, wrong[i][0], wrong[i][1]);
        reseal(&raised_snapshot, wrong[i][0], wrong[i][1]);
        assert_int_equal(decode_entry(buf_bytes(&raised_entry)), ERR_CORRUPT);
        assert_int_equal(decode_snapshot(buf_bytes(&raised_snapshot)), ERR_CORRUPT);
    }
    core_done(&core);
}

// What comes after the last number could not be written.
static void a_snapshot_or_a_floor_with_the_last_number_is_corrupt(void **state)
{
    (void)state;
    SAMPLE(snapshot, SNAPSHOT_LEN_MAX);
    SAMPLE(floor, FLOOR_LEN);
    const uint64_t numbers[] = {ENTRY_SLOT_MAX, 7};
    for (size_t i = 0; i < 2; i++) {
        enum err expected = numbers[i] == ENTRY_SLOT_MAX ? ERR_CORRUPT : ERR_OK;
        snapshot.len -= 16;
        le_put(snapshot.data + 64, numbers[i], 8); // the slot
        buf_put_hash128(&snapshot, hash128_of(buf_bytes(&snapshot)));
        assert_int_equal(decode_snapshot(buf_bytes(&snapshot)), expected);
        floor.len -= 8;
        le_put(floor.data + 32, numbers[i], 8); // the index
        buf_put_u64(&floor, hash128_of(buf_bytes(&floor)).lo);
        assert_int_equal(decode_floor(buf_bytes(&floor)), expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entry_reads_back_as_written),
        cmocka_unit_test(damaged_entry_is_corrupt),
        cmocka_unit_test(entry_over_its_limit_is_not_written),
        cmocka_unit_test(well_sealed_nonsense_is_corrupt),
        cmocka_unit_test(impossible_numbers_in_a_snapshot_or_floor_are_corrupt),
        cmocka_unit_test(snapshot_reads_back_as_written),
        cmocka_unit_test(damaged_snapshot_is_corrupt),
        cmocka_unit_test(damaged_floor_is_corrupt),
        cmocka_unit_test(the_bytes_match_the_golden_files),
        cmocka_unit_test(raised_bytes_read_back_as_written),
        cmocka_unit_test(a_later_format_is_too_new_and_not_damaged),
        cmocka_unit_test(a_snapshot_or_a_floor_with_the_last_number_is_corrupt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
