// SPDX-License-Identifier: Apache-2.0
// The list of nodes in a URL, and the map of owners that a client learns, without any node.
#include "client/nodes.h"
#include "../unit/unit.h"
#include "base/bytes.h"
#include "protocol/owner_map.h"
#include "protocol/shard_of.h"

#include <stdio.h>
#include <string.h>

static void init(struct nodes *n, const char *url)
{
    struct sluice_error error = {.message = ""};
    if (nodes_init(n, url, &error)) fail_msg("%s: %s", url, error.message);
}

static void a_list_names_each_node(void **state)
{
    static const struct {
        const char *url;
        const char *nodes[3];
    } rows[] = {
        {"http://a:7333", {"http://a:7333"}},
        {"http://a:7333/", {"http://a:7333"}},
        {"http://host/path,with,commas", {"http://host/path,with,commas"}},
        {"http://a:7333,b:7334", {"http://a:7333", "http://b:7334"}},
        {"http://A:7333,b/", {"http://a:7333", "http://b"}},
        {"https://a,[::1]:9,c:1", {"https://a", "https://[::1]:9", "https://c:1"}},
        {"http://a:1,http://b:2", {"http://a:1", "http://b:2"}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct nodes n;
        init(&n, rows[i].url);
        size_t len = 0;
        for (; len < 3 && rows[i].nodes[len]; len++)
            assert_string_equal(n.all[len].url, rows[i].nodes[len]);
        assert_int_equal(n.len, len);
        nodes_done(&n);
    }
}

static void a_bad_name_in_a_list_is_refused_by_name(void **state)
{
    static const char *const rows[][2] = {
        {"http://", "not the URL of a node"},
        {"http://a:7333,", "empty name"},
        {"http://,a", "empty name"},
        {"http://a,,b", "empty name"},
        {"http://a,b:port", "\"b:port\" is not a node"},
        {"http://a,b:70000", "\"b:70000\" is not a node"},
        {"http://a,b/path", "\"b/path\" is not a node"},
        {"http://a,https://b", "\"https://b\" is not a node"},
        {"http://a,b c", "not the URL of a node"},
        {"http://a:1,b:1,A:1", "names http://a:1 twice"},
        {"http://a,user:secret@b", "may not contain a user"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct nodes n;
        struct sluice_error error = {.message = ""};
        assert_int_equal(nodes_init(&n, rows[i][0], &error), SLUICE_INVALID);
        if (!strstr(error.message, rows[i][1])) fail_msg("%s: %s", rows[i][0], error.message);
        assert_null(strstr(error.message, "secret"));
        nodes_done(&n);
    }
}

static void a_list_has_at_most_64_nodes(void **state)
{
    char url[2048] = "http://n0";
    struct nodes n;
    struct sluice_error error = {.message = ""};
    (void)state;
    for (int i = 1; i < NODES_MAX; i++)
        (void)snprintf(url + strlen(url), sizeof url - strlen(url), ",n%d", i);
    init(&n, url);
    assert_int_equal(n.len, NODES_MAX);
    nodes_done(&n);
    (void)snprintf(url + strlen(url), sizeof url - strlen(url), ",last");
    assert_int_equal(nodes_init(&n, url, &error), SLUICE_INVALID);
    assert_non_null(strstr(error.message, "more than 64"));
    nodes_done(&n);
}

static void attempts_walk_over_all_nodes_and_leave_out_those_away(void **state)
{
    struct nodes n;
    (void)state;
    init(&n, "http://a,b,c");
    struct nodes_walk w = nodes_walk(&n);
    assert_int_equal(nodes_next(&n, &w, 1), 1);
    size_t second = nodes_next(&n, &w, 1), third = nodes_next(&n, &w, 1);
    assert_int_equal(second + third, 2); // 0 and 2, in either order
    assert_int_equal(w.left, 0);
    assert_int_equal(nodes_next(&n, &w, 1), 1); // the next round
    nodes_report(&n, 1, false);
    w = nodes_walk(&n);
    assert_true(nodes_next(&n, &w, 1) != 1);
    assert_true(nodes_next(&n, &w, 1) != 1);
    assert_int_equal(nodes_next(&n, &w, 1), 1); // the last resort
    nodes_report(&n, 1, true);
    w = nodes_walk(&n);
    assert_int_equal(nodes_next(&n, &w, 1), 1);
    nodes_done(&n);
}

static size_t node_for(struct nodes *n, const char *group)
{
    struct sluice_send m = {.group = group};
    struct sluice_request id = {{0}};
    return nodes_for_sends(n, "tasks", &m, 1, &id);
}

// A group of the shard.
static const char *group_of(uint32_t shards, uint32_t shard)
{
    static char group[16];
    struct sluice_send m = {.group = group};
    for (unsigned i = 0;; i++) {
        (void)snprintf(group, sizeof group, "g%u", i);
        if (shard_of_send(shards, false, &m, (const uint8_t[16]){0}, 0) == shard) return group;
    }
}

static void a_learned_map_leads_to_the_owner(void **state)
{
    struct nodes n;
    char line[NODES_HASH_MAX];
    const char *line_told = "01-1 unordered http://b:7333 http://a:7333";
    const char *tokens[] = {"3f9a01cc-0-17-x", "3f9a01cc-3-1-x", "3f9a01cc-1-1-x"};
    (void)state;
    init(&n, "http://a:7333,b:7333");
    assert_true(nodes_ask_owners(&n, "tasks", line));
    assert_string_equal(line, OWNER_MAP_HEADER ": ?");
    assert_true(node_for(&n, "x") == NODES_ANY);
    nodes_learn(&n, "tasks", bytes_str(line_told));
    assert_true(node_for(&n, group_of(4, 0)) == 1);
    assert_true(node_for(&n, group_of(4, 1)) == 0);
    assert_true(node_for(&n, group_of(4, 2)) == NODES_ANY);
    assert_true(node_for(&n, group_of(4, 3)) == 0);
    assert_true(nodes_for_tokens(&n, "tasks", tokens, 1) == 1);
    assert_true(nodes_for_tokens(&n, "tasks", tokens, 3) == 0); // the owner of most
    assert_true(nodes_for_tokens(&n, "others", tokens, 1) == NODES_ANY);
    char hash[OWNER_MAP_HASH_MAX], expected[NODES_HASH_MAX];
    owner_map_hash(bytes_str(line_told), hash);
    (void)snprintf(expected, sizeof expected, OWNER_MAP_HEADER ": %s", hash);
    assert_true(nodes_ask_owners(&n, "tasks", line));
    assert_string_equal(line, expected);
    nodes_learn(&n, "tasks", bytes_str("---0 unordered http://b:7333")); // knows one shard
    assert_true(node_for(&n, group_of(4, 0)) == 1);
    assert_true(node_for(&n, group_of(4, 3)) == 1);
    nodes_done(&n);
}

static void an_answer_cannot_direct_a_client_out_of_its_list(void **state)
{
    struct nodes n;
    (void)state;
    init(&n, "http://a:7333,b:7333");
    nodes_learn(&n, "tasks", bytes_str("01 unordered http://evil:7333 http://a:7333"));
    assert_true(node_for(&n, group_of(2, 0)) == NODES_ANY);
    assert_true(node_for(&n, group_of(2, 1)) == 0);
    nodes_learn(&n, "tasks", bytes_str("00 unordered http://b:7333.evil"));
    assert_true(node_for(&n, group_of(2, 1)) == NODES_ANY);
    nodes_learn(&n, "tasks", bytes_str("9z")); // malformed: nothing is learned
    assert_true(node_for(&n, group_of(2, 1)) == NODES_ANY);
    nodes_done(&n);
}

static void one_node_asks_for_no_owners(void **state)
{
    struct nodes n;
    char line[NODES_HASH_MAX];
    (void)state;
    init(&n, "http://a:7333");
    assert_false(nodes_ask_owners(&n, "tasks", line));
    nodes_learn(&n, "tasks", bytes_str("0 unordered http://a:7333"));
    assert_true(node_for(&n, "x") == NODES_ANY);
    nodes_done(&n);
}

static void malformed_maps_are_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "0",
        "0 unordered",
        "0  unordered http://a",
        "1 unordered http://a",
        " 0",
        "0 unordered http://a ",
        "0 sometimes http://a",
        "0! unordered http://a",
        "-",
        "- ",
        "0 unordered  http://a",
    };
    struct owner_map map;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (owner_map_parse(bytes_str(bad[i]), &map)) fail_msg("\"%s\" was read", bad[i]);
    assert_true(owner_map_parse(bytes_str("--- ordered"), &map));
    assert_int_equal(map.shards, 3);
    assert_true(map.ordered);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_names_each_node),
        cmocka_unit_test(a_bad_name_in_a_list_is_refused_by_name),
        cmocka_unit_test(a_list_has_at_most_64_nodes),
        cmocka_unit_test(attempts_walk_over_all_nodes_and_leave_out_those_away),
        cmocka_unit_test(a_learned_map_leads_to_the_owner),
        cmocka_unit_test(an_answer_cannot_direct_a_client_out_of_its_list),
        cmocka_unit_test(one_node_asks_for_no_owners),
        cmocka_unit_test(malformed_maps_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
