// SPDX-License-Identifier: Apache-2.0
// The output of a worker. The table redraws itself: move up by its lines, erase, draw.
#define _GNU_SOURCE // asprintf
#include "cli/work/ui.h"

#include "cli/table.h"
#include "cli/text.h"
#include "os/clock.h"
#include "os/lock.h"
#include "json/json.h"

#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define DRAW_MS      250
#define GAUGE_MS     3000 // interval of reading how many messages are ready
#define GAUGE_LOOKS  5    // that the rate of the queue is measured over
#define ROWS_DEFAULT 24
#define COLS_DEFAULT 80
#define ROWS_AROUND  4 // lines of the table's frame, and one line of output

static const char *const state_names[] = {"", "running", "stopping", "settling"};

static void wipe(struct ui *f)
{
    if (f->drawn > 0) (void)fprintf(stderr, "\x1b[%dA\r\x1b[J", f->drawn);
    f->drawn = 0;
}

// True if our lines and the programs' output go to the same file.
static bool same_place(void)
{
    struct stat out, err;
    return fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &err) == 0 &&
           out.st_dev == err.st_dev && out.st_ino == err.st_ino;
}

// Ends an open line first, if a program wrote no newline.
static void begin_line(struct ui *f)
{
    wipe(f);
    if (f->line_open && (f->line_is_error || same_place())) (void)fputc('\n', stderr);
    f->line_open = false;
}

// The word for people: also a queue without a dead-letter queue has dead messages.
static const char *end_word(enum work_end end)
{
    return end == END_DEAD ? "dead" : work_end_name(end);
}

static uint64_t total(const struct worker_pool *p)
{
    uint64_t sum = 0;
    for (int i = 0; i < END_COUNT; i++)
        sum += p->ended[i];
    return sum;
}

// Jobs per second over the last ten seconds.
static double rate(struct ui *f, uint64_t now_total)
{
    int64_t now = clock_boot_ms();
    while (now - f->sampled_ms >= 1000) {
        if (f->samples_len == RATE_SECONDS)
            memmove(f->samples, f->samples + 1, (RATE_SECONDS - 1) * sizeof *f->samples);
        else
            f->samples_len++;
        f->samples[f->samples_len - 1] = now_total;
        f->sampled_ms += 1000;
    }
    if (f->samples_len < 2) return 0;
    return (double)(f->samples[f->samples_len - 1] - f->samples[0]) / (f->samples_len - 1);
}

// Signals and progress need columns only if a job has some.
struct extra_columns {
    bool signals, progress;
};

static struct extra_columns extra_of(const struct worker_pool *p)
{
    struct extra_columns e = {0};
    for (uint32_t i = 0; i < p->options.jobs; i++) {
        e.signals |= p->slots[i].state != SLOT_IDLE && p->slots[i].signals > 0;
        e.progress |= p->slots[i].state != SLOT_IDLE && p->slots[i].percent >= 0;
    }
    return e;
}

// "2/3": of three signals that came, two have no end yet.
static void put_extra(char *to, size_t len, const struct slot *s, struct extra_columns e)
{
    char signals[24] = "-", progress[24] = "-";
    if (s->signals > 0)
        (void)snprintf(signals, sizeof signals, "%" PRIu32 "/%" PRIu32, s->open, s->signals);
    if (s->percent >= 0) (void)snprintf(progress, sizeof progress, "%d%%", s->percent);
    int at = 0;
    to[0] = '\0';
    if (e.signals) at = snprintf(to, len, "%-8s ", signals);
    if (e.progress) (void)snprintf(to + at, len - (size_t)at, "%-8s ", progress);
}

static void draw_row(FILE *out, const struct slot *s, int64_t now, int columns,
                     struct extra_columns extra)
{
    char age[TEXT_MAX];
    char left[TEXT_MAX];
    char more[TEXT_MAX];
    char *line = NULL;
    put_extra(more, sizeof more, s, extra);
    (void)duration_text(now - s->started_ms, age);
    (void)duration_text(s->deadline_ms > now ? s->deadline_ms - now : 0, left);
    bool reports = s->percent >= 0 && *s->progress; // says more than the body
    char *body = reports ? safe_text(s->progress, strlen(s->progress), 0)
                         : safe_text(s->body, s->body_len, 0);
    if (asprintf(&line, "  %-9s %-10s %-8" PRIu32 " %-8s %s%-16s %s", state_names[s->state], age,
                 s->attempt, left, more, s->id, body) >= 0) {
        print_safe(out, line, strlen(line), (size_t)columns);
        (void)fputc('\n', out);
        free(line);
    }
    free(body);
}

// A line that is longer than the screen would take two, and a redraw would leave one behind.
static void draw_heads(FILE *out, int columns, struct extra_columns extra)
{
    char line[120];
    int len = snprintf(line, sizeof line,
                       "  STATE     AGE        ATTEMPT  LOCK     %s%sMESSAGE          BODY",
                       extra.signals ? "SIGNALS  " : "", extra.progress ? "PROGRESS " : "");
    print_safe(out, line, (size_t)len, (size_t)columns);
    (void)fputc('\n', out);
}

// Prints a row for each busy slot, in slot order. Returns the number of lines.
static int draw_rows(struct ui *f, FILE *out, int rows_max, int columns)
{
    const struct worker_pool *p = f->pool;
    int64_t now = clock_boot_ms();
    int lines = 0;
    int left_out = 0;
    struct extra_columns extra = extra_of(p);
    for (uint32_t i = 0; i < p->options.jobs; i++) {
        const struct slot *s = &p->slots[i];
        if (s->state == SLOT_IDLE) continue;
        if (lines == 0) draw_heads(out, columns, extra);
        if (lines == 0) lines++;
        if (lines > rows_max) {
            left_out++;
            continue;
        }
        draw_row(out, s, now, columns, extra);
        lines++;
    }
    if (left_out > 0) (void)fprintf(out, "  ... and %d more\n", left_out);
    return lines + (left_out > 0);
}

// Prints how many messages are ready, and the time for them at the present rate of the queue: other
// processes may work on it, too.
static void put_left(FILE *line, const struct worker_pool *p)
{
    char count[TEXT_MAX], left[TEXT_MAX];
    if (!p->ready_known) return;
    (void)fprintf(line, ", %s ready", number_text(p->ready, count));
    if (p->ready > 0 && p->queue_rate > 0)
        (void)fprintf(line, " (about %s left)",
                      duration_text((int64_t)((double)p->ready / p->queue_rate * 1000), left));
}

// Counters that are 0 are left out, so that the line fits.
static void draw_head(struct ui *f, FILE *out, int columns)
{
    const struct worker_pool *p = f->pool;
    char up[TEXT_MAX], *head = NULL;
    size_t len = 0;
    FILE *line = open_memstream(&head, &len);
    if (!line) return;
    (void)fprintf(line, "%s: %" PRIu32 "/%" PRIu32 " busy", p->options.queue, p->busy,
                  p->options.jobs);
    for (int i = 0; i < END_COUNT; i++)
        if (i == END_PROCESSED || p->ended[i] > 0)
            (void)fprintf(line, ", %" PRIu64 " %s", p->ended[i], end_word((enum work_end)i));
    double per_second = rate(f, total(p));
    (void)fprintf(line, ", %.1f/s", per_second);
    put_left(line, p);
    (void)fprintf(line, ", up %s", duration_text(clock_boot_ms() - f->started_ms, up));
    (void)fclose(line);
    print_safe(out, head, len, (size_t)columns);
    (void)fputc('\n', out);
    free(head);
}

static void draw(struct ui *f)
{
    struct winsize size = {0};
    (void)ioctl(STDERR_FILENO, TIOCGWINSZ, &size);
    int rows = size.ws_row > 0 ? size.ws_row : ROWS_DEFAULT;
    int columns = size.ws_col > 0 ? size.ws_col : COLS_DEFAULT;
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    if (!out) return;
    struct worker_pool *p = f->pool;
    (void)pthread_mutex_lock(&p->lock);
    draw_head(f, out, columns);
    int lines = 1 + draw_rows(f, out, rows - ROWS_AROUND, columns);
    (void)pthread_mutex_unlock(&p->lock);
    (void)fclose(out);
    wipe(f);
    if (f->line_open) (void)fputc('\n', stderr);
    f->line_open = false;
    (void)fwrite(text, 1, len, stderr);
    (void)fflush(stderr);
    f->drawn = lines;
    free(text);
}

void work_ui_draw(struct ui *f)
{
    if (!f->live) return;
    LOCKED(&f->pool->work_ui_lock);
    draw(f);
}

// What the queue has processed, at the last looks.
struct processed_counts {
    uint64_t counts[GAUGE_LOOKS];
    int64_t at_ms[GAUGE_LOOKS];
    size_t len;
};

static double queue_rate(struct processed_counts *p, uint64_t count, int64_t now)
{
    if (p->len == GAUGE_LOOKS) {
        memmove(p->counts, p->counts + 1, (GAUGE_LOOKS - 1) * sizeof *p->counts);
        memmove(p->at_ms, p->at_ms + 1, (GAUGE_LOOKS - 1) * sizeof *p->at_ms);
        p->len--;
    }
    p->counts[p->len] = count;
    p->at_ms[p->len++] = now;
    if (now <= p->at_ms[0] || count < p->counts[0]) return 0;
    return (double)(count - p->counts[0]) * 1000 / (double)(now - p->at_ms[0]);
}

// Runs on its own thread, so that a store that does not answer delays neither the table nor a
// signal.
static void *gauge_main(void *ctx)
{
    struct ui *f = ctx;
    struct worker_pool *p = f->pool;
    struct pollfd end = {.fd = f->gauge_fd, .events = POLLIN};
    struct processed_counts seen = {.len = 0};
    do {
        struct sluice_stats stats;
        bool known = sluice_stats(atomic_load(&p->store), p->options.queue, &stats, NULL) == 0;
        LOCKED(&p->lock);
        p->ready_known = known;
        if (known) p->ready = stats.ready;
        if (known) p->queue_rate = queue_rate(&seen, stats.processed, clock_boot_ms());
    } while (poll(&end, 1, GAUGE_MS) == 0);
    return NULL;
}

void work_ui_watch(struct ui *f)
{
    if (!f->live) return;
    f->gauge_fd = eventfd(0, EFD_CLOEXEC);
    f->gauged = f->gauge_fd >= 0 && pthread_create(&f->gauge, NULL, gauge_main, f) == 0;
}

void work_ui_rest(struct ui *f)
{
    uint64_t one = 1;
    if (!f->gauged) return;
    (void)!write(f->gauge_fd, &one, sizeof one);
    (void)pthread_join(f->gauge, NULL);
    (void)close(f->gauge_fd);
    f->gauged = false;
}

static void print_job_json(const struct ui *f, const struct work_report *r)
{
    struct json *o = json_new();
    json_text(o, "type", "job");
    json_text(o, "id", r->id);
    json_text(o, "queue", f->pool->options.queue);
    json_text(o, "worker", f->pool->options.worker);
    json_number(o, "attempt", r->attempt);
    json_text(o, "status", work_end_name(r->end));
    if (r->status >= 0 && WIFEXITED(r->status)) json_number(o, "exit", WEXITSTATUS(r->status));
    if (r->status >= 0 && WIFSIGNALED(r->status)) json_number(o, "signal", WTERMSIG(r->status));
    json_number(o, "tookMs", r->took_ms);
    if (*r->reason) json_text(o, "reason", r->reason);
    json_print(o, stdout);
    if (!cli_output_ok()) pool_order(f->pool, WORK_NO_MORE);
}

static void on_ended(void *ctx, const struct work_report *r)
{
    struct ui *f = ctx;
    if (f->cli->json) {
        print_job_json(f, r);
        return;
    }
    if (f->cli->quiet || (f->live && !*r->reason)) return;
    char took[TEXT_MAX];
    begin_line(f);
    (void)fprintf(stderr, "%-9s %s attempt %" PRIu32 " %s%s", end_word(r->end), r->id, r->attempt,
                  duration_text(r->took_ms, took), *r->reason ? ": " : "");
    print_safe(stderr, r->reason, strlen(r->reason), WORK_REASON_MAX);
    (void)fputc('\n', stderr);
    if (f->live) draw(f);
}

static void on_signal(void *ctx, const struct work_signal *s)
{
    struct ui *f = ctx;
    if (f->cli->json) {
        struct json *o = json_new();
        json_text(o, "type", "signal");
        json_text(o, "id", s->message);
        json_text(o, "queue", f->pool->options.queue);
        json_text(o, "worker", f->pool->options.worker);
        json_text(o, "signal", s->signal);
        json_number(o, "number", s->number);
        json_text(o, "kind", s->kind);
        json_text(o, "state", s->state);
        if (*s->reason) json_text(o, "reason", s->reason);
        json_print(o, stdout);
        if (!cli_output_ok()) pool_order(f->pool, WORK_NO_MORE);
        return;
    }
    // On a screen the table tells of signals.
    if (f->cli->quiet || (f->live && !*s->reason)) return;
    begin_line(f);
    (void)fprintf(stderr, "%-9s %s %s %" PRIu32 "%s", s->state, s->message, s->kind, s->number,
                  *s->reason ? ": " : "");
    print_safe(stderr, s->reason, strlen(s->reason), WORK_REASON_MAX);
    (void)fputc('\n', stderr);
    if (f->live) draw(f);
}

static void on_output(void *ctx, bool is_error, const char *text, size_t len)
{
    struct ui *f = ctx;
    wipe(f);
    FILE *out = is_error ? stderr : stdout;
    (void)fwrite(text, 1, len, out);
    (void)fflush(out);
    f->line_open = len > 0 && text[len - 1] != '\n';
    f->line_is_error = is_error;
    if (f->live) draw(f);
}

static void on_trouble(void *ctx, const char *sentence)
{
    struct ui *f = ctx;
    begin_line(f);
    if (f->cli->json) {
        struct json *o = json_new();
        json_text(o, "type", "trouble");
        json_text(o, "message", sentence);
        json_print(o, stdout);
        (void)fflush(stdout);
    } else {
        print_line(stderr, "sluice: %s", sentence);
    }
    if (f->live) draw(f);
}

void work_ui_say(struct ui *f, const char *format, ...)
{
    if (f->cli->quiet || f->cli->json) return;
    LOCKED(&f->pool->work_ui_lock);
    begin_line(f);
    va_list list;
    va_start(list, format);
    vprint_line(stderr, format, list);
    va_end(list);
}

void work_ui_init(struct ui *f, const struct cli *cli, struct work_options *o)
{
    const char *term = getenv("TERM");
    *f = (struct ui){
        .cli = cli, .started_ms = clock_boot_ms(), .sampled_ms = clock_boot_ms(), .samples_len = 1};
    f->live =
        !cli->json && !cli->quiet && isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
    bool mixed = f->live ? isatty(STDOUT_FILENO) : !cli->json && !cli->quiet && same_place();
    o->spec.stdout_is_ours = !mixed;
    o->spec.stdout_fd = cli->json ? STDERR_FILENO : STDOUT_FILENO;
    o->ui = (struct work_ui){.ctx = f,
                             .ended = on_ended,
                             .signal = on_signal,
                             .output = on_output,
                             .trouble = on_trouble};
}

void work_ui_begin(struct ui *f, struct worker_pool *p)
{
    f->pool = p;
}

int work_ui_period_ms(const struct ui *f)
{
    return f->live ? DRAW_MS : -1;
}

void work_ui_end(struct ui *f)
{
    const struct worker_pool *p = f->pool;
    begin_line(f);
    if (f->cli->json) {
        struct json *o = json_new();
        json_text(o, "type", "summary");
        json_text(o, "queue", p->options.queue);
        json_text(o, "worker", p->options.worker);
        for (int i = 0; i < END_COUNT; i++)
            json_number(o, work_end_name((enum work_end)i), (int64_t)p->ended[i]);
        json_number(o, "renewals", (int64_t)p->renewals);
        json_number(o, "tookMs", clock_boot_ms() - f->started_ms);
        json_print(o, stdout);
    } else if (!f->cli->quiet) {
        char took[TEXT_MAX];
        (void)fprintf(stderr, "%s in %s:", p->options.worker,
                      duration_text(clock_boot_ms() - f->started_ms, took));
        for (int i = 0; i < END_COUNT; i++)
            if (i == END_PROCESSED || p->ended[i] > 0)
                (void)fprintf(stderr, " %" PRIu64 " %s", p->ended[i], end_word((enum work_end)i));
        (void)fputc('\n', stderr);
    }
}
