// SPDX-License-Identifier: Apache-2.0
// What waiting costs and saves: writers that always have something to commit, on a store that is
// some milliseconds away and answers truthfully. Nothing is checked here but figures: puts per
// commit, and how long a client's cycle of three ops takes, in units of the median put.
//
//     race            all tables
//     race --tap      the bounds that the figures must keep
#include "base/check.h"
#include "base/memory.h"
#include "base/rng.h"
#include "bucket.h"
#include "journal/journal.h"
#include "register.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define START   1000000000
#define PUT_MS  40
#define CYCLE   3
#define MOST    64
#define RUN_MS  (2000 * PUT_MS)
#define SAMPLES 100000

struct setting {
    const char *name;
    uint32_t writers;
    uint32_t clients; // of each writer
    bool high_latency;
    int64_t puts_per_second;
    bool owner; // writer 0 owns, and its puts take three times as long
    int64_t courtesy_ms;
    int64_t think_ms; // between two cycles, on average
    bool steady;      // all puts take about the same time: the writer that is ahead stays ahead
};

struct flight {
    bool open;
    bool performed;
    int64_t perform_at, answer_at;
    struct request request;
    struct bucket_answer answer;
};

struct client {
    int64_t next_at; // TIME_NEVER: waits
    int64_t cycle_at;
    uint32_t done;
};

struct writer {
    struct journal *journal;
    struct registers *machine;
    struct flight flight;
    uint64_t commits;
    struct client clients[MOST];
};

struct race {
    const struct setting *setting;
    struct rng rng;
    struct bucket bucket;
    int64_t now;
    struct writer writers[MOST];
    uint64_t puts, gets, asked;
    uint32_t *took; // of all cycles
    size_t took_len;
    uint32_t *owner_took;
    size_t owner_took_len;
};

struct figures {
    double puts_per_commit, gets_per_commit, commits_per_put_time;
    double p50, p99, worst;
    double least_share; // of the commits, of the writer with the fewest; 1: a fair one
    double owner_share, owner_p50, owner_p99;
};

static struct interval moment(const struct race *r)
{
    return (struct interval){r->now, r->now};
}

static int64_t latency(struct race *r, int64_t median)
{
    static const uint8_t percent[] = {48,  59,  67,  73,  79,  85,  91,  97,
                                      103, 110, 117, 126, 137, 150, 170, 210};
    int64_t p = percent[rng_below(&r->rng, sizeof percent)] + rng_range(&r->rng, -3, 3);
    if (r->setting->steady) p = rng_range(&r->rng, 90, 110);
    return median * p / 100 + 1;
}

// An append is decided when most of it has arrived.
static void take_off(struct race *r, struct writer *w, const struct request *q)
{
    struct flight *f = &w->flight;
    CHECK(!f->open);
    *f = (struct flight){.open = true, .request = *q};
    bool put = q->kind == REQUEST_APPEND;
    int64_t median = put ? PUT_MS : PUT_MS / 2;
    if (put && r->setting->owner && w == &r->writers[0]) median *= 3;
    int64_t takes = latency(r, median);
    f->perform_at = r->now + takes * (put ? 8 : 6) / 10;
    f->answer_at = r->now + takes;
    r->puts += put;
    r->gets += q->kind == REQUEST_READ_LOG;
    bucket_answer_init(&f->answer);
}

static void submit(struct race *r, struct writer *w, struct client *c)
{
    struct register_ask ask = {.verb = REGISTER_ADD, .name = "n", .a = 1};
    uint64_t id = ++r->asked;
    memcpy(ask.request, &id, sizeof id);
    CLEANUP(buf_done) struct buf payload;
    buf_init(&payload, 256);
    if (c->done % CYCLE == 0) c->cycle_at = r->now;
    c->next_at = TIME_NEVER;
    journal_submit(w->journal, (uint64_t)(c - w->clients), register_op(&ask, &payload), TIME_NEVER,
                   moment(r));
}

static void note_cycle(struct race *r, const struct writer *w, const struct client *c)
{
    uint32_t took = (uint32_t)(r->now - c->cycle_at);
    CHECK(r->took_len < SAMPLES);
    r->took[r->took_len++] = took;
    if (w == &r->writers[0]) r->owner_took[r->owner_took_len++] = took;
}

static void heard(struct race *r, struct writer *w, const struct journal_reply *reply)
{
    if (reply->ticket >= MOST) return; // the own
    struct client *c = &w->clients[reply->ticket];
    CHECK(reply->err == ERR_OK);
    int64_t pause = 1; // until its thread runs again
    if (++c->done % CYCLE == 0) {
        note_cycle(r, w, c);
        int64_t think = r->setting->think_ms;
        if (think > 0) pause += rng_range(&r->rng, 0, 2 * think);
    }
    c->next_at = r->now + pause;
}

static void settle(struct race *r, struct writer *w)
{
    struct request q;
    struct journal_reply reply;
    uint64_t slot = 0;
    while (journal_next_reply(w->journal, &reply)) {
        w->commits += reply.slot != slot;
        slot = reply.slot;
        heard(r, w, &reply);
    }
    while (journal_next_request(w->journal, &q))
        take_off(r, w, &q);
}

static void begin(struct race *r, uint32_t index)
{
    struct writer *w = &r->writers[index];
    struct journal_config c;
    journal_config_defaults(&c);
    (void)snprintf(c.prefix, sizeof c.prefix, "q/race/0");
    c.writer = (struct hash128){index + 1, 7};
    c.seed = index + 1;
    c.high_latency = r->setting->high_latency;
    c.puts_per_second = r->setting->puts_per_second;
    c.courtesy_ms = r->setting->courtesy_ms;
    c.rules.snapshot_every = 0;
    c.from_oldest = true;
    w->machine = registers_new(60000);
    struct fold fold = registers_fold(w->machine);
    w->journal = journal_new(&c, &fold);
    for (uint32_t i = 0; i < MOST; i++) {
        bool there = i < r->setting->clients;
        int64_t first = r->now + 10 * PUT_MS + rng_range(&r->rng, 0, 2 * PUT_MS);
        w->clients[i].next_at = there ? first : TIME_NEVER;
    }
    journal_start(w->journal, moment(r));
    settle(r, w);
    if (index > 0 || !r->setting->owner) return;
    struct journal_owner owner = {.token = 1};
    journal_own(w->journal, MOST, 0, &owner, TIME_NEVER, moment(r));
    settle(r, w);
}

static int64_t next_of(const struct writer *w)
{
    int64_t at = journal_wake_at(w->journal);
    const struct flight *f = &w->flight;
    if (f->open) {
        int64_t landing = f->performed ? f->answer_at : f->perform_at;
        if (landing < at) at = landing;
    }
    for (uint32_t i = 0; i < MOST; i++)
        if (w->clients[i].next_at < at) at = w->clients[i].next_at;
    return at;
}

static void fly(struct race *r, struct writer *w)
{
    struct flight *f = &w->flight;
    if (f->open && !f->performed && f->perform_at <= r->now) {
        bucket_perform(&r->bucket, &f->request, r->now, &f->answer);
        f->performed = true;
    }
    if (!f->open || !f->performed || f->answer_at > r->now) return;
    struct response response = f->answer.response;
    response.id = f->request.id;
    f->open = false;
    struct bucket_answer answer = f->answer;
    journal_respond(w->journal, &response, moment(r));
    bucket_answer_done(&answer);
    settle(r, w);
}

static void act(struct race *r, struct writer *w)
{
    fly(r, w);
    for (uint32_t i = 0; i < r->setting->clients; i++)
        if (w->clients[i].next_at <= r->now) {
            submit(r, w, &w->clients[i]);
            settle(r, w);
        }
    journal_tick(w->journal, moment(r));
    settle(r, w);
}

static void run(struct race *r)
{
    for (;;) {
        int64_t at = TIME_NEVER;
        struct writer *next = NULL;
        for (uint32_t i = 0; i < r->setting->writers; i++) {
            int64_t mine = next_of(&r->writers[i]);
            if (mine >= at) continue;
            at = mine;
            next = &r->writers[i];
        }
        if (!next || at > START + RUN_MS) return;
        if (at > r->now) r->now = at;
        act(r, next);
    }
}

static int by_size(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static double percentile(uint32_t *took, size_t len, size_t percent)
{
    if (len == 0) return 0;
    qsort(took, len, sizeof *took, by_size);
    size_t at = len * percent / 100;
    return (double)took[at < len ? at : len - 1] / PUT_MS;
}

// Cycles that are still open count as long as they have lasted: so starvation is seen.
static void count_open(struct race *r)
{
    for (uint32_t i = 0; i < r->setting->writers; i++)
        for (uint32_t k = 0; k < r->setting->clients; k++) {
            const struct client *c = &r->writers[i].clients[k];
            bool open = c->done % CYCLE != 0 || c->next_at == TIME_NEVER;
            if (open) note_cycle(r, &r->writers[i], c);
        }
}

static struct figures figures_of(struct race *r)
{
    uint64_t commits = 0, least = UINT64_MAX;
    for (uint32_t i = 0; i < r->setting->writers; i++) {
        commits += r->writers[i].commits;
        if (r->writers[i].commits < least) least = r->writers[i].commits;
    }
    count_open(r);
    double all = (double)commits;
    return (struct figures){
        .puts_per_commit = (double)r->puts / all,
        .gets_per_commit = (double)r->gets / all,
        .commits_per_put_time = all * PUT_MS / RUN_MS,
        .p50 = percentile(r->took, r->took_len, 50),
        .p99 = percentile(r->took, r->took_len, 99),
        .worst = percentile(r->took, r->took_len, 100),
        .least_share = (double)least * r->setting->writers / all,
        .owner_share = (double)r->writers[0].commits / all,
        .owner_p50 = percentile(r->owner_took, r->owner_took_len, 50),
        .owner_p99 = percentile(r->owner_took, r->owner_took_len, 99),
    };
}

static struct figures race(const struct setting *setting)
{
    CHECK(setting->writers <= MOST && setting->clients <= MOST);
    struct race *r = NEW(struct race);
    *r = (struct race){.setting = setting, .now = START};
    r->took = memory_new(SAMPLES * sizeof *r->took);
    r->owner_took = memory_new(SAMPLES * sizeof *r->took);
    rng_init(&r->rng, 1);
    bucket_init(&r->bucket, &r->rng);
    r->bucket.run_max = 4;
    for (uint32_t i = 0; i < setting->writers; i++)
        begin(r, i);
    run(r);
    struct figures f = figures_of(r);
    for (uint32_t i = 0; i < setting->writers; i++) {
        if (r->writers[i].flight.open) bucket_answer_done(&r->writers[i].flight.answer);
        journal_free(r->writers[i].journal);
        registers_free(r->writers[i].machine);
    }
    bucket_done(&r->bucket);
    memory_free(r->took);
    memory_free(r->owner_took);
    memory_free(r);
    return f;
}

static void print(const struct setting *s)
{
    struct figures f = race(s);
    printf("%-28s %4u x %-2u %6.2f %7.2f %7.2f %8.1f %8.1f %8.1f %6.2f", s->name, s->writers,
           s->clients, f.puts_per_commit, f.gets_per_commit, f.commits_per_put_time, f.p50, f.p99,
           f.worst, f.least_share);
    if (s->owner) printf("   %5.2f %7.1f %7.1f", f.owner_share, f.owner_p50, f.owner_p99);
    printf("\n");
}

static const uint32_t crowds[] = {1, 2, 5, 20, 50};

static void tables(void)
{
    printf("%-28s %9s %6s %7s %7s %8s %8s %8s %6s\n", "in units of the median put", "writers",
           "put/c", "get/c", "c/put", "p50", "p99", "worst", "least");
    for (int64_t think = 0; think <= 60 * PUT_MS; think += 60 * PUT_MS)
        for (int high_latency = 0; high_latency < 2; high_latency++)
            for (size_t i = 0; i < sizeof crowds / sizeof *crowds; i++)
                print(&(struct setting){.name = high_latency
                                                    ? (think ? "turns, think 60" : "turns")
                                                    : (think ? "no turns, think 60" : "no turns"),
                                        .writers = crowds[i],
                                        .clients = 1,
                                        .think_ms = think,
                                        .high_latency = high_latency});
    for (int high_latency = 0; high_latency < 2; high_latency++)
        for (size_t i = 0; i < sizeof crowds / sizeof *crowds; i++)
            print(&(struct setting){.name = high_latency ? "turns, steady" : "no turns, steady",
                                    .writers = crowds[i],
                                    .clients = 1,
                                    .steady = true,
                                    .high_latency = high_latency});
    for (int high_latency = 0; high_latency < 2; high_latency++)
        for (uint32_t clients = 1; clients <= 32; clients *= 2)
            print(&(struct setting){.name = high_latency ? "company" : "no company",
                                    .writers = 1,
                                    .clients = clients,
                                    .high_latency = high_latency});
    for (int64_t budget = 20; budget >= 1; budget /= 4)
        print(&(struct setting){.name = "budget",
                                .writers = 1,
                                .clients = 8,
                                .high_latency = true,
                                .puts_per_second = budget});
    printf("%92s share     p50     p99\n", "the owner's");
    for (uint32_t direct = 1; direct <= 16; direct *= 4)
        for (int64_t courtesy = 0; courtesy <= 1000; courtesy += 1000)
            for (int high_latency = 0; high_latency < 2; high_latency++)
                print(&(struct setting){
                    .name = courtesy ? (high_latency ? "courtesy" : "courtesy, no turns")
                                     : (high_latency ? "none" : "none, no turns"),
                    .writers = 1 + direct,
                    .clients = 1,
                    .high_latency = high_latency,
                    .owner = true,
                    .courtesy_ms = courtesy});
}

static int broken;

static void check(bool ok, const char *what)
{
    static int number;
    printf("%s %d - %s\n", ok ? "ok" : "not ok", ++number, what);
    broken += !ok;
}

static void bounds(void)
{
    struct figures one = race(&(struct setting){.writers = 1, .clients = 1, .high_latency = true});
    check(one.puts_per_commit < 1.01 && one.p50 < 3.5, "a single writer does not wait");
    struct figures crowd =
        race(&(struct setting){.writers = 20, .clients = 1, .high_latency = true});
    check(crowd.puts_per_commit < 2.6, "twenty writers waste few puts");
    check(crowd.least_share > 0.5 && crowd.p99 < 400, "none of twenty starves");
    struct figures steady =
        race(&(struct setting){.writers = 20, .clients = 1, .high_latency = true, .steady = true});
    check(steady.least_share > 0.5 && steady.p99 < 400, "... even if the first is always first");
    struct figures many = race(&(struct setting){.writers = 1, .clients = 8, .high_latency = true});
    check(many.p50 < 4, "eight callers share their entries");
    struct figures poor = race(
        &(struct setting){.writers = 1, .clients = 8, .high_latency = true, .puts_per_second = 5});
    check(poor.commits_per_put_time < 5.2 * PUT_MS / 1000, "a budget is kept");
    struct setting rude = {.writers = 5, .clients = 1, .high_latency = true, .owner = true};
    struct setting polite = rude;
    polite.courtesy_ms = 1000;
    struct figures without = race(&rude), with = race(&polite);
    check(with.owner_share > 2 * without.owner_share, "courtesy leaves the owner its share");
    check(with.owner_p99 < 60, "courtesy keeps the owner's cycles short");
    printf("1..8\n");
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--tap") == 0) {
        bounds();
    } else {
        tables();
    }
    return broken > 0;
}
