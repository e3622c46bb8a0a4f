// SPDX-License-Identifier: Apache-2.0
// Prints the events of queues as the bus has them. The position file is replaced after the events
// before it were printed, so that an interrupted command repeats events rather than misses some.
#include "cli/events_bus.h"

#include "cli/screen.h"
#include "cli/table.h"
#include "cli/text.h"
#include "os/clock.h"
#include "json/json.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SLICE_MS     250 // the longest delay until a signal is noticed
#define SAVE_MS      1000
#define QUIET_MAX    120 // slices without an event: the bus has deleted the rest meanwhile
#define POSITION_MAX ((size_t)64 << 20)
#define TYPE_COLUMNS 21

struct event_printer {
    const struct cli *cli;
    const struct events_bus *bus;
    struct sluice_bus_events *events;
    bool unsaved;
    int64_t saved_at;
    bool waits; // the bus does not answer, and the user knows
};

static void line_print(FILE *out, char **line, size_t *len)
{
    (void)fclose(out);
    char *safe = safe_text(*line, *len, 0);
    (void)printf("%s\n", safe);
    free(safe);
    free(*line);
}

static void event_print(const struct sluice_bus_event *e)
{
    char time[TEXT_MAX], *line = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&line, &len);
    if (!out) return;
    (void)fprintf(out, "%s %u.%llu  %s  %-*s  %s", e->queue, e->shard,
                  (unsigned long long)e->sequence, moment_text(e->time, time), TYPE_COLUMNS,
                  e->type, *e->task ? e->task : "-");
    if (*e->status) (void)fprintf(out, "  %s", e->status);
    if (*e->reason) (void)fprintf(out, "  %s", e->reason);
    if (e->attempt) (void)fprintf(out, "  attempt %u", e->attempt);
    if (*e->worker) (void)fprintf(out, "  by %s", e->worker);
    if (*e->workflow) (void)fprintf(out, "  of %s", e->workflow);
    if (*e->signal)
        (void)fprintf(out, "  %s %llu  signal %s", e->signal_kind, (unsigned long long)e->count,
                      e->signal);
    line_print(out, &line, &len);
}

static void remark_print(const struct sluice_bus_event *e)
{
    char *line = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&line, &len);
    if (!out) return;
    if (e->kind == SLUICE_BUS_GAP)
        (void)fprintf(out, "%s %u.%llu  gap: events %llu to %llu are missing: %s", e->queue,
                      e->shard, (unsigned long long)e->last, (unsigned long long)e->first,
                      (unsigned long long)e->last, e->reason);
    else
        (void)fprintf(out, "%s  refused: %s", e->queue, e->reason);
    line_print(out, &line, &len);
}

static void remark_json(const struct sluice_bus_event *e)
{
    struct json *line = json_new(), *o = json_new();
    bool gap = e->kind == SLUICE_BUS_GAP;
    json_text(o, "queue", e->queue);
    if (gap) {
        json_number(o, "shard", e->shard);
        json_number(o, "first", (int64_t)e->first);
        json_number(o, "last", (int64_t)e->last);
    }
    json_text(o, "reason", e->reason);
    json_take(line, gap ? "gap" : "refused", o);
    json_print(line, stdout);
}

static void print(const struct cli *cli, const struct sluice_bus_event *e)
{
    char wrong[256];
    bool event = e->kind == SLUICE_BUS_EVENT;
    if (!cli->json) {
        if (event)
            event_print(e);
        else
            remark_print(e);
        return;
    }
    struct json *tree = event ? json_parse(e->json, e->json_len, wrong, sizeof wrong) : NULL;
    if (tree)
        json_print(tree, stdout);
    else
        remark_json(e);
}

static bool write_whole(int fd, const char *text)
{
    for (size_t left = strlen(text); left > 0;) {
        ssize_t n = write(fd, text, left);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        text += n;
        left -= (size_t)n;
    }
    return fsync(fd) == 0;
}

static int position_save(struct event_printer *p)
{
    const char *path = p->bus->position_file;
    char beside[PATH_MAX];
    if (!path || !p->unsaved) return 0;
    (void)snprintf(beside, sizeof beside, "%s.new", path);
    int fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    bool good = fd >= 0 && write_whole(fd, sluice_bus_position(p->events));
    int why = errno;
    if (fd >= 0 && close(fd) != 0) good = false;
    if (good && rename(beside, path) != 0) {
        why = errno;
        good = false;
    }
    if (!good)
        return cli_fail_as(p->cli, SLUICE_UNAVAILABLE, "--position",
                           "--position: %s cannot be written: %s", path, strerror(why));
    p->unsaved = false;
    p->saved_at = clock_boot_ms();
    return 0;
}

// Reads the position, if there is one. On false the error is printed.
static bool position_read(const struct cli *cli, const char *path, char **out, int *status)
{
    size_t len = 0;
    *out = NULL;
    if (!path || (access(path, F_OK) != 0 && errno == ENOENT)) return true;
    *out = cli_read_all(cli, path, "--position", POSITION_MAX, &len, status);
    return *out != NULL;
}

// An outage ends a command that does not follow.
static bool goes_on(struct event_printer *p, const struct sluice_error *error)
{
    if (error->code != SLUICE_UNAVAILABLE || !p->bus->follow) return false;
    if (!p->waits) cli_say(p->cli, "%s; waiting for it", error->message);
    p->waits = true;
    (void)poll(NULL, 0, SLICE_MS); // the answer may come at once, again and again
    return true;
}

static int print_all(struct event_printer *p)
{
    int status = 0, quiet = 0;
    while (!status && !stop_requested()) {
        struct sluice_bus_event e;
        struct sluice_error error = {0};
        enum sluice_code code = sluice_bus_next(p->events, SLICE_MS, &e, &error);
        bool none = code == SLUICE_NOT_FOUND;
        if (code && !none && !goes_on(p, &error)) return cli_fail(p->cli, &error);
        if (!code) {
            print(p->cli, &e);
            p->unsaved = true;
            p->waits = false;
            if (ferror(stdout)) return 0;
        }
        if (none && !cli_output_ok()) return 0;
        if (none || clock_boot_ms() - p->saved_at >= SAVE_MS)
            status = cli_output_ok() ? position_save(p) : 0;
        quiet = none ? quiet + 1 : 0;
        bool end = sluice_bus_caught_up(p->events) || quiet > QUIET_MAX;
        if (none && !p->bus->follow && end) break;
    }
    return status ? status : cli_output_ok() ? position_save(p) : 0;
}

int events_bus_print(const struct cli *cli, struct events_bus *b)
{
    struct event_printer p = {.cli = cli, .bus = b, .saved_at = clock_boot_ms()};
    struct sluice_error error = {0};
    char *position = NULL;
    int status = 0;
    if (!position_read(cli, b->position_file, &position, &status)) return status;
    b->options.position = position;
    stop_on_signals();
    if (sluice_bus_open(b->url, &b->options, &p.events, &error) != SLUICE_OK)
        status = cli_fail(cli, &error);
    else
        status = print_all(&p);
    sluice_bus_close(p.events);
    free(position);
    return status;
}
