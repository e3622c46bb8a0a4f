// SPDX-License-Identifier: Apache-2.0
// How many connections one address may have, and which end when there are too many. Each is a pair
// of sockets: a connection that was cut shows at the other end.
#include "net/connections.h"

#include "../unit/unit.h"
#include "os/clock.h"

#include <arpa/inet.h>
#include <poll.h>
#include <string.h>

#define MAX 8

struct one {
    struct connection *line;
    int fds[2];
    struct sockaddr_storage from;
};

static struct sockaddr_storage address(const char *text)
{
    struct sockaddr_storage a = {0};
    struct sockaddr_in *four = (struct sockaddr_in *)&a;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)&a;
    a.ss_family = strchr(text, ':') ? AF_INET6 : AF_INET;
    void *to = strchr(text, ':') ? (void *)&six->sin6_addr : (void *)&four->sin_addr;
    assert_int_equal(inet_pton(a.ss_family, text, to), 1);
    return a;
}

static bool comes(struct connections *l, struct one *o, const char *from)
{
    o->from = address(from);
    if (!connections_admit(l, (const struct sockaddr *)&o->from)) return false;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, o->fds), 0);
    o->line = connection_new(l, o->fds[0], (const struct sockaddr *)&o->from, 60000);
    return true;
}

static bool is_cut(const struct one *o)
{
    char byte;
    return recv(o->fds[1], &byte, 1, MSG_DONTWAIT) == 0;
}

static void goes(struct connections *l, struct one *o)
{
    connection_free(l, o->line);
    (void)close(o->fds[0]);
    (void)close(o->fds[1]);
}

static void one_address_has_three_quarters_and_others_the_rest(void **state)
{
    (void)state;
    struct connections l;
    struct one all[MAX];
    connections_init(&l, &(struct connections_config){.connections_max = MAX});
    for (int i = 0; i < 6; i++) {
        assert_true(comes(&l, &all[i], "10.0.0.1"));
        connection_heard(&l, all[i].line);
    }
    struct one none;
    assert_false(comes(&l, &none, "10.0.0.1"));
    assert_true(comes(&l, &all[6], "10.0.0.2"));
    assert_true(comes(&l, &all[7], "10.0.0.2"));
    for (int i = 0; i < MAX; i++)
        goes(&l, &all[i]);
    connections_done(&l);
}

static void the_oldest_without_a_head_makes_way_for_its_own_address(void **state)
{
    (void)state;
    struct connections l;
    struct one all[4];
    connections_init(&l,
                     &(struct connections_config){.connections_max = 100, .per_address_max = 3});
    for (int i = 0; i < 3; i++)
        assert_true(comes(&l, &all[i], "10.0.0.1"));
    connection_heard(&l, all[0].line);
    assert_true(comes(&l, &all[3], "10.0.0.1"));
    assert_false(is_cut(&all[0])); // it has sent a head
    assert_true(is_cut(&all[1]));
    assert_false(is_cut(&all[2]));
    for (int i = 0; i < 4; i++)
        goes(&l, &all[i]);
    connections_done(&l);
}

static void an_address_over_its_share_cuts_no_other(void **state)
{
    (void)state;
    struct connections l;
    struct one other, mine[2];
    connections_init(&l,
                     &(struct connections_config){.connections_max = 100, .per_address_max = 1});
    assert_true(comes(&l, &other, "10.0.0.2"));
    assert_true(comes(&l, &mine[0], "10.0.0.1"));
    assert_true(comes(&l, &mine[1], "10.0.0.1"));
    assert_false(is_cut(&other));
    assert_true(is_cut(&mine[0]));
    goes(&l, &other);
    goes(&l, &mine[0]);
    goes(&l, &mine[1]);
    connections_done(&l);
}

static void ipv6_counts_by_its_first_64_bits_and_a_mapped_address_as_ipv4(void **state)
{
    (void)state;
    struct connections l;
    struct one all[4], none;
    connections_init(&l,
                     &(struct connections_config){.connections_max = 100, .per_address_max = 1});
    static const char *const first[] = {"2001:db8:1:2::1", "2001:db8:1:3::1", "192.0.2.7", "::1"};
    static const char *const client[] = {"2001:db8:1:2::/64", "2001:db8:1:3::/64", "192.0.2.7",
                                         "::/64"};
    static const char *const again[] = {"2001:db8:1:2:ffff::9", "2001:db8:1:3::2",
                                        "::ffff:192.0.2.7", "::2"};
    for (int i = 0; i < 4; i++) {
        assert_true(comes(&l, &all[i], first[i]));
        connection_heard(&l, all[i].line);
        assert_string_equal(all[i].line->peer, first[i]);
        assert_string_equal(all[i].line->client, client[i]);
    }
    for (int i = 0; i < 4; i++)
        assert_false(comes(&l, &none, again[i]));
    for (int i = 0; i < 4; i++)
        goes(&l, &all[i]);
    connections_done(&l);
}

static void the_oldest_of_all_makes_way_when_it_had_time_for_a_head(void **state)
{
    (void)state;
    struct connections l;
    struct one all[3];
    connections_init(&l, &(struct connections_config){.connections_max = 3});
    assert_true(comes(&l, &all[0], "10.0.0.1"));
    connection_heard(&l, all[0].line);
    assert_true(comes(&l, &all[1], "10.0.0.2"));
    connections_make_space(&l);
    assert_false(is_cut(&all[1])); // it has only just come
    all[1].line->since_ms -= 2000;
    assert_true(comes(&l, &all[2], "10.0.0.3"));
    connections_make_space(&l);
    assert_false(is_cut(&all[0]));
    assert_true(is_cut(&all[1]));
    assert_false(is_cut(&all[2]));
    for (int i = 0; i < 3; i++)
        goes(&l, &all[i]);
    connections_done(&l);
}

static void what_was_not_taken_after_all_does_not_count(void **state)
{
    (void)state;
    struct connections l;
    struct one one;
    struct sockaddr_storage from = address("10.0.0.1");
    connections_init(&l,
                     &(struct connections_config){.connections_max = 100, .per_address_max = 1});
    assert_true(connections_admit(&l, (const struct sockaddr *)&from));
    connections_unadmit(&l, (const struct sockaddr *)&from);
    assert_true(comes(&l, &one, "10.0.0.1"));
    goes(&l, &one);
    assert_int_equal(l.open, 0);
    connections_done(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_address_has_three_quarters_and_others_the_rest),
        cmocka_unit_test(the_oldest_without_a_head_makes_way_for_its_own_address),
        cmocka_unit_test(an_address_over_its_share_cuts_no_other),
        cmocka_unit_test(ipv6_counts_by_its_first_64_bits_and_a_mapped_address_as_ipv4),
        cmocka_unit_test(the_oldest_of_all_makes_way_when_it_had_time_for_a_head),
        cmocka_unit_test(what_was_not_taken_after_all_does_not_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
