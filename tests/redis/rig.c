// SPDX-License-Identifier: Apache-2.0
#include "rig.h"

#include "os/clock.h"
#include "store/redis/connection.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORDS_MAX 40

void operator_says(const char *command, char *to, size_t to_len)
{
    char why[STORE_WHY_MAX], words[1024];
    struct bytes args[WORDS_MAX];
    size_t count = 0;
    bool refused_too;
    const struct stream_place place = {.path = getenv("SLUICE_TEST_REDIS_SOCKET")};
    int64_t until = clock_boot_ms() + DEADLINE_MS;
    struct stream *stream = stream_open(&place, until, &refused_too, why, sizeof why);
    NEED(stream != NULL);
    struct redis_connection *c = redis_connection_take(stream);
    CLEANUP(buf_done) struct buf out;
    buf_init(&out, 1 << 16);
    bool plain = strstr(getenv("SLUICE_TEST_REDIS"), "/1?") != NULL; // the database of the URL
    struct bytes select[] = {bytes_str("SELECT"), bytes_str(plain ? "1" : "0")};
    resp_format(&out, select, 2);
    (void)snprintf(words, sizeof words, "%s", command);
    for (char *rest = NULL, *word = strtok_r(words, " ", &rest); word && count < WORDS_MAX;
         word = strtok_r(NULL, " ", &rest))
        args[count++] = bytes_str(strcmp(word, "''") == 0 ? "" : word);
    resp_format(&out, args, count);
    struct resp *replies[2];
    NEED(redis_connection_ask(c, buf_bytes(&out), 2, until, replies) == REDIS_ANSWERED);
    const struct resp *r = replies[1];
    const struct resp *shown = r->kind == RESP_LIST ? resp_item(r, 0) : r;
    if (shown->kind == RESP_NUMBER)
        (void)snprintf(to, to_len, "%lld", (long long)shown->number);
    else
        (void)snprintf(to, to_len, "%s%s", shown->kind == RESP_ERROR ? "-" : "",
                       shown->text ? shown->text : "");
    resp_free(replies[0]);
    resp_free(replies[1]);
    redis_connection_free(c, true);
}

void operator_does(const char *command)
{
    char reply[4096];
    operator_says(command, reply, sizeof reply);
    if (reply[0] == '-') (void)fprintf(stderr, "# %s: %s\n", command, reply);
    NEED(reply[0] != '-');
}

void control(const char *word)
{
    char line[600];
    (void)snprintf(line, sizeof line, "%s %s", getenv("SLUICE_TEST_REDIS_CONTROL"), word);
    NEED(system(line) == 0);
}

void place_make(struct place *p, const char *settings)
{
    s3_prefix(p->prefix);
    (void)snprintf(p->url, sizeof p->url, "%s&prefix=%s%s", getenv("SLUICE_TEST_REDIS"), p->prefix,
                   settings);
}

struct store *place_store(const struct place *p)
{
    char why[STORE_WHY_MAX] = "";
    struct store *s = NULL;
    enum err e = store_redis_open(p->url, &s, why, sizeof why);
    answers_at(ERR_OK, e, why, __FILE__, __LINE__);
    return s;
}

void refused(const char *url, enum err want, const char *says)
{
    char why[STORE_WHY_MAX] = "";
    struct store *s = NULL;
    enum err e = store_redis_open(url, &s, why, sizeof why);
    answers_at(want, e, why, __FILE__, __LINE__);
    if (!strstr(why, says)) (void)fprintf(stderr, "# %s\n# is not: %s\n", why, says);
    NEED(strstr(why, says) != NULL);
}

void *sleep_in_store(void *arg)
{
    struct sleeper *me = arg;
    struct store_answer a;
    store_answer_init(&a);
    int64_t end = clock_boot_ms() + DEADLINE_MS;
    do {
        me->e = store_wait(me->s, me->log, 1, end - clock_boot_ms(), &a);
    } while (me->e == ERR_NOT_FOUND && clock_boot_ms() < end);
    store_answer_done(&a);
    return NULL;
}

void *write_slots(void *arg)
{
    struct writer *me = arg;
    struct store_answer a;
    store_answer_init(&a);
    for (uint64_t slot = 1; !atomic_load(&me->stop) && !me->bad; slot++) {
        struct bytes body = body_make(slot, 100);
        bool doubt = false;
        for (bool again = true; again;) {
            enum err e = store_append(me->s, LOG, slot, body, &a);
            again = e == ERR_UNKNOWN || e == ERR_UNAVAILABLE;
            if (again) me->doubts++;
            doubt = doubt || e == ERR_UNKNOWN;
            if (!again && e != ERR_OK && !(doubt && e == ERR_CONFLICT)) {
                me->bad = e;
                (void)snprintf(me->why, sizeof me->why, "slot %llu: %.200s",
                               (unsigned long long)slot, a.why);
            }
        }
        bytes_free(body);
        if (!me->bad) atomic_store(&me->done, slot);
    }
    store_answer_done(&a);
    return NULL;
}

void wait_for_slot(_Atomic uint64_t *done, uint64_t slot)
{
    int64_t end = clock_boot_ms() + DEADLINE_MS;
    while (atomic_load(done) < slot && clock_boot_ms() < end)
        (void)usleep(1000);
    NEED(atomic_load(done) >= slot);
}
