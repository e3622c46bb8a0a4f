// SPDX-License-Identifier: Apache-2.0
// Copies a tube of beanstalkd. The protocol has no list of jobs, but it shows a job by its number.
// So delayed and buried jobs, and all jobs that are kept, are found by their numbers, from the
// newest down.
#include "cli/import_jobs.h"
#include "cli/text.h"
#include "json/json.h"

#include <stdlib.h>
#include <string.h>

#define PROBE_TUBE "sluice-import"
#define DELAY_MAX  4294967295u
#define ASK_MAX    500 // numbers in one question

struct tube_stats {
    uint64_t ready, delayed, buried, reserved;
    uint64_t paused; // seconds; a paused tube gives no job to a worker
    bool exists;
};

struct found_jobs {
    struct tube_job *rows;
    size_t len, cap;
};

static bool read_stats(struct tube_import *t, struct tube_stats *out)
{
    struct beanstalk_answer a;
    *out = (struct tube_stats){0};
    if (!tube_ask(&t->link, &a, "stats-tube %s", t->place->tube)) return false;
    if (a.word == ANSWER_NOT_FOUND) return true;
    out->exists = true;
    return (a.word == ANSWER_OK && answer_number(a.body, "current-jobs-ready", &out->ready) &&
            answer_number(a.body, "current-jobs-delayed", &out->delayed) &&
            answer_number(a.body, "current-jobs-buried", &out->buried) &&
            answer_number(a.body, "current-jobs-reserved", &out->reserved) &&
            answer_number(a.body, "pause-time-left", &out->paused)) ||
           tube_refuse(&t->link, a.line);
}

static uint64_t wanted_of(const struct tube_stats *s, unsigned states)
{
    return (states & JOBS_READY ? s->ready : 0) + (states & JOBS_DELAYED ? s->delayed : 0) +
           (states & JOBS_BURIED ? s->buried : 0);
}

// Reports a missing tube with the names of those that exist.
static int no_tube(struct tube_import *t)
{
    struct beanstalk_answer a;
    char names[200] = "";
    struct bytes name;
    if (!tube_ask(&t->link, &a, "list-tubes")) return t->link.status;
    size_t used = 0;
    for (size_t at = 0; a.word == ANSWER_OK && answer_item(a.body, &at, &name);) {
        if (used + name.len + 8 > sizeof names) {
            memcpy(names + used, ", ...", sizeof ", ...");
            break;
        }
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%.*s", used ? ", " : "",
                                 (int)name.len, (const char *)name.data);
    }
    return cli_fail_as(t->run->sending.cli, SLUICE_NOT_FOUND, "SOURCE",
                       "the beanstalkd at %s:%s has no tube \"%s\"; it has: %s", t->place->host,
                       t->place->port, t->place->tube, names);
}

// The number of the newest job. A job of our own, which no worker can get, tells it.
static bool newest_number(struct tube_import *t, uint64_t *out)
{
    struct beanstalk_answer a;
    if (!tube_ask(&t->link, &a, "use " PROBE_TUBE)) return false;
    if (a.word != ANSWER_USING) return tube_refuse(&t->link, a.line);
    if (!tube_ask(&t->link, &a, "put %u %u 1 0\r\n", DELAY_MAX, DELAY_MAX)) return false;
    if (a.word == ANSWER_INSERTED) {
        *out = a.id - (a.id > 0);
        if (!tube_ask(&t->link, &a, "delete %llu", (unsigned long long)a.id)) return false;
        return a.word == ANSWER_DELETED || tube_refuse(&t->link, a.line);
    }
    if (a.word != ANSWER_DRAINING) return tube_refuse(&t->link, a.line);
    if (!tube_ask(&t->link, &a, "stats")) return false;
    return (a.word == ANSWER_OK && answer_number(a.body, "total-jobs", out)) ||
           tube_refuse(&t->link, a.line);
}

static void keep_job(struct found_jobs *found, uint64_t id, uint64_t priority)
{
    if (found->len == found->cap) {
        found->cap = found->cap ? found->cap * 2 : 1024;
        found->rows = cli_realloc(found->rows, found->cap * sizeof *found->rows);
    }
    found->rows[found->len++] = (struct tube_job){id, priority};
}

// Asks for the jobs from `high` down to `low`.
static bool ask_numbers(struct tube_import *t, uint64_t low, uint64_t high, unsigned states,
                        struct found_jobs *found)
{
    struct beanstalk_answer a;
    for (uint64_t id = high; id >= low && id > 0; id--)
        tube_command(&t->link, "stats-job %llu", (unsigned long long)id);
    if (!tube_flush(&t->link)) return false;
    for (uint64_t id = high; id >= low && id > 0; id--) {
        struct bytes tube, state;
        uint64_t priority;
        if (!tube_answer(&t->link, &a)) return false;
        if (a.word == ANSWER_NOT_FOUND) continue;
        if (a.word != ANSWER_OK || !answer_value(a.body, "tube", &tube) ||
            !answer_value(a.body, "state", &state) || !answer_number(a.body, "pri", &priority))
            return tube_refuse(&t->link, a.line);
        if (bytes_equal(tube, bytes_str(t->place->tube)) && (jobs_state(state) & states))
            keep_job(found, id, priority);
    }
    return true;
}

// The order in which beanstalkd gives ready jobs to workers.
static int compare_jobs(const void *a, const void *b)
{
    const struct tube_job *x = a, *y = b;
    if (x->priority != y->priority) return x->priority < y->priority ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

// Finds the jobs over `after`, and copies them. *after becomes the newest number.
static int scan(struct tube_import *t, unsigned states, uint64_t expected, uint64_t *after,
                uint64_t *copied)
{
    struct found_jobs found = {0};
    uint64_t newest = 0, before = t->run->copied;
    if (!newest_number(t, &newest)) return t->link.status;
    for (uint64_t high = newest; high > *after && found.len < expected && !t->link.status;) {
        uint64_t low = high - *after > ASK_MAX ? high - ASK_MAX + 1 : *after + 1;
        if (!ask_numbers(t, low, high, states, &found)) break;
        high = low - 1;
        progress_move(&t->run->progress, t->run->copied, t->run->copied, t->run->whole);
    }
    int status = t->link.status;
    if (status == 0 && found.len) qsort(found.rows, found.len, sizeof *found.rows, compare_jobs);
    if (status == 0) status = jobs_copy(t, found.rows, found.len);
    free(found.rows);
    *after = newest;
    *copied = t->run->copied - before;
    return status;
}

static bool watch(struct tube_import *t)
{
    struct beanstalk_answer a;
    if (!tube_ask(&t->link, &a, "watch %s", t->place->tube)) return false;
    if (a.word != ANSWER_WATCHING) return tube_refuse(&t->link, a.line);
    if (strcmp(t->place->tube, "default") == 0) return true;
    if (!tube_ask(&t->link, &a, "ignore default")) return false;
    return a.word == ANSWER_WATCHING || tube_refuse(&t->link, a.line);
}

// Copies until a pass finds nothing: jobs may come or become ready meanwhile.
static int copy_tube(struct tube_import *t)
{
    uint64_t after = 0;
    for (bool more = true; more;) {
        struct tube_stats now;
        uint64_t reserved = 0, scanned = 0;
        if (!read_stats(t, &now)) return t->link.status;
        bool reserves = (t->states & JOBS_READY) && !t->run->keep && now.paused == 0;
        unsigned wait_s = t->soon ? 1 : 0, others = reserves ? t->states & ~JOBS_READY : t->states;
        int status = reserves ? jobs_reserve(t, wait_s, &reserved) : 0;
        bool due = t->soon > 0 && reserved == 0 && now.delayed > 0;
        if (!due) t->soon = 0;
        uint64_t expected = wanted_of(&now, others);
        if (status == 0 && expected > 0 && !due)
            status = scan(t, others, expected, &after, &scanned);
        if (status) return status;
        more = !t->run->keep && (reserved > 0 || scanned > 0 || t->soon > 0);
    }
    return 0;
}

// Reads the server's identity, and opens the record.
static int begin(struct tube_import *t)
{
    struct beanstalk_answer a;
    struct bytes id;
    uint64_t binlog;
    char lineage[LINEAGE_MAX + 1];
    struct tube_stats stats;
    if (!tube_ask(&t->link, &a, "stats")) return t->link.status;
    if (a.word != ANSWER_OK || !answer_value(a.body, "id", &id) || id.len == 0 ||
        id.len > LINEAGE_MAX || memchr(id.data, ' ', id.len) ||
        !answer_number(a.body, "binlog-current-index", &binlog)) {
        (void)tube_refuse(&t->link, a.line);
        return t->link.status;
    }
    memcpy(lineage, id.data, id.len);
    lineage[id.len] = '\0';
    int status = import_record_open(t->run, lineage, binlog > 0 ? LINEAGE_LASTS : LINEAGE_NEW);
    if (status) return status;
    if (!read_stats(t, &stats)) return t->link.status;
    if (!stats.exists && t->run->record.done.count == 0) return no_tube(t);
    t->run->whole = wanted_of(&stats, t->states);
    if (!t->run->keep && (t->states & JOBS_READY) && !watch(t)) return t->link.status;
    return 0;
}

static void say_left(struct tube_import *t, const struct tube_stats *s)
{
    const struct cli *cli = t->run->sending.cli;
    char ready[TEXT_MAX], delayed[TEXT_MAX], buried[TEXT_MAX], reserved[TEXT_MAX];
    if (s->ready + s->delayed + s->buried + s->reserved == 0) return;
    cli_say(cli, "the tube has %s ready, %s delayed, %s buried jobs, and %s that workers hold",
            number_text(s->ready, ready), number_text(s->delayed, delayed),
            number_text(s->buried, buried), number_text(s->reserved, reserved));
    if (s->buried && !(t->states & JOBS_BURIED))
        cli_say(cli, "buried jobs were not copied: --state buried copies them");
}

static void say_ttr(struct tube_import *t)
{
    char ttr[TEXT_MAX], lock[TEXT_MAX];
    int64_t ms = (int64_t)(t->longest_ttr < DELAY_MAX ? t->longest_ttr : DELAY_MAX) * 1000;
    if (ms <= t->run->visibility_ms) return;
    cli_say(t->run->sending.cli,
            "the longest ttr was %s, and a lock of this queue lasts %s: sluice queue set %s "
            "visibilityTimeout=%llds",
            duration_text(ms, ttr), duration_text(t->run->visibility_ms, lock),
            t->run->sending.queue, (long long)ms / 1000);
}

static int finish(struct tube_import *t)
{
    struct tube_stats s;
    if (!read_stats(t, &s)) return t->link.status;
    struct json *left = json_new();
    json_number(left, "ready", (int64_t)s.ready);
    json_number(left, "delayed", (int64_t)s.delayed);
    json_number(left, "buried", (int64_t)s.buried);
    json_number(left, "reserved", (int64_t)s.reserved);
    int status = import_report(t->run, left);
    say_left(t, &s);
    say_ttr(t);
    return status;
}

int import_tube(struct import_run *run, const struct tube_place *place, unsigned states)
{
    struct tube_import *t = cli_alloc(sizeof *t);
    *t = (struct tube_import){.run = run, .place = place, .states = states, .size_now = 100};
    run->noun = "job";
    run->scope = place->tube;
    buf_init(&t->bodies, (size_t)1 << 30);
    int status = tube_open(&t->link, run, place);
    if (status == 0) status = begin(t);
    if (status == 0) status = copy_tube(t);
    progress_end(&run->progress);
    if (status == 0) status = finish(t);
    tube_close(&t->link);
    buf_done(&t->bodies);
    free(t);
    return status;
}
