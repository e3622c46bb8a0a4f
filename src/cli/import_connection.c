// SPDX-License-Identifier: Apache-2.0
// Talks to a beanstalkd server over a stream.
#include "cli/import_connection.h"

#include "net/stream.h"
#include "os/clock.h"

#include <poll.h>
#include <stdarg.h>
#include <string.h>

#define CONNECT_MS  5000
#define ANSWER_MS   30000
#define READ_BYTES  65536
#define BUFFER_MAX  ((size_t)1 << 30)
#define COMMAND_MAX 512
#define SHOWN_MAX   60

static bool lost(struct tube_link *l, const char *what)
{
    if (l->status) return false;
    l->status = cli_fail_as(
        l->run->sending.cli, SLUICE_UNAVAILABLE, "SOURCE",
        "the beanstalkd at %s:%s %s; %llu jobs are copied, the same command goes on from there",
        l->place->host, l->place->port, what,
        (unsigned long long)(l->run->record.sent + l->run->record.known));
    return false;
}

bool tube_refuse(struct tube_link *l, struct bytes answer)
{
    char shown[SHOWN_MAX + 1];
    size_t len = answer.len < SHOWN_MAX ? answer.len : SHOWN_MAX;
    if (l->status) return false;
    for (size_t i = 0; i < len; i++) {
        uint8_t c = answer.data[i];
        shown[i] = c >= ' ' && c < 0x7f ? (char)c : '?';
    }
    shown[len] = '\0';
    l->status = cli_fail_as(l->run->sending.cli, SLUICE_INVALID, "SOURCE",
                            "the server at %s:%s does not answer as a beanstalkd: \"%s\"",
                            l->place->host, l->place->port, shown);
    return false;
}

int tube_open(struct tube_link *l, const struct import_run *run, const struct tube_place *place)
{
    char why[256] = "";
    bool refused = false;
    struct stream_place to = {.host = place->host, .port = place->port};
    *l = (struct tube_link){.run = run, .place = place};
    buf_init(&l->out, BUFFER_MAX);
    buf_init(&l->in, BUFFER_MAX);
    l->stream = stream_open(&to, clock_boot_ms() + CONNECT_MS, &refused, why, sizeof why);
    if (l->stream) return 0;
    l->status =
        cli_fail_as(run->sending.cli, SLUICE_UNAVAILABLE, "SOURCE",
                    "no beanstalkd answers at %s:%s: %.200s", place->host, place->port, why);
    return l->status;
}

void tube_close(struct tube_link *l)
{
    stream_free(l->stream);
    l->stream = NULL;
    buf_done(&l->out);
    buf_done(&l->in);
}

void tube_command(struct tube_link *l, const char *format, ...)
{
    char text[COMMAND_MAX];
    va_list rest;
    va_start(rest, format);
    int len = vsnprintf(text, sizeof text - 2, format, rest);
    va_end(rest);
    if (len < 0 || (size_t)len >= sizeof text - 2) len = 0; // names are shorter
    memcpy(text + len, "\r\n", 2);
    buf_put(&l->out, bytes_of(text, (size_t)len + 2));
}

// Reads what has arrived. Returns false if the connection ended.
static bool read_some(struct tube_link *l, size_t *got)
{
    if (l->in_at > 0 && l->in_at == l->in.len) {
        buf_clear(&l->in);
        l->in_at = 0;
    }
    uint8_t *at = buf_grow(&l->in, READ_BYTES);
    if (!at) return lost(l, "sent more than fits in memory");
    ssize_t n = stream_read(l->stream, at, READ_BYTES);
    l->in.len -= READ_BYTES - (n > 0 ? (size_t)n : 0);
    *got = n > 0 ? (size_t)n : 0;
    return n >= 0 || lost(l, "closed the connection");
}

static bool wait_for(struct tube_link *l, bool writes, int64_t until)
{
    int64_t left = until - clock_boot_ms();
    struct pollfd one = {.fd = stream_fd(l->stream),
                         .events = (short)(stream_events(l->stream, writes) | POLLIN)};
    if (left > 0) (void)poll(&one, 1, (int)left);
    return left > 0 || lost(l, "does not answer in time");
}

bool tube_flush(struct tube_link *l)
{
    int64_t until = clock_boot_ms() + ANSWER_MS;
    for (size_t at = 0; at < l->out.len && !l->status;) {
        ssize_t n = stream_write(l->stream, l->out.data + at, l->out.len - at);
        if (n < 0) return lost(l, "closed the connection");
        size_t got = 0;
        at += (size_t)n;
        if (n == 0 && !read_some(l, &got)) return false;
        if (n > 0 || got > 0) until = clock_boot_ms() + ANSWER_MS;
        if (n == 0 && got == 0 && !wait_for(l, true, until)) return false;
    }
    buf_clear(&l->out);
    return !l->status;
}

bool tube_answer(struct tube_link *l, struct beanstalk_answer *out)
{
    int64_t until = clock_boot_ms() + ANSWER_MS;
    while (!l->status) {
        size_t used = 0, got = 0;
        size_t left = l->in.len - l->in_at;
        struct bytes rest = left ? bytes_of(l->in.data + l->in_at, left) : BYTES_EMPTY;
        enum answer_step step = answer_read(rest, out, &used);
        if (step == ANSWER_BAD) return tube_refuse(l, out->line);
        l->in_at += used * (step == ANSWER_ONE);
        if (step == ANSWER_ONE) return true;
        if (!read_some(l, &got)) return false;
        if (got > 0)
            until = clock_boot_ms() + ANSWER_MS;
        else if (!wait_for(l, false, until))
            return false;
    }
    return false;
}

bool tube_ask(struct tube_link *l, struct beanstalk_answer *out, const char *format, ...)
{
    char text[COMMAND_MAX];
    va_list rest;
    va_start(rest, format);
    (void)vsnprintf(text, sizeof text, format, rest);
    va_end(rest);
    tube_command(l, "%s", text);
    return tube_flush(l) && tube_answer(l, out);
}
