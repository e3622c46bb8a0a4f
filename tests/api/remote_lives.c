// SPDX-License-Identifier: Apache-2.0
// Deleting a queue by way of a node, when the answer is lost and another process makes a queue of
// that name before it is asked for again.
#include "../conformance/store/support.h"
#include "../unit/unit.h"
#include "api/handle.h"
#include "fault_proxy.h"
#include "ops/life.h"
#include "os/clock.h"
#include "server/server.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define FINE(call)                                                                                 \
    do {                                                                                           \
        struct sluice_error error = {.message = ""};                                               \
        if (call) fail_msg("%s: %s", sluice_code_name(error.code), error.message);                 \
    } while (0)

struct rig {
    struct sluice *behind; // what the node serves
    struct server *node;
    struct fault_proxy *proxy;
    struct sluice *s; // by way of the proxy
};

static void rig_start(struct rig *r)
{
    char url[80];
    struct server_config config = {.listen = "127.0.0.1:0", .node = "one"};
    FINE(sluice_open("mem:", NULL, &r->behind, &error));
    FINE(server_start(&config, r->behind, &r->node, &error));
    (void)snprintf(url, sizeof url, "http://%s", server_address(r->node));
    r->proxy = proxy_start(url, 1);
    assert_non_null(r->proxy);
    FINE(sluice_open(proxy_url(r->proxy), NULL, &r->s, &error));
    FINE(sluice_queue_create(r->s, "tasks", NULL, 0, &error));
}

static void rig_stop(struct rig *r)
{
    sluice_close(r->s);
    proxy_stop(r->proxy);
    assert_true(server_stop(r->node, DEADLINE_MS));
    sluice_close(r->behind);
}

static void id_of(struct rig *r, char out[33])
{
    struct sluice_queue_info *info;
    FINE(sluice_queue_show(r->behind, "tasks", &info, &error));
    memcpy(out, info->id, sizeof info->id);
    sluice_queue_info_free(info);
}

static void assert_one_message(struct rig *r)
{
    struct sluice_batch *b;
    FINE(sluice_receive(r->behind, "tasks", NULL, &b, &error));
    assert_int_equal(b->len, 1);
    sluice_batch_free(b);
}

static bool make_with_a_message(struct rig *r)
{
    struct sluice_send m = {.body = "precious", .body_len = 8};
    return !sluice_queue_create(r->behind, "tasks", NULL, 0, NULL) &&
           !sluice_send(r->behind, "tasks", &m, 1, NULL, NULL, NULL);
}

// As soon as it is gone. NULL: it could not.
static void *make_it_again(void *arg)
{
    struct rig *r = arg;
    struct sluice_queue_info *info;
    int64_t give_up = clock_boot_ms() + DEADLINE_MS;
    while (sluice_queue_show(r->behind, "tasks", &info, NULL) == SLUICE_OK) {
        sluice_queue_info_free(info);
        if (clock_boot_ms() > give_up) return NULL;
    }
    return make_with_a_message(r) ? r : NULL;
}

static void a_deletion_whose_answer_was_lost_spares_the_next_life(void **state)
{
    (void)state;
    struct rig r;
    pthread_t other;
    void *made;
    struct proxy_faults long_silence = {.stall_ms = 2000};
    rig_start(&r);
    proxy_set(r.proxy, &long_silence);
    proxy_script(r.proxy, "DELETE", PROXY_STALL, 0, 1);
    assert_int_equal(pthread_create(&other, NULL, make_it_again, &r), 0);
    FINE(sluice_queue_delete(r.s, "tasks", &error));
    assert_int_equal(pthread_join(other, &made), 0);
    assert_non_null(made);
    assert_int_equal(proxy_requests(r.proxy, "DELETE"), 2);
    assert_one_message(&r);
    rig_stop(&r);
}

static void a_deletion_whose_answer_was_lost_is_done(void **state)
{
    (void)state;
    struct rig r;
    struct sluice_queue_info *info;
    rig_start(&r);
    proxy_script(r.proxy, "DELETE", PROXY_CUT_AFTER, 0, 1);
    FINE(sluice_queue_delete(r.s, "tasks", &error));
    assert_int_equal(sluice_queue_show(r.behind, "tasks", &info, NULL), SLUICE_NOT_FOUND);
    assert_int_equal(sluice_queue_delete(r.s, "tasks", NULL), SLUICE_NOT_FOUND);
    rig_stop(&r);
}

static void a_delete_that_names_another_life_of_the_queue_deletes_nothing(void **state)
{
    (void)state;
    struct rig r;
    char first[33], second[33];
    struct sluice_error why;
    rig_start(&r);
    id_of(&r, first);
    FINE(queue_delete_life(r.behind->engine, "tasks", first, &error));
    assert_int_equal(queue_delete_life(r.behind->engine, "tasks", first, &why), SLUICE_NOT_FOUND);
    assert_true(make_with_a_message(&r));
    id_of(&r, second);
    assert_int_equal(queue_delete_life(r.behind->engine, "tasks", first, &why), SLUICE_NOT_FOUND);
    assert_string_equal(why.reason, "unknown-queue");
    assert_non_null(strstr(why.message, first));
    assert_one_message(&r);
    FINE(queue_delete_life(r.behind->engine, "tasks", second, &error));
    rig_stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_deletion_whose_answer_was_lost_spares_the_next_life),
        cmocka_unit_test(a_deletion_whose_answer_was_lost_is_done),
        cmocka_unit_test(a_delete_that_names_another_life_of_the_queue_deletes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
