// SPDX-License-Identifier: Apache-2.0
// The map beside a table of what is in it: keys that come several times, keys that collide, holes
// left by removals.
#include "base/map.h"

#include "base/rng.h"
#include "unit.h"

#define KEYS   24
#define VALUES 8

static void empty_map_finds_nothing(void **state)
{
    (void)state;
    struct map m;
    map_init(&m);
    size_t at = map_first(&m, 1);
    assert_int_equal(map_find(&m, 1), MAP_NONE);
    assert_null(map_at(&m, 1));
    assert_int_equal(map_value(&m, 1, &at), MAP_NONE);
    map_done(&m);
}

static void value_can_be_changed_in_place(void **state)
{
    (void)state;
    struct map m;
    map_init(&m);
    map_add(&m, 7, 1);
    *map_at(&m, 7) = 2;
    assert_int_equal(map_find(&m, 7), 2);
    map_remove(&m, 7, 2);
    assert_int_equal(map_find(&m, 7), MAP_NONE);
    map_done(&m);
}

// Small, huge, and equal in their low bits, as a bad hash would give them.
static uint64_t key_of(size_t i)
{
    return i % 3 == 0 ? i : i % 3 == 1 ? UINT64_MAX - i : (uint64_t)i << 56;
}

static void assert_holds(const struct map *m, uint64_t key, const bool expected[VALUES])
{
    bool seen[VALUES] = {false};
    size_t at = map_first(m, key);
    for (uint32_t v; (v = map_value(m, key, &at)) != MAP_NONE;) {
        assert_true(v < VALUES);
        assert_false(seen[v]);
        seen[v] = true;
    }
    bool any = false;
    for (size_t v = 0; v < VALUES; v++) {
        assert_int_equal(seen[v], expected[v]);
        any = any || expected[v];
    }
    uint32_t found = map_find(m, key);
    assert_int_equal(found != MAP_NONE, any);
    if (any) assert_true(expected[found]);
}

static void any_additions_and_removals_match_a_plain_table(void **state)
{
    (void)state;
    struct rng r;
    rng_init(&r, 1);
    struct map m;
    map_init(&m);
    bool table[KEYS][VALUES] = {{false}};
    size_t len = 0;
    for (int step = 0; step < 20000; step++) {
        size_t k = rng_below(&r, KEYS);
        size_t v = rng_below(&r, VALUES);
        if (table[k][v])
            map_remove(&m, key_of(k), (uint32_t)v);
        else
            map_add(&m, key_of(k), (uint32_t)v);
        len += table[k][v] ? (size_t)-1 : 1;
        table[k][v] = !table[k][v];
        assert_int_equal(m.len, len);
        for (size_t i = 0; i < KEYS; i++)
            assert_holds(&m, key_of(i), table[i]);
    }
    map_clear(&m);
    assert_int_equal(map_find(&m, key_of(0)), MAP_NONE);
    map_done(&m);
}

static void many_keys_are_all_found_again(void **state)
{
    (void)state;
    struct map m;
    map_init(&m);
    for (uint32_t i = 0; i < 100000; i++)
        map_add(&m, (uint64_t)i << 20, i);
    for (uint32_t i = 0; i < 100000; i++)
        assert_int_equal(map_find(&m, (uint64_t)i << 20), i);
    map_done(&m);
}

static void remove_from_an_empty_map(void)
{
    struct map m;
    map_init(&m);
    map_remove(&m, 1, 1);
}

static void remove_another_value(void)
{
    struct map m;
    map_init(&m);
    map_add(&m, 1, 1);
    map_remove(&m, 1, 2);
}

static void removing_what_is_not_there_aborts(void **state)
{
    (void)state;
    assert_true(aborts(remove_from_an_empty_map));
    assert_true(aborts(remove_another_value));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_map_finds_nothing),
        cmocka_unit_test(value_can_be_changed_in_place),
        cmocka_unit_test(any_additions_and_removals_match_a_plain_table),
        cmocka_unit_test(many_keys_are_all_found_again),
        cmocka_unit_test(removing_what_is_not_there_aborts),
    };
    return cmocka_run_group_tests_name("map", tests, NULL, NULL);
}
