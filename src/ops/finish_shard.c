// SPDX-License-Identifier: Apache-2.0
// One thread drives the shard and its collector, and performs their requests one at a time. No
// caller waits for the shard, so it needs neither a driver nor a thread pool.
#include "ops/finish_shard.h"

#include "os/clock.h"
#include "runner/perform.h"
#include "runner/runner_answer.h"
#include "runner/store_clock.h"

#include <stdio.h>

#define PATIENCE_MS  30000 // a visit ends when the store has failed for this long
#define PAUSE_MS_MAX 100
#define ROUNDS_MAX   3 // two may be needed for a snapshot, and for an entry after it

struct shard_visit {
    struct store *store;
    struct shard *shard;
    struct collector *collector;
    struct store_clock clock;
    struct perform_buffer performance;
    bool (*stop)(void *ctx);
    void *ctx;
    int64_t until; // clock_boot_ms
};

static struct interval now(const struct shard_visit *v)
{
    int64_t now_ms;
    if (store_read_clock(v->store, &now_ms)) return (struct interval){now_ms, now_ms};
    return store_clock_now(&v->clock, clock_boot_ms());
}

static struct response serve(struct shard_visit *v, const struct request *r)
{
    int64_t sent = clock_boot_ms();
    struct response response = perform(v->store, r, &v->performance);
    int64_t received = clock_boot_ms();
    store_clock_note(&v->clock, sent, received, response.time);
    bool fine = !response.err || response.err == ERR_NOT_FOUND || response.err == ERR_CONFLICT;
    if (fine) v->until = received + PATIENCE_MS;
    return response;
}

static bool serve_next(struct shard_visit *v)
{
    struct request r;
    if (!shard_next_request(v->shard, &r) && !collector_next_request(v->collector, &r))
        return false;
    struct response response = serve(v, &r);
    struct interval then = now(v);
    collector_respond(v->collector, &response, then);
    shard_respond(v->shard, &response, then);
    return true;
}

static void sleep_until_wake(const struct shard_visit *v)
{
    int64_t wake = shard_wake_at(v->shard), at = now(v).lo;
    clock_sleep(wake > at && wake - at < PAUSE_MS_MAX ? wake - at : PAUSE_MS_MAX);
}

// Performs requests until the journal and the collector have none left.
static enum err run_until_settled(struct shard_visit *v)
{
    const struct journal *j = shard_journal(v->shard);
    while (!v->stop(v->ctx) && clock_boot_ms() < v->until) {
        if (journal_halt_err(j)) return journal_halt_err(j);
        if (serve_next(v)) continue;
        if (journal_is_settled(j) && !collector_running(v->collector)) return ERR_OK;
        sleep_until_wake(v);
        shard_tick(v->shard, now(v));
    }
    return ERR_UNAVAILABLE;
}

static enum err finish_rounds(struct shard_visit *v)
{
    enum err err = ERR_OK;
    for (int i = 0; i < ROUNDS_MAX && !err; i++) {
        collector_finish(v->collector, now(v));
        err = run_until_settled(v);
        if (err || !collector_wants_time(v->collector)) break;
        shard_pass_time(v->shard, now(v));
        err = run_until_settled(v);
    }
    return err;
}

static enum err fold_and_finish(struct shard_visit *v)
{
    struct request ask = {.kind = REQUEST_GET, .key = "format"};
    enum err err = serve(v, &ask).err;
    if (!err && !v->clock.known) err = ERR_UNAVAILABLE; // the store's answer had no time
    if (err) return err;
    shard_start(v->shard, now(v));
    err = run_until_settled(v);
    if (err) return err;
    return machine_deleted(shard_machine(v->shard)) ? finish_rounds(v) : ERR_CONFLICT;
}

// What workers and owners left in mailboxes. Only a store with a high latency has them.
static enum err sweep_mailboxes(struct store *s, const char *prefix)
{
    char folder[JOURNAL_PREFIX_MAX + 8];
    const char *keys[STORE_LIST_MAX];
    LOCAL(store_answer, rows);
    LOCAL(store_answer, a);
    if (!store_is_high_latency(s)) return ERR_OK;
    (void)snprintf(folder, sizeof folder, "%s/box/", prefix);
    enum err err;
    do {
        err = store_list(s, folder, NULL, STORE_LIST_MAX, &rows);
        for (size_t i = 0; !err && i < rows.rows_len; i++)
            keys[i] = store_row_key(&rows, i);
        if (!err && rows.rows_len > 0) err = store_delete(s, keys, rows.rows_len, &a);
    } while (!err && rows.more);
    return err;
}

enum err finish_shard(struct store *s, const struct runner_config *config, bool (*stop)(void *ctx),
                      void *ctx, bool *finished)
{
    struct shard_config shard;
    runner_shard_config(s, config, &shard);
    struct shard_visit v = {
        .store = s, .stop = stop, .ctx = ctx, .until = clock_boot_ms() + PATIENCE_MS};
    v.shard = shard_new(&shard);
    v.collector = collector_new(shard_journal(v.shard));
    perform_buffer_init(&v.performance);
    enum err err = fold_and_finish(&v);
    if (!err && collector_finished(v.collector)) err = sweep_mailboxes(s, shard.journal.prefix);
    *finished = !err && collector_finished(v.collector);
    char log[JOURNAL_PREFIX_MAX + 8];
    (void)snprintf(log, sizeof log, "%s/log", shard.journal.prefix);
    store_rest(s, log);
    perform_buffer_done(&v.performance);
    collector_free(v.collector);
    shard_free(v.shard);
    return err;
}
