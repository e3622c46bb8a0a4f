// SPDX-License-Identifier: Apache-2.0
// Reads the status every interval. A rate is the difference between two samples a few seconds
// apart, so that it is steady enough to read.
#include "cli/stats_watch.h"

#include "cli/answer_watch.h"
#include "cli/screen.h"
#include "cli/table.h"
#include "cli/text.h"
#include "os/clock.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RATE_MS         3000
#define SAMPLES         32 // samples per queue; enough for RATE_MS at the shortest interval
#define WORKERS_MAX     200
#define QUEUE_NAME_SIZE 81

struct sample {
    int64_t at_ms;
    struct sluice_stats stats;
};

struct watched_queue {
    char name[QUEUE_NAME_SIZE];
    struct sample samples[SAMPLES]; // a ring buffer
    size_t count;
    bool seen;   // in the last sample of all queues
    bool paused; // at that time
};

struct stats_watch {
    const struct cli *cli;
    struct sluice *s;
    const char *only; // one queue; NULL: all queues
    const struct prices *prices;
    struct watched_queue *rows;
    size_t len;
    struct sluice_worker *workers; // of that queue
    size_t workers_len;
    size_t first; // first visible line of the list
    size_t page;  // visible lines of the list
};

static struct watched_queue *row_for(struct stats_watch *w, const char *name)
{
    for (size_t i = 0; i < w->len; i++)
        if (strcmp(w->rows[i].name, name) == 0) return &w->rows[i];
    w->rows = cli_realloc(w->rows, (w->len + 1) * sizeof *w->rows);
    struct watched_queue *row = &w->rows[w->len++];
    memset(row, 0, sizeof *row);
    (void)snprintf(row->name, sizeof row->name, "%s", name);
    return row;
}

static const struct sample *newest(const struct watched_queue *row)
{
    return &row->samples[(row->count - 1) % SAMPLES];
}

// Returns the newest sample that is at least RATE_MS old, else the oldest.
static const struct sample *earlier(const struct watched_queue *row)
{
    const struct sample *last = newest(row), *found = last;
    size_t kept = row->count < SAMPLES ? row->count : SAMPLES;
    for (size_t back = 1; back < kept; back++) {
        found = &row->samples[(row->count - 1 - back) % SAMPLES];
        if (last->at_ms - found->at_ms >= RATE_MS) break;
    }
    return found;
}

static uint64_t rate(const struct watched_queue *row, uint64_t now, uint64_t before)
{
    int64_t ms = newest(row)->at_ms - earlier(row)->at_ms;
    if (ms <= 0 || now < before) return 0;
    return ((now - before) * 1000 + (uint64_t)ms / 2) / (uint64_t)ms;
}

static void add_sample(struct stats_watch *w, const char *name,
                       const struct sluice_queue_status *seen)
{
    struct watched_queue *row = row_for(w, name);
    row->samples[row->count++ % SAMPLES] =
        (struct sample){.stats = seen->stats, .at_ms = clock_boot_ms()};
    row->seen = true;
    row->paused = seen->info && seen->info->paused;
}

static enum sluice_code sample_queues(struct stats_watch *w, const struct sluice_names *names,
                                      struct sluice_error *error)
{
    enum sluice_code code = SLUICE_OK;
    struct sluice_queue_status *seen =
        cli_status(w->s, names, SLUICE_STATUS_INFO | SLUICE_STATUS_STATS);
    for (size_t i = 0; code == SLUICE_OK && i < names->len; i++) {
        code = seen[i].error.code;
        if (code == SLUICE_OK) add_sample(w, names->names[i], &seen[i]);
        if (code == SLUICE_NOT_FOUND && !w->only) code = SLUICE_OK; // deleted meanwhile
        if (code != SLUICE_OK) *error = seen[i].error;
    }
    cli_status_free(seen, names->len);
    return code;
}

static enum sluice_code sample_all(struct stats_watch *w, struct sluice_error *error)
{
    for (size_t i = 0; i < w->len; i++)
        w->rows[i].seen = false;
    if (w->only) {
        char *name = (char *)(uintptr_t)w->only;
        w->workers_len = 0;
        enum sluice_code code =
            sample_queues(w, &(struct sluice_names){.names = &name, .len = 1}, error);
        if (code == SLUICE_OK)
            (void)sluice_workers(w->s, w->only, w->workers, WORKERS_MAX, &w->workers_len, NULL);
        return code;
    }
    struct sluice_names *names = NULL;
    enum sluice_code code = sluice_queue_list(w->s, &names, error);
    if (code == SLUICE_OK) code = sample_queues(w, names, error);
    sluice_names_free(names);
    return code;
}

static uint64_t depth(const struct watched_queue *row)
{
    const struct sluice_stats *v = &newest(row)->stats;
    return v->ready + v->locked + v->delayed + v->dead + v->outbound;
}

// Sorts by depth, largest first. Deleted queues come last.
static int compare(const void *left, const void *right)
{
    const struct watched_queue *a = left, *b = right;
    if (a->seen != b->seen) return a->seen ? -1 : 1;
    uint64_t x = depth(a), y = depth(b);
    return x != y ? (x > y ? -1 : 1) : strcmp(a->name, b->name);
}

enum column {
    QUEUE,
    STATE,
    READY,
    LOCKED,
    DELAYED,
    PROCESSED,
    DEAD,
    CANCELLED,
    SENT,
    DONE,
    OLDEST,
    WORKERS,
    REQUESTS,
    DOLLARS,
    COLUMNS
};

static const char *const column_heads[COLUMNS] = {
    [QUEUE] = "QUEUE",    [STATE] = "STATE",         [READY] = ">READY",
    [LOCKED] = ">LOCKED", [DELAYED] = ">DELAYED",    [PROCESSED] = ">PROCESSED",
    [DEAD] = ">DEAD",     [SENT] = ">SENT/S",        [DONE] = ">DONE/S",
    [OLDEST] = ">OLDEST", [WORKERS] = ">WORKERS",    [REQUESTS] = ">REQ/MSG",
    [DOLLARS] = ">$/DAY", [CANCELLED] = ">CANCELLED"};

// The columns to drop, in this order, if the screen is too narrow.
static const enum column expendable[] = {DOLLARS, REQUESTS,  CANCELLED, WORKERS, SENT,
                                         DONE,    PROCESSED, DELAYED,   OLDEST,  LOCKED};

static bool is_idle(const struct watched_queue *row)
{
    const struct sluice_stats *v = &newest(row)->stats;
    return v->oldest_age_ms > STATS_IDLE_MS && *stats_remark(v, row->paused);
}

static void add_cell(const struct stats_watch *w, struct table *t, const struct watched_queue *row,
                     enum column column)
{
    const struct sluice_stats *v = &newest(row)->stats, *old = &earlier(row)->stats;
    struct queue_cost cost = queue_cost_of(v, w->prices);
    const uint64_t numbers[COLUMNS] = {[READY] = v->ready,
                                       [LOCKED] = v->locked,
                                       [DELAYED] = v->delayed,
                                       [PROCESSED] = v->processed,
                                       [DEAD] = v->dead,
                                       [CANCELLED] = v->cancelled,
                                       [SENT] = rate(row, v->sent, old->sent),
                                       [WORKERS] = v->workers,
                                       [DONE] = rate(row, v->processed, old->processed)};
    char text[TEXT_MAX];
    switch (column) {
    case QUEUE:
        table_cell(t, row->name);
        break;
    case STATE:
        table_cell(t, row->paused ? "paused" : is_idle(row) ? "no workers" : "active");
        break;
    case OLDEST:
        table_cell(t, v->oldest_age_ms ? duration_text(v->oldest_age_ms, text) : "-");
        break;
    case REQUESTS:
        table_cell(t, cost.messages > 0 ? ratio_text(cost.per_message, text) : "-");
        break;
    case DOLLARS:
        table_cell(t, cost.requests > 0 ? dollars_text(cost.per_day, text) : "-");
        break;
    default:
        table_number(t, numbers[column]);
    }
}

// Leaves out columns without content: the state if all queues are active, the cost if the store
// bills nothing, cancelled messages if there are none.
static void choose_columns(const struct stats_watch *w, bool chosen[static COLUMNS])
{
    for (int c = 0; c < COLUMNS; c++)
        chosen[c] = c != STATE && c != REQUESTS && c != DOLLARS && c != CANCELLED;
    for (size_t i = 0; i < w->len; i++) {
        const struct watched_queue *row = &w->rows[i];
        if (!row->seen) continue;
        const struct sluice_stats *v = &newest(row)->stats;
        if (row->paused || is_idle(row)) chosen[STATE] = true;
        if (v->cancelled > 0) chosen[CANCELLED] = true;
        if (queue_cost_of(v, w->prices).requests > 0) chosen[REQUESTS] = chosen[DOLLARS] = true;
    }
}

static struct table *make_table(const struct stats_watch *w, const bool chosen[static COLUMNS],
                                const char *heads[static COLUMNS])
{
    size_t len = 0;
    for (int c = 0; c < COLUMNS; c++)
        if (chosen[c]) heads[len++] = column_heads[c];
    struct table *t = table_new(heads, len);
    for (size_t i = 0; i < w->len; i++)
        for (int c = 0; w->rows[i].seen && c < COLUMNS; c++)
            if (chosen[c]) add_cell(w, t, &w->rows[i], (enum column)c);
    return t;
}

// Prints as many columns as fit. *hidden is the number of the others.
static void put_queues(const struct stats_watch *w, int width, FILE *out, size_t *hidden)
{
    bool chosen[COLUMNS];
    const char *heads[COLUMNS];
    choose_columns(w, chosen);
    struct table *t = make_table(w, chosen, heads);
    if (table_columns(t) > (size_t)width) table_shorten(t, (size_t)width / 3);
    *hidden = 0;
    for (size_t i = 0; i < COUNT_OF(expendable) && table_columns(t) > (size_t)width; i++) {
        if (!chosen[expendable[i]]) continue;
        chosen[expendable[i]] = false;
        ++*hidden;
        table_free(t);
        t = make_table(w, chosen, heads);
        table_shorten(t, (size_t)width / 3);
    }
    table_print(t, w->cli, out);
    table_free(t);
}

static void put_workers(const struct stats_watch *w, FILE *out)
{
    static const char *const heads[] = {"WORKER", ">LOCKS", ">WAITS"};
    struct table *t = table_new(heads, COUNT_OF(heads));
    for (size_t i = 0; i < w->workers_len; i++) {
        table_cell(t, w->workers[i].name);
        table_number(t, w->workers[i].open);
        table_number(t, w->workers[i].waiting);
    }
    (void)fputc('\n', out);
    table_print(t, w->cli, out);
    table_free(t);
}

static void put_header(const struct stats_watch *w, FILE *out)
{
    char clock[16];
    time_t now = time(NULL);
    struct tm tm;
    (void)strftime(clock, sizeof clock, "%H:%M:%S", localtime_r(&now, &tm));
    char *store = safe_text(w->cli->store, strlen(w->cli->store), 0);
    (void)fprintf(out, "%ssluice%s  %s  %s  %sq quits%s\n\n", bold(w->cli), plain(w->cli), clock,
                  store, dim(w->cli), plain(w->cli));
    free(store);
}

// Says what is not visible and how to see it.
static void put_footer(const struct stats_watch *w, size_t lines, size_t hidden, FILE *out)
{
    size_t last = w->first + w->page < lines ? w->first + w->page : lines;
    (void)fputs(dim(w->cli), out);
    if (lines > w->page)
        (void)fprintf(out, "%zu-%zu of %zu %s, PgUp/PgDn", w->first + 1, last, lines,
                      w->only ? "workers" : "queues");
    if (hidden > 0) (void)fprintf(out, "%s%zu columns hidden", lines > w->page ? "; " : "", hidden);
    (void)fputs(plain(w->cli), out);
    (void)fputc('\n', out);
}

static const char *skip_lines(const char *text, const char *end, size_t lines)
{
    for (; lines > 0 && text < end; lines--) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        text = newline ? newline + 1 : end;
    }
    return text;
}

static size_t count_seen(const struct stats_watch *w)
{
    size_t seen = 0;
    for (size_t i = 0; i < w->len; i++)
        seen += w->rows[i].seen;
    return seen;
}

// Keeps the head and pages the list below it (queues, or the workers of one queue). `text` has all
// lines; only those that fit are drawn.
static void show(struct stats_watch *w, const char *text, size_t len, size_t hidden, int rows)
{
    bool workers = w->only && w->workers_len > 0;
    size_t list = w->only ? w->workers_len : count_seen(w);
    size_t head = workers ? 6 : w->only ? 4 : 3; // header, blank, heads; then row, blank, heads
    size_t room = (size_t)rows > head + 1 ? (size_t)rows - head : 1;
    bool footer = list > room || hidden > 0;
    w->page = footer && room > 1 ? room - 1 : room;
    if (w->first + w->page > list) w->first = list > w->page ? list - w->page : 0;
    const char *end = text + len, *body = skip_lines(text, end, head);
    const char *from = skip_lines(body, end, w->first), *to = skip_lines(from, end, w->page);
    char *shown = NULL;
    size_t shown_len = 0;
    FILE *out = open_memstream(&shown, &shown_len);
    if (!out) return;
    (void)fwrite(text, 1, (size_t)(body - text), out);
    (void)fwrite(from, 1, (size_t)(to - from), out);
    if (footer) put_footer(w, list, hidden, out);
    (void)fclose(out);
    screen_draw(shown, shown_len);
    free(shown);
}

static void draw(struct stats_watch *w)
{
    struct screen_size size = screen_size();
    char *text = NULL;
    size_t len = 0, hidden = 0;
    FILE *out = open_memstream(&text, &len);
    if (!out) return;
    if (w->len > 1) qsort(w->rows, w->len, sizeof *w->rows, compare);
    put_header(w, out);
    put_queues(w, size.columns, out, &hidden);
    if (w->len == 0) (void)fputs("\nthere are no queues yet\n", out);
    if (w->workers_len > 0) put_workers(w, out);
    (void)fclose(out);
    show(w, text, len, hidden, size.rows);
    free(text);
}

// Returns false if the key ends the program.
static bool handle_key(struct stats_watch *w, int key)
{
    size_t back = 0, on = 0;
    switch (key) {
    case 'q':
    case 'Q':
    case KEY_ESCAPE:
    case 3:
        return false;
    case KEY_UP:
    case 'k':
        back = 1;
        break;
    case KEY_DOWN:
    case 'j':
        on = 1;
        break;
    case KEY_PAGE_UP:
    case 'b':
        back = w->page;
        break;
    case KEY_PAGE_DOWN:
    case ' ':
        on = w->page;
        break;
    case KEY_HOME:
    case 'g':
        back = w->first;
        break;
    case KEY_END:
    case 'G':
        on = w->len + w->workers_len; // show() corrects it
        break;
    default:
        return true;
    }
    w->first = w->first + on - (back < w->first ? back : w->first);
    draw(w);
    return true;
}

// Handles keys and resizes at once until the next sample is due. Returns false at the end.
static bool wait_on_screen(struct stats_watch *w, int interval_ms)
{
    for (int64_t due = clock_boot_ms() + interval_ms;;) {
        int64_t left = due - clock_boot_ms();
        int key;
        if (left <= 0) return true;
        switch (screen_wait((int)left, &key)) {
        case SCREEN_STOPPED:
            return false;
        case SCREEN_RESIZED:
            draw(w);
            break;
        case SCREEN_KEY:
            if (!handle_key(w, key)) return false;
            break;
        default:
            break;
        }
    }
}

static void print_cost(const struct stats_watch *w, const struct sluice_stats *v)
{
    char ratio[TEXT_MAX], day[TEXT_MAX];
    struct queue_cost c = queue_cost_of(v, w->prices);
    if (c.requests > 0)
        (void)printf("  req/msg %s  $/day %s", ratio_text(c.per_message, ratio),
                     dollars_text(c.per_day, day));
    (void)putchar('\n');
}

static void print_lines(const struct stats_watch *w)
{
    for (size_t i = 0; i < w->len; i++) {
        const struct watched_queue *row = &w->rows[i];
        if (!row->seen) continue;
        const struct sluice_stats *v = &newest(row)->stats, *old = &earlier(row)->stats;
        if (w->cli->json) {
            stats_json_print(row->name, v, w->prices);
            continue;
        }
        char *name = safe_text(row->name, strlen(row->name), 0);
        const char *remark = stats_remark(v, row->paused);
        (void)printf("%s%s  ready %llu  locked %llu  delayed %llu  processed %llu  dead %llu  "
                     "sent/s %llu  done/s %llu  workers %llu  waiting %llu%s%s",
                     name, row->paused ? "  paused" : "", (unsigned long long)v->ready,
                     (unsigned long long)v->locked, (unsigned long long)v->delayed,
                     (unsigned long long)v->processed, (unsigned long long)v->dead,
                     (unsigned long long)rate(row, v->sent, old->sent),
                     (unsigned long long)rate(row, v->processed, old->processed),
                     (unsigned long long)v->workers, (unsigned long long)v->waiting,
                     *remark ? "  " : "", remark);
        free(name);
        print_cost(w, v);
    }
}

int stats_watch(const struct cli *cli, struct sluice *s, const char *queue, int interval_ms,
                const struct prices *prices)
{
    struct stats_watch w = {.cli = cli, .s = s, .only = queue, .prices = prices};
    w.workers = queue ? cli_alloc(WORKERS_MAX * sizeof *w.workers) : NULL;
    struct sluice_error error = {0};
    enum sluice_code code = sample_all(&w, &error); // an error is reported before the screen opens
    answer_watch_stop(cli);
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
        if (!stop_requested()) code = sample_all(&w, &error);
    }
    screen_close();
    free(w.rows);
    free(w.workers);
    return code == SLUICE_OK ? 0 : cli_fail_queue(cli, s, queue ? queue : "", &error);
}
