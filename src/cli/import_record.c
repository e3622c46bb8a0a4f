// SPDX-License-Identifier: Apache-2.0
// The file of an import's record: found by queue and source, locked while a run uses it, and
// extended by one line at a time.
#include "base/digits.h"
#include "base/hash.h"
#include "cli/import.h"
#include "os/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define RECORD_BYTES_MAX ((size_t)1 << 30)

static int failed(const struct import_run *run, const char *what)
{
    return cli_fail_as(run->sending.cli, SLUICE_INVALID, "--record",
                       "the record %s cannot be %s: %s; --record FILE chooses another place",
                       run->path, what, strerror(errno));
}

// XDG_STATE_HOME/sluice/import-<hash>, with its folders.
static char *default_path(const struct import_run *run)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    bool has_state = state && *state == '/';
    if (!has_state && !(home && *home)) return NULL;
    LOCAL(buf, about, 4096);
    buf_put_sized(&about, bytes_str(run->queue_id));
    buf_put_sized(&about, bytes_str(run->source));
    char hash[17] = "";
    (void)digits_put_hex64(hash, hash64_of(buf_bytes(&about), 0));
    size_t size = strlen(has_state ? state : home) + 64;
    char *path = cli_alloc(size);
    (void)snprintf(path, size, "%s%s/sluice/import-%s", has_state ? state : home,
                   has_state ? "" : "/.local/state", hash);
    for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        (void)mkdir(path, 0700); // open reports the failure
        *at = '/';
    }
    return path;
}

static int read_file(struct import_run *run, struct buf *text)
{
    for (;;) {
        uint8_t *at = buf_grow(text, 65536);
        if (!at) {
            errno = EFBIG;
            return failed(run, "read");
        }
        ssize_t n = read(run->fd, at, 65536);
        text->len -= 65536 - (n > 0 ? (size_t)n : 0);
        if (n == 0) return 0;
        if (n < 0 && errno != EINTR) return failed(run, "read");
    }
}

// Folds what earlier runs wrote, and cuts off a last line that is not complete.
static int load(struct import_run *run)
{
    char why[128] = "";
    size_t used = 0;
    LOCAL(buf, text, RECORD_BYTES_MAX);
    int status = read_file(run, &text);
    if (status) return status;
    if (resume_read(&run->record, buf_bytes(&text), &used, why, sizeof why))
        return cli_fail_as(run->sending.cli, SLUICE_CORRUPT, "--record",
                           "the record %s is damaged: %s; --record FILE begins another one",
                           run->path, why);
    if (used < text.len && ftruncate(run->fd, (off_t)used) != 0) return failed(run, "written");
    if (lseek(run->fd, (off_t)used, SEEK_SET) < 0) return failed(run, "written");
    if (used == 0) resume_done(&run->record);
    return 0;
}

static int lock_file(struct import_run *run)
{
    run->path = run->record_path ? strdup(run->record_path) : default_path(run);
    if (!run->path)
        return cli_usage(run->sending.cli, "--record",
                         "HOME is not set: --record FILE says where the import keeps its record");
    run->fd = open(run->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (run->fd < 0) return failed(run, "opened");
    if (flock(run->fd, LOCK_EX | LOCK_NB) == 0) return 0;
    return cli_fail_as(run->sending.cli, SLUICE_CONFLICT, "--record",
                       "another import of %.200s into %s is running: it holds %s", run->source,
                       run->sending.queue, run->path);
}

int import_record_write(struct import_run *run, const struct buf *line, bool sync)
{
    for (size_t at = 0; at < line->len;) {
        ssize_t n = write(run->fd, line->data + at, line->len - at);
        if (n < 0 && errno != EINTR) return failed(run, "written");
        if (n > 0) at += (size_t)n;
    }
    return sync && fdatasync(run->fd) != 0 ? failed(run, "written") : 0;
}

static int other_import(const struct import_run *run)
{
    return cli_fail_as(run->sending.cli, SLUICE_CONFLICT, "--record",
                       "%s is the record of another import: of %.200s; give another FILE",
                       run->path, run->record.source);
}

// Whether the record of earlier runs is about the items that the source has now.
static int same_items(struct import_run *run, const char *lineage, enum import_lineage change,
                      bool *same)
{
    struct resume *r = &run->record;
    *same = change == LINEAGE_LASTS || strcmp(r->lineage, lineage) == 0;
    if (strcmp(r->queue_id, run->queue_id) != 0 || strcmp(r->source, run->source) != 0)
        return other_import(run);
    if (*same) return 0;
    if (change == LINEAGE_FIXED)
        return cli_fail_as(run->sending.cli, SLUICE_CONFLICT, "SOURCE",
                           "%.200s has changed since the import began; remove %s to begin a new "
                           "import, which copies every %s",
                           run->source, run->path, run->noun);
    cli_say(run->sending.cli, "%.200s has other %ss than before: this is a new import", run->source,
            run->noun);
    resume_done(r);
    return ftruncate(run->fd, 0) != 0 || lseek(run->fd, 0, SEEK_SET) < 0 ? failed(run, "written")
                                                                         : 0;
}

int import_record_open(struct import_run *run, const char *lineage, enum import_lineage change)
{
    struct resume *r = &run->record;
    bool same = false;
    LOCAL(buf, lines, RESUME_LINE_MAX);
    int status = lock_file(run);
    if (status == 0) status = load(run);
    if (status == 0 && r->source[0]) status = same_items(run, lineage, change, &same);
    if (status) return status;
    int64_t now = clock_realtime_ms();
    if (same) {
        run->earlier_at = r->last_at;
        run->earlier = r->sent + r->known;
        for (size_t i = 0; i < r->open.len; i++)
            ids_add_range(&run->earlier_open, r->open.ranges[i].first, r->open.ranges[i].last);
    } else {
        (void)snprintf(r->queue_id, sizeof r->queue_id, "%s", run->queue_id);
        (void)snprintf(r->lineage, sizeof r->lineage, "%s", lineage);
        (void)snprintf(r->source, sizeof r->source, "%s", run->source);
        r->base = run->before.sent;
        r->began_at = now;
        resume_head(r, &lines);
    }
    resume_run(r, now, messages_gone(&run->before), &lines);
    return import_record_write(run, &lines, true);
}

void import_record_close(struct import_run *run)
{
    if (run->fd >= 0) (void)close(run->fd);
    run->fd = -1;
    free(run->path);
    run->path = NULL;
    resume_done(&run->record);
    ids_done(&run->earlier_open);
    ids_done(&run->found);
}
