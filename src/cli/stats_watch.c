// SPDX-License-Identifier: Apache-2.0
// A look every interval; rates are differences between looks a few seconds apart, so that they are
// steady enough to read.
#include "cli/stats_watch.h"

#include "cli/patience.h"
#include "cli/screen.h"
#include "cli/table.h"
#include "cli/text.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RATE_MS         3000
#define LOOKS           32 // kept per queue; enough for RATE_MS at the shortest interval
#define WORKERS_MAX     200
#define QUEUE_NAME_SIZE 81

struct look {
    int64_t at_ms;
    struct sluice_stats stats;
};

struct watched {
    char name[QUEUE_NAME_SIZE];
    struct look looks[LOOKS]; // a ring
    size_t count;
    bool seen; // in this round
};

struct watch {
    const struct cli *cli;
    struct sluice *s;
    const char *only; // one queue, or NULL
    const struct prices *prices;
    struct watched *rows;
    size_t len;
};

static struct watched *row_for(struct watch *w, const char *name)
{
    for (size_t i = 0; i < w->len; i++)
        if (strcmp(w->rows[i].name, name) == 0) return &w->rows[i];
    w->rows = cli_realloc(w->rows, (w->len + 1) * sizeof *w->rows);
    struct watched *row = &w->rows[w->len++];
    memset(row, 0, sizeof *row);
    (void)snprintf(row->name, sizeof row->name, "%s", name);
    return row;
}

static const struct look *newest(const struct watched *row)
{
    return &row->looks[(row->count - 1) % LOOKS];
}

// The youngest look that is RATE_MS old, else the oldest there is.
static const struct look *earlier(const struct watched *row)
{
    const struct look *last = newest(row), *found = last;
    size_t kept = row->count < LOOKS ? row->count : LOOKS;
    for (size_t back = 1; back < kept; back++) {
        found = &row->looks[(row->count - 1 - back) % LOOKS];
        if (last->at_ms - found->at_ms >= RATE_MS) break;
    }
    return found;
}

static uint64_t rate(const struct watched *row, uint64_t now, uint64_t before)
{
    int64_t ms = newest(row)->at_ms - earlier(row)->at_ms;
    if (ms <= 0 || now < before) return 0;
    return ((now - before) * 1000 + (uint64_t)ms / 2) / (uint64_t)ms;
}

static void note_look(struct watch *w, const char *name, const struct sluice_stats *stats)
{
    struct watched *row = row_for(w, name);
    row->looks[row->count++ % LOOKS] = (struct look){.stats = *stats, .at_ms = steady_ms()};
    row->seen = true;
}

static enum sluice_code look_at_one(struct watch *w, struct sluice_error *error)
{
    struct sluice_stats stats;
    enum sluice_code code = sluice_stats(w->s, w->only, &stats, error);
    if (code == SLUICE_OK) note_look(w, w->only, &stats);
    return code;
}

static enum sluice_code look_around(struct watch *w, struct sluice_error *error)
{
    for (size_t i = 0; i < w->len; i++)
        w->rows[i].seen = false;
    if (w->only) return look_at_one(w, error);
    struct sluice_names *names = NULL;
    enum sluice_code code = sluice_queue_list(w->s, &names, error);
    if (code != SLUICE_OK) return code;
    struct sluice_sight *seen = cli_look(w->s, names, SLUICE_SEE_STATS);
    for (size_t i = 0; code == SLUICE_OK && i < names->len; i++) {
        code = seen[i].error.code;
        if (code == SLUICE_OK) note_look(w, names->names[i], &seen[i].stats);
        if (code == SLUICE_NOT_FOUND) code = SLUICE_OK; // deleted meanwhile
        if (code != SLUICE_OK) *error = seen[i].error;
    }
    cli_look_free(seen, names->len);
    sluice_names_free(names);
    return code;
}

// ---- the screen

static void add_cost(const struct watch *w, struct table *t, const struct sluice_stats *v)
{
    char text[TEXT_MAX];
    struct queue_cost c = queue_cost_of(v, w->prices);
    table_cell(t, c.messages > 0 ? ratio_text(c.per_message, text) : "-");
    table_cell(t, c.requests > 0 ? dollars_text(c.per_day, text) : "-");
}

static void add_row(const struct watch *w, struct table *t, const struct watched *row, bool charged)
{
    const struct sluice_stats *v = &newest(row)->stats, *old = &earlier(row)->stats;
    char text[TEXT_MAX];
    table_cell(t, row->name);
    table_number(t, v->ready);
    table_number(t, v->locked);
    table_number(t, v->delayed);
    table_number(t, v->processed);
    table_number(t, v->dead);
    table_number(t, rate(row, v->sent, old->sent));
    table_number(t, rate(row, v->processed, old->processed));
    table_cell(t, v->oldest_age_ms ? duration_text(v->oldest_age_ms, text) : "-");
    table_number(t, v->workers);
    if (charged) add_cost(w, t, v);
}

// Does the store charge anybody for anything?
static bool is_charged(const struct watch *w)
{
    for (size_t i = 0; i < w->len; i++)
        if (w->rows[i].seen && queue_cost_of(&newest(&w->rows[i])->stats, w->prices).requests > 0)
            return true;
    return false;
}

static void put_workers(const struct watch *w, FILE *out)
{
    static const char *const heads[] = {"WORKER", ">LOCKS"};
    struct sluice_worker *rows = cli_alloc(WORKERS_MAX * sizeof *rows);
    struct table *t = table_new(heads, COUNT_OF(heads));
    size_t len = 0;
    if (sluice_workers(w->s, w->only, rows, WORKERS_MAX, &len, NULL) == SLUICE_OK && len > 0) {
        for (size_t i = 0; i < len; i++) {
            table_cell(t, rows[i].name);
            table_number(t, rows[i].open);
        }
        (void)fputc('\n', out);
        table_print(t, w->cli, out);
    }
    table_free(t);
    free(rows);
}

static void put_header(const struct watch *w, FILE *out)
{
    char clock[16];
    time_t now = time(NULL);
    struct tm tm;
    (void)strftime(clock, sizeof clock, "%H:%M:%S", localtime_r(&now, &tm));
    (void)fprintf(out, "%ssluice%s  %s  %s  %sq ends%s\n\n", bold(w->cli), plain(w->cli), clock,
                  w->cli->store, dim(w->cli), plain(w->cli));
}

static void draw(const struct watch *w)
{
    static const char *const heads[] = {"QUEUE",      ">READY",   ">LOCKED",  ">DELAYED",
                                        ">PROCESSED", ">DEAD",    ">SENT/S",  ">DONE/S",
                                        ">OLDEST",    ">WORKERS", ">REQ/MSG", ">$/DAY"};
    bool charged = is_charged(w);
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    if (!out) return;
    struct table *t = table_new(heads, COUNT_OF(heads) - (charged ? 0 : 2));
    for (size_t i = 0; i < w->len; i++)
        if (w->rows[i].seen) add_row(w, t, &w->rows[i], charged);
    put_header(w, out);
    table_print(t, w->cli, out);
    if (w->len == 0) (void)fputs("\nthere are no queues yet\n", out);
    if (w->only) put_workers(w, out);
    table_free(t);
    (void)fclose(out);
    screen_draw(text, len);
    free(text);
}

// Keys and resizes are answered at once, the next look comes when it is due. False: it is over.
static bool wait_on_screen(const struct watch *w, int interval_ms)
{
    for (int64_t due = steady_ms() + interval_ms;;) {
        int64_t left = due - steady_ms();
        int key;
        if (left <= 0) return true;
        switch (screen_wait((int)left, &key)) {
        case SCREEN_STOPPED:
            return false;
        case SCREEN_RESIZED:
            draw(w);
            break;
        case SCREEN_KEY:
            if (key == 'q' || key == 'Q' || key == 0x1b || key == 3) return false;
            break;
        default:
            break;
        }
    }
}

// ---- without a terminal

static void print_cost(const struct watch *w, const struct sluice_stats *v)
{
    char ratio[TEXT_MAX], day[TEXT_MAX];
    struct queue_cost c = queue_cost_of(v, w->prices);
    if (c.requests > 0)
        (void)printf("  req/msg %s  $/day %s", ratio_text(c.per_message, ratio),
                     dollars_text(c.per_day, day));
    (void)putchar('\n');
}

static void print_lines(const struct watch *w)
{
    for (size_t i = 0; i < w->len; i++) {
        const struct watched *row = &w->rows[i];
        if (!row->seen) continue;
        const struct sluice_stats *v = &newest(row)->stats, *old = &earlier(row)->stats;
        if (w->cli->json) {
            stats_json_print(row->name, v, w->prices);
            continue;
        }
        (void)printf("%s  ready %llu  locked %llu  delayed %llu  processed %llu  dead %llu  "
                     "sent/s %llu  done/s %llu  workers %llu",
                     row->name, (unsigned long long)v->ready, (unsigned long long)v->locked,
                     (unsigned long long)v->delayed, (unsigned long long)v->processed,
                     (unsigned long long)v->dead, (unsigned long long)rate(row, v->sent, old->sent),
                     (unsigned long long)rate(row, v->processed, old->processed),
                     (unsigned long long)v->workers);
        print_cost(w, v);
    }
}

int stats_watch(const struct cli *cli, struct sluice *s, const char *queue, int interval_ms,
                const struct prices *prices)
{
    struct watch w = {.cli = cli, .s = s, .only = queue, .prices = prices};
    struct sluice_error error = {0};
    enum sluice_code code = look_around(&w, &error); // an error comes before the screen is taken
    patience_rest(cli);
    stop_on_signals();
    bool screen = code == SLUICE_OK && !cli->json && screen_open();
    while (code == SLUICE_OK && !stop_requested()) {
        if (screen) {
            draw(&w);
            if (!wait_on_screen(&w, interval_ms)) break;
        } else {
            print_lines(&w);
            if (!cli_output_ok()) break;
            stop_sleep(interval_ms);
        }
        if (!stop_requested()) code = look_around(&w, &error);
    }
    screen_close();
    free(w.rows);
    return code == SLUICE_OK ? 0 : cli_fail_queue(cli, s, queue ? queue : "", &error);
}
