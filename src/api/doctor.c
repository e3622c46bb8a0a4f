// SPDX-License-Identifier: Apache-2.0
// sluice_doctor checks a store step by step: whether it can be opened, whether it keeps the
// contract of store.h, how fast it is, and whether every queue can be read. sluice_measure is here
// too.
#include "api/doctor.h"
#include "api/handle.h"
#include "api/place.h"
#include "base/memory.h"
#include "os/clock.h"
#include "queues/queues.h"
#include "store/meter.h"
#include "store/probe.h"
#include "store/redis/redis.h"
#include "store/s3/s3.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FRESH_MS          (INT64_C(10) * 60 * 1000)
#define FIT_MESSAGES      1000
#define FIT_BYTES         500
#define ROUNDS            21 // odd, so the middle one is the median
#define MEASURE_ROUNDS    101
#define MEASURE_BYTES_MAX ((size_t)8 << 20)

void doctor_report(struct doctor *d, const char *check, enum sluice_health health,
                   const char *format, ...)
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
        doctor_report(d, "probe", SLUICE_FAILED, "%s", why[0] ? why : err_text(err));
    } else {
        doctor_report(d, "probe", SLUICE_PASSED,
                      "of 16 writers that create the same key at once, exactly one succeeds");
    }
}

static void check_exposed(struct doctor *d, struct store *s)
{
    char why[STORE_WHY_MAX];
    if (store_concern(s, STORE_EXPOSED, why))
        doctor_report(d, "access", SLUICE_WARNING, "%s", why);
    else if (!store_is_high_latency(s))
        doctor_report(d, "access", SLUICE_PASSED, "other users cannot read the store's files");
}

static void check_space(struct doctor *d, struct store *s)
{
    char why[STORE_WHY_MAX];
    if (store_concern(s, STORE_NEARLY_FULL, why))
        doctor_report(d, "space", SLUICE_WARNING, "%s", why);
    else if (!store_is_high_latency(s))
        doctor_report(d, "space", SLUICE_PASSED, "the store has space for new messages");
}

enum timed_request { TIMED_PUT, TIMED_GET, TIMED_LIST, TIMED_DELETE, TIMED_KINDS };
static const char *const timed_names[TIMED_KINDS] = {"put", "get", "list", "delete"};

static enum err send_timed(struct store *s, enum timed_request kind, const char *key,
                           struct store_answer *a)
{
    switch (kind) {
    case TIMED_PUT:
        return store_put_new(s, key, bytes_str("doctor"), a);
    case TIMED_GET:
        return store_get(s, key, 0, SIZE_MAX, a);
    case TIMED_LIST:
        return store_list(s, "doctor/", NULL, 10, a);
    default:
        return store_delete(s, &key, 1, a);
    }
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static void report_times(struct doctor *d, enum timed_request kind, int64_t took_ns[ROUNDS])
{
    qsort(took_ns, ROUNDS, sizeof *took_ns, by_size);
    doctor_report(d, timed_names[kind], SLUICE_PASSED, "%.2f ms in the median, %.2f ms at most",
                  (double)took_ns[ROUNDS / 2] / 1e6, (double)took_ns[ROUNDS - 1] / 1e6);
}

// Each kind of request is tried even if another was refused, so that one run shows all that is
// allowed.
static void check_objects(struct doctor *d, struct store *s)
{
    LOCAL(store_answer, a);
    int64_t took_ns[TIMED_KINDS][ROUNDS];
    bool good[TIMED_KINDS] = {true, true, true, true};
    for (int round = 0; round < ROUNDS; round++) {
        char key[60];
        (void)snprintf(key, sizeof key, "doctor/%d-%lld", round, (long long)clock_boot_ns());
        for (enum timed_request kind = TIMED_PUT; kind < TIMED_KINDS; kind++) {
            if (!good[kind] || (kind == TIMED_GET && !good[TIMED_PUT])) continue;
            int64_t start = clock_boot_ns();
            enum err err = send_timed(s, kind, key, &a);
            took_ns[kind][round] = clock_boot_ns() - start;
            good[kind] = !err;
            if (err)
                doctor_report(d, timed_names[kind], SLUICE_FAILED, "%s",
                              a.why[0] ? a.why : err_text(err));
        }
    }
    for (enum timed_request kind = TIMED_PUT; kind < TIMED_KINDS; kind++)
        if (good[kind] && (kind != TIMED_GET || good[TIMED_PUT]))
            report_times(d, kind, took_ns[kind]);
    char why[STORE_WHY_MAX];
    if (store_concern(s, STORE_CLOCK_OFF, why))
        doctor_report(d, "clock", SLUICE_WARNING, "%s", why);
    else if (a.time.lo != TIME_UNKNOWN)
        doctor_clock(d, "the store's", a.time.lo - clock_realtime_ms());
    else if (good[TIMED_LIST])
        doctor_report(d, "clock", SLUICE_FAILED, "the store's answers have no time");
}

static void check_redis(struct doctor *d, struct store *s)
{
    struct redis_status status;
    char why[STORE_WHY_MAX];
    store_redis_status(s, &status);
    char more[160] = "";
    if (status.primary[0])
        (void)snprintf(more, sizeof more, ", which its Sentinels call %s", status.primary);
    if (status.cluster)
        (void)snprintf(more, sizeof more, ", one of %zu servers of a cluster", status.servers);
    doctor_report(d, "server", SLUICE_PASSED, "Redis %s at %s%s", status.version, status.place,
                  more);
    if (store_concern(s, STORE_NOT_DURABLE, why))
        doctor_report(d, "durability", SLUICE_WARNING, "%s", why);
    else
        doctor_report(d, "durability", SLUICE_PASSED,
                      "%s: the server syncs each write before it answers", status.durability);
    if (status.maxmemory > 0) {
        d->memory_data = status.used_memory - status.startup_memory;
        d->memory_left = status.maxmemory - status.reserve - status.used_memory;
    }
    if (status.maxmemory > 0)
        doctor_report(d, "memory", SLUICE_PASSED, "%lld of %lld bytes are used",
                      (long long)status.used_memory, (long long)status.maxmemory);
    else
        doctor_report(d, "memory", SLUICE_WARNING,
                      "%lld bytes are used, without a limit: set maxmemory on the server, or the "
                      "kernel may end it",
                      (long long)status.used_memory);
}

// How many messages the memory still takes, by what the present ones take with all that belongs to
// them. Few messages say little about that, so then it is what a body of 300 bytes takes.
static void report_fit(struct doctor *d)
{
    if (d->memory_left == 0) return;
    bool measured = d->messages >= FIT_MESSAGES && d->memory_data > 0;
    int64_t each = measured ? d->memory_data / (int64_t)d->messages : FIT_BYTES;
    int64_t fit = d->memory_left > 0 && each > 0 ? d->memory_left / each : 0;
    doctor_report(d, "room", fit > 0 ? SLUICE_PASSED : SLUICE_WARNING,
                  "about %lld more messages fit, at %lld bytes each (%s)", (long long)fit,
                  (long long)each,
                  measured ? "as the messages that are stored now" : "a body of 300 bytes");
}

static void check_bucket(struct doctor *d, struct store *s)
{
    struct s3_facts facts;
    LOCAL(store_answer, a);
    enum err err = store_s3_facts(s, &facts, &a);
    doctor_report(d, "bucket", SLUICE_PASSED, "%s at %s, region %s", facts.bucket, facts.endpoint,
                  facts.region);
    bool none = strcmp(facts.credentials, "none") == 0;
    doctor_report(d, "credentials", none ? SLUICE_FAILED : SLUICE_PASSED, "%s", facts.credentials);
    if (err) { // a warning only: check_probe decides whether the store can be used
        doctor_report(d, "versioning", SLUICE_WARNING, "cannot be read: %s",
                      a.why[0] ? a.why : err_text(err));
    } else if (facts.versioned) {
        doctor_report(
            d, "versioning", SLUICE_WARNING,
            "on: the bucket keeps deleted objects, and charges for them, until a lifecycle "
            "rule removes them");
    } else {
        doctor_report(d, "versioning", SLUICE_PASSED, "off");
    }
}

void doctor_clock(struct doctor *d, const char *whose, int64_t off_ms)
{
    enum sluice_health health = off_ms > 5000 || off_ms < -5000 ? SLUICE_WARNING : SLUICE_PASSED;
    doctor_report(d, "clock", health, "%s clock is %lld ms from this machine's", whose,
                  (long long)off_ms);
}

// Created in the last minutes.
static bool is_fresh(struct sluice *s, const char *queue)
{
    struct sluice_queue_info *info = NULL;
    if (sluice_queue_show(s, queue, &info, NULL)) return false;
    int64_t age = clock_realtime_ms() - info->created;
    sluice_queue_info_free(info);
    return age < FRESH_MS && age > -FRESH_MS; // clocks differ
}

static void report_queue(struct doctor *d, struct sluice *s, const char *queue,
                         const struct sluice_queue_status *seen)
{
    const struct sluice_stats *stats = &seen->stats;
    char check[QUEUE_NAME_MAX + 8];
    (void)snprintf(check, sizeof check, "queue %s", queue);
    if (seen->error.code) {
        if (seen->error.code == SLUICE_CORRUPT) d->worst = ERR_CORRUPT;
        doctor_report(d, check, SLUICE_FAILED, "%s", seen->error.message);
    } else if (stats->entries == 0) { // an unused queue and a lost journal look the same
        bool fresh = is_fresh(s, queue);
        doctor_report(d, check, fresh ? SLUICE_PASSED : SLUICE_WARNING, "%s",
                      fresh
                          ? "new: its journal is empty, and nothing was sent yet"
                          : "its journal is empty: the queue was never used, or the objects under "
                            "\"q/\" are lost");
    } else {
        d->messages += stats->ready + stats->locked + stats->delayed + stats->dead;
        doctor_report(d, check, stats->dead > 0 ? SLUICE_WARNING : SLUICE_PASSED,
                      "%llu ready, %llu locked, %llu delayed, %llu dead",
                      (unsigned long long)stats->ready, (unsigned long long)stats->locked,
                      (unsigned long long)stats->delayed, (unsigned long long)stats->dead);
    }
}

void doctor_queues(struct doctor *d, struct sluice *s)
{
    struct sluice_names *all;
    struct sluice_error error;
    bool direct = s->engine; // a node does not show what is under data/
    if (sluice_queue_list(s, &all, &error)) {
        doctor_report(d, "queues", SLUICE_FAILED, "%s", error.message);
        return;
    }
    doctor_report(d, "queues", SLUICE_PASSED, "%zu in the catalog", all->len);
    struct sluice_queue_status *seen = memory_zeroed(all->len, sizeof *seen);
    sluice_queues_status(s, (const char *const *)all->names, all->len, SLUICE_STATUS_STATS, seen);
    for (size_t i = 0; i < all->len; i++) {
        report_queue(d, s, all->names[i], &seen[i]);
        if (direct && !seen[i].error.code && seen[i].stats.entries > 0)
            doctor_bodies(d, s, all->names[i]);
    }
    memory_free(seen);
    sluice_names_free(all);
}

// Only a store that charges for requests counts them.
static void report_requests(struct doctor *d, const struct store *meter)
{
    struct meter_snapshot made;
    store_meter_read(meter, &made);
    if (cost_requests(&made.cost) == 0) return;
    doctor_report(d, "requests", SLUICE_PASSED,
                  "the checks above took %llu PUT and LIST, %llu GET, %llu DELETE",
                  (unsigned long long)made.cost.writes, (unsigned long long)made.cost.reads,
                  (unsigned long long)made.cost.deletes);
}

static void examine_store(struct doctor *d, struct store *inner)
{
    bool bucket = store_is_s3(inner);
    if (bucket) check_bucket(d, inner);
    if (store_is_redis(inner)) check_redis(d, inner);
    if (!store_is_redis(inner)) check_exposed(d, inner);
    check_space(d, inner);
    struct store *s = store_meter_take(inner);
    check_objects(d, s);
    if (!d->worst) check_probe(d, s);
    report_requests(d, s);
    store_free(s);
}

static enum sluice_code examine(struct doctor *d, const char *url, struct sluice_error *error)
{
    struct sluice *s;
    struct store *store;
    bool node = place_is(url, PLACE_NODE);
    if (!node) {
        enum sluice_code code = place_open(url, &store, error);
        if (code) return code;
        examine_store(d, store);
        if (d->worst) return SLUICE_OK; // reported already
    }
    enum sluice_code code = sluice_open(url, NULL, &s, error);
    if (code) return code;
    doctor_report(d, "open", SLUICE_PASSED, "%s", url);
    if (node)
        doctor_node(d, s);
    else
        doctor_queues(d, s), report_fit(d);
    sluice_close(s);
    return SLUICE_OK;
}

enum sluice_code sluice_doctor(const char *url, sluice_report *report, void *ctx,
                               struct sluice_error *error)
{
    struct doctor d = {.report = report, .ctx = ctx};
    struct sluice_error why = {.code = SLUICE_OK};
    enum sluice_code code = examine(&d, url, &why);
    if (code) {
        doctor_report(&d, "open", SLUICE_FAILED, "%s", why.message);
        if (error) *error = why;
        return code;
    }
    if (!d.worst) return SLUICE_OK;
    return refuse(error, d.worst, "store", "%s is not healthy", url);
}

enum sluice_code sluice_measure(struct sluice *s, size_t len, double *median_us,
                                struct sluice_error *error)
{
    if (!s->engine)
        return refuse(error, ERR_INVALID, "store", "a node's store cannot be measured from here");
    int64_t took_ns[MEASURE_ROUNDS];
    LOCAL(store_answer, a);
    LOCAL(buf, body, MEASURE_BYTES_MAX);
    uint8_t *bytes = buf_grow(&body, len);
    if (!bytes)
        return refuse(error, ERR_INVALID, "len", "%zu bytes are more than %zu", len,
                      MEASURE_BYTES_MAX);
    memset(bytes, 'x', len);
    enum err err = ERR_OK;
    for (int i = 0; !err && i < MEASURE_ROUNDS; i++) {
        char key[60];
        const char *keys[] = {key};
        (void)snprintf(key, sizeof key, "doctor/%d-%lld", i, (long long)clock_boot_ns());
        int64_t start = clock_boot_ns();
        err = store_put_new(s->engine->store, key, buf_bytes(&body), &a);
        took_ns[i] = clock_boot_ns() - start;
        if (!err) err = store_delete(s->engine->store, keys, 1, &a);
    }
    if (err) return refuse_why(error, err, "", a.why);
    qsort(took_ns, MEASURE_ROUNDS, sizeof *took_ns, by_size);
    *median_us = (double)took_ns[MEASURE_ROUNDS / 2] / 1e3;
    return SLUICE_OK;
}
