// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE // F_SETPIPE_SZ
#include "cli/work/talk.h"

#include "cli/cli.h"
#include "json/json.h"
#include "json/raw.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define NOT_LISTENING "not-listening"
#define PIPE_READ     4096

static char *copy_text(const void *text, size_t len)
{
    char *copy = cli_alloc(len + 1);
    if (len > 0) memcpy(copy, text, len);
    copy[len] = '\0';
    return copy;
}

struct job_signal *job_signal_new(const struct sluice_signal_state *from)
{
    struct job_signal *s = cli_alloc(sizeof *s);
    *s = (struct job_signal){.number = from->number,
                             .kind = from->kind,
                             .interrupt = strcmp(from->kind, "interrupt") == 0,
                             .until = from->until,
                             .grace_ms = from->until - from->sent_at,
                             .text = copy_text(from->payload, from->payload_len),
                             .text_len = from->payload_len};
    (void)snprintf(s->id, sizeof s->id, "%s", from->id);
    return s;
}

void job_signal_free(struct job_signal *s)
{
    if (!s) return;
    free(s->text);
    free(s->answer);
    free(s);
}

void talk_init(struct job_conversation *t, int64_t patience_ms)
{
    *t = (struct job_conversation){
        .signals_fd = -1, .reply_fd = -1, .patience_ms = patience_ms, .percent = -1};
    buf_init(&t->out, SIZE_MAX); // 256 signals of a message, 64 KiB each
    buf_init(&t->line, TALK_LINE_MAX);
}

static void close_one(int *fd)
{
    if (*fd >= 0) (void)close(*fd);
    *fd = -1;
}

void talk_done(struct job_conversation *t)
{
    close_one(&t->signals_fd);
    close_one(&t->reply_fd);
    for (struct job_signal *s = t->first, *next; s; s = next) {
        next = s->next;
        job_signal_free(s);
    }
    t->first = t->last = NULL;
    buf_done(&t->out);
    buf_done(&t->line);
    bytes_free(t->result);
    t->result = BYTES_EMPTY;
}

void job_signal_end(struct job_signal *s, bool decline, const void *answer, size_t len)
{
    s->done = true;
    s->decline = decline;
    free(s->answer);
    s->answer = copy_text(answer, len);
    s->answer_len = len;
}

static void decline(struct job_signal *s, const char *why)
{
    job_signal_end(s, true, why, strlen(why));
}

// The parameters of a steer are JSON already. A question and a reason are text.
static void put_line(struct buf *out, const struct job_signal *s)
{
    struct json *o = json_new();
    json_number(o, "number", s->number);
    json_text(o, "kind", s->kind);
    json_text(o, "id", s->id);
    struct bytes text = bytes_of(s->text, s->text_len);
    if (s->interrupt) {
        json_text_len(o, "reason", s->text, s->text_len);
        json_number(o, "graceMs", s->grace_ms);
    } else if (strcmp(s->kind, "steer") == 0 && json_raw_ok(text)) {
        char *compact = cli_alloc(json_raw_compact_len(text) + 1);
        json_raw_compact(text, compact);
        json_raw(o, "payload", bytes_of(compact, json_raw_compact_len(text)));
        free(compact);
    } else {
        json_text_len(o, "payload", s->text, s->text_len);
    }
    json_write(o, out);
    buf_put_u8(out, '\n');
}

// How many bytes the program has read.
static uint64_t bytes_read(const struct job_conversation *t)
{
    int unread = 0;
    if (t->signals_fd < 0 || ioctl(t->signals_fd, FIONREAD, &unread) != 0) return t->written;
    return (uint64_t)unread < t->written ? t->written - (uint64_t)unread : 0;
}

// Reads everything that is unread in the pipe, and puts it before `out`. The program waits
// meanwhile, because the pipe is empty and open.
static bool take_back(struct job_conversation *t)
{
    char path[32], some[PIPE_READ];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", t->signals_fd);
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return false;
    struct buf all;
    buf_init(&all, SIZE_MAX);
    ssize_t n;
    while ((n = read(fd, some, sizeof some)) > 0 || (n < 0 && errno == EINTR))
        if (n > 0) buf_put(&all, bytes_of(some, (size_t)n));
    (void)close(fd);
    t->written -= all.len < t->written ? all.len : t->written;
    buf_put(&all, buf_bytes(&t->out));
    buf_done(&t->out);
    t->out = all;
    return true;
}

void talk_stop(struct job_conversation *t)
{
    if (t->signals_fd < 0) return;
    (void)take_back(t); // `written` is now what the program has read
    close_one(&t->signals_fd);
    buf_clear(&t->out);
}

static bool is_unread(const struct job_signal *s, uint64_t read)
{
    return s->end == 0 || s->end > read;
}

// The program closed a pipe, or it is ending: then its end comes at once. talk_end decides about a
// program that ends.
static int64_t tick_closed(struct job_conversation *t, int64_t now_ms)
{
    bool waits = false;
    if (t->closed_ms == 0) t->closed_ms = now_ms;
    bool over = now_ms - t->closed_ms >= TALK_CLOSED_MS;
    for (struct job_signal *s = t->first; s; s = s->next) {
        if (s->done || !is_unread(s, t->written)) continue;
        if (over) decline(s, NOT_LISTENING);
        waits = true;
    }
    return waits && !over ? t->closed_ms + TALK_CLOSED_MS : 0;
}

void talk_write(struct job_conversation *t)
{
    size_t done = 0;
    if (t->signals_fd < 0) return;
    while (done < t->out.len) {
        ssize_t n = write(t->signals_fd, t->out.data + done, t->out.len - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        done += (size_t)n;
    }
    bool closed = done < t->out.len && errno == EPIPE;
    t->written += done;
    if (done > 0) memmove(t->out.data, t->out.data + done, t->out.len - done);
    t->out.len -= done;
    struct pollfd fd = {.fd = t->signals_fd};
    if (closed || (poll(&fd, 1, 0) > 0 && fd.revents & POLLERR)) talk_stop(t);
}

bool talk_wants_write(const struct job_conversation *t)
{
    return t->out.len > 0;
}

void talk_send(struct job_conversation *t, struct job_signal *s, int64_t now_ms)
{
    s->next = NULL;
    if (t->last)
        t->last->next = s;
    else
        t->first = s;
    t->last = s;
    if (s->interrupt) job_signal_end(s, false, "", 0);
    if (t->signals_fd < 0) return;
    s->start = t->written + t->out.len;
    put_line(&t->out, s);
    s->end = t->written + t->out.len;
    s->unread_until_ms = now_ms + t->patience_ms;
    talk_write(t);
}

struct job_signal *talk_settled(struct job_conversation *t)
{
    struct job_signal *s = t->first;
    if (!s || !s->done) return NULL;
    t->first = s->next;
    if (!t->first) t->last = NULL;
    s->next = NULL;
    return s;
}

// Removes a line that is completely in `out`, and moves the later lines.
static void remove_line(struct job_conversation *t, struct job_signal *s)
{
    size_t at = (size_t)(s->start - t->written), len = (size_t)(s->end - s->start);
    memmove(t->out.data + at, t->out.data + at + len, t->out.len - at - len);
    t->out.len -= len;
    for (struct job_signal *later = s->next; later; later = later->next) {
        later->start -= len;
        later->end -= len;
    }
    s->start = s->end = 0;
}

int64_t talk_tick(struct job_conversation *t, int64_t now_ms)
{
    int64_t next = 0;
    bool late = false;
    if (t->signals_fd < 0) return tick_closed(t, now_ms);
    uint64_t read = bytes_read(t);
    for (const struct job_signal *s = t->first; s; s = s->next) {
        if (s->done || s->end == 0 || s->start < read) continue;
        late = late || s->unread_until_ms <= now_ms;
        if (next == 0 || s->unread_until_ms < next) next = s->unread_until_ms;
    }
    if (!late) return next;
    if (!take_back(t)) return 0; // without /proc they stay until the program ends
    next = 0;
    for (struct job_signal *s = t->first; s; s = s->next) {
        if (s->done || s->end == 0 || s->start < t->written) continue; // it was read
        if (s->unread_until_ms <= now_ms) {
            remove_line(t, s);
            decline(s, NOT_LISTENING);
        } else if (next == 0 || s->unread_until_ms < next) {
            next = s->unread_until_ms;
        }
    }
    talk_write(t);
    return next;
}

void talk_end(struct job_conversation *t, bool stopped, bool interrupted)
{
    uint64_t read = bytes_read(t);
    struct job_signal *last_done = NULL;
    for (struct job_signal *s = t->first; s; s = s->next)
        if (s->done) last_done = s;
    bool before = last_done != NULL; // an answer cannot pass a signal that is open
    for (struct job_signal *s = t->first; s; s = s->next) {
        if (s->done) {
            before = before && s != last_done;
            continue;
        }
        bool unread = is_unread(s, read);
        if (unread && (interrupted || before || (read == 0 && !stopped)))
            decline(s, NOT_LISTENING);
        else if (interrupted || before)
            decline(s, interrupted ? "interrupted" : "not-answered");
    }
    close_one(&t->signals_fd);
    close_one(&t->reply_fd);
    buf_clear(&t->out);
}
