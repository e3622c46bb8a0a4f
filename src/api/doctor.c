// SPDX-License-Identifier: Apache-2.0
// A store examined from the outside in: can it be opened, does it keep its promises, how fast is
// it, can every queue be read.
#include "api/inside.h"
#include "os/clock.h"
#include "store/probe.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define ROUNDS 20

struct doctor {
    sluice_report *report;
    void *ctx;
    enum err worst; // of the checks that failed
};

static void say(struct doctor *d, const char *check, enum sluice_health health, const char *format,
                ...) __attribute__((format(printf, 4, 5)));

static void say(struct doctor *d, const char *check, enum sluice_health health, const char *format,
                ...)
{
    char detail[400];
    va_list words;
    va_start(words, format);
    (void)vsnprintf(detail, sizeof detail, format, words);
    va_end(words);
    if (health == SLUICE_FAILED && d->worst != ERR_CORRUPT) d->worst = ERR_UNAVAILABLE;
    d->report(d->ctx, check, health, detail);
}

static void check_probe(struct doctor *d, struct store *s)
{
    char why[STORE_WHY_MAX] = "";
    enum err err = store_probe(s, why, sizeof why);
    if (err) {
        say(d, "probe", SLUICE_FAILED, "%s", why[0] ? why : err_text(err));
    } else {
        say(d, "probe", SLUICE_PASSED, "of 16 who create the same key at once, one wins");
    }
}

static bool one_round(struct doctor *d, struct store *s, struct store_answer *a, int round)
{
    char key[40];
    (void)snprintf(key, sizeof key, "doctor/%d-%lld", round, (long long)clock_boot_ns());
    const char *keys[] = {key};
    enum err err = store_put_new(s, key, bytes_str("is anybody there?"), a);
    if (!err) err = store_get(s, key, 0, SIZE_MAX, a);
    if (!err) err = store_delete(s, keys, 1, a);
    if (err) say(d, "objects", SLUICE_FAILED, "%s", a->why[0] ? a->why : err_text(err));
    return !err;
}

static void check_objects(struct doctor *d, struct store *s)
{
    struct store_answer a;
    store_answer_init(&a);
    int64_t start = clock_boot_ns();
    bool good = true;
    for (int round = 0; good && round < ROUNDS; round++)
        good = one_round(d, s, &a, round);
    double ms = (double)(clock_boot_ns() - start) / 1e6 / ROUNDS;
    if (good) say(d, "objects", SLUICE_PASSED, "create, read and delete in %.2f ms", ms);
    int64_t off = a.time.lo - clock_realtime_ms();
    enum sluice_health health = off > 5000 || off < -5000 ? SLUICE_WARNING : SLUICE_PASSED;
    if (good)
        say(d, "clock", health, "the store's clock is %lld ms from this machine's", (long long)off);
    store_answer_done(&a);
}

static void check_queues(struct doctor *d, struct sluice *s)
{
    struct sluice_names *all;
    struct sluice_error error;
    if (sluice_queue_list(s, &all, &error)) {
        say(d, "queues", SLUICE_FAILED, "%s", error.message);
        return;
    }
    say(d, "queues", SLUICE_PASSED, "%zu in the catalog", all->len);
    for (size_t i = 0; i < all->len; i++) {
        struct sluice_stats stats;
        char check[QUEUE_NAME_MAX + 8];
        (void)snprintf(check, sizeof check, "queue %s", all->names[i]);
        if (sluice_stats(s, all->names[i], &stats, &error)) {
            if (error.code == SLUICE_CORRUPT) d->worst = ERR_CORRUPT;
            say(d, check, SLUICE_FAILED, "%s", error.message);
        } else {
            say(d, check, stats.dead > 0 ? SLUICE_WARNING : SLUICE_PASSED,
                "%llu ready, %llu locked, %llu delayed, %llu dead", (unsigned long long)stats.ready,
                (unsigned long long)stats.locked, (unsigned long long)stats.delayed,
                (unsigned long long)stats.dead);
        }
    }
    sluice_names_free(all);
}

enum sluice_code sluice_doctor(const char *url, sluice_report *report, void *ctx,
                               struct sluice_error *error)
{
    struct doctor d = {.report = report, .ctx = ctx};
    struct sluice *s;
    struct sluice_error why = {.code = SLUICE_OK};
    enum sluice_code code = sluice_open(url, NULL, &s, &why);
    if (code) {
        say(&d, "open", SLUICE_FAILED, "%s", why.message);
        if (error) *error = why;
        return code;
    }
    say(&d, "open", SLUICE_PASSED, "%s", url);
    check_probe(&d, s->store);
    check_objects(&d, s->store);
    check_queues(&d, s);
    sluice_close(s);
    if (!d.worst) return SLUICE_OK;
    return refuse(error, d.worst, "store", "%s is not healthy", url);
}
