// SPDX-License-Identifier: Apache-2.0
// A line is built whole and written by one call, so that lines of several threads do not mix.
#include "server/log.h"

#include "base/bytes.h"
#include "os/clock.h"
#include "server/inside.h"
#include "json/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LINE_BYTES_MAX ((size_t)16 << 10)
#define TIME_TEXT_MAX  32

static const char *const levels[] = {"debug", "info", "warning", "error"};

static void time_text(char out[TIME_TEXT_MAX])
{
    int64_t now = clock_realtime_ms();
    time_t seconds = (time_t)(now / 1000);
    struct tm tm;
    (void)gmtime_r(&seconds, &tm);
    size_t len = strftime(out, TIME_TEXT_MAX, "%Y-%m-%dT%H:%M:%S", &tm);
    (void)snprintf(out + len, TIME_TEXT_MAX - len, ".%03dZ", (int)(now % 1000));
}

static void put_escaped(struct buf *to, uint8_t c)
{
    char escaped[8];
    (void)snprintf(escaped, sizeof escaped, "\\x%02x", c);
    buf_put(to, bytes_str(escaped));
}

// A value with anything but plain characters is quoted. The characters that would end the quotes
// and control characters (C0, DEL, C1) are escaped. If the text is not UTF-8, so are all bytes
// above 127.
static void put_quoted(struct buf *to, const char *text)
{
    bool is_utf8 = utf8_ok(text, strlen(text));
    buf_put_u8(to, '"');
    for (const uint8_t *at = (const uint8_t *)text; *at; at++) {
        bool c1 = at[0] == 0xc2 && at[1] < 0xa0; // U+0080 to U+009F
        if (*at == '"' || *at == '\\') buf_put_u8(to, '\\');
        if (*at < ' ' || *at == 127 || c1 || (*at > 127 && !is_utf8))
            put_escaped(to, *at);
        else
            buf_put_u8(to, *at);
        if (is_utf8 && c1) put_escaped(to, *++at);
    }
    buf_put_u8(to, '"');
}

static bool is_plain(const char *text)
{
    if (!*text) return false;
    for (; *text; text++)
        if (*text <= ' ' || *text > '~' || strchr("\"\\=", *text)) return false;
    return true;
}

static void put_logfmt(struct buf *to, const struct log_pair *p)
{
    char number[48] = "";
    if (p->kind == LOG_KIND_NUMBER) (void)snprintf(number, sizeof number, "%" PRId64, p->number);
    if (p->kind == LOG_KIND_FRACTION) (void)snprintf(number, sizeof number, "%.3f", p->fraction);
    const char *text = p->kind == LOG_KIND_TEXT ? p->text : number;
    if (to->len > 0) buf_put_u8(to, ' ');
    buf_put(to, bytes_str(p->key));
    buf_put_u8(to, '=');
    if (is_plain(text))
        buf_put(to, bytes_str(text));
    else
        put_quoted(to, text);
}

static void put_json(struct json *o, const struct log_pair *p)
{
    if (p->kind == LOG_KIND_NUMBER)
        json_number(o, p->key, p->number);
    else if (p->kind == LOG_KIND_FRACTION)
        json_fraction(o, p->key, p->fraction);
    else
        json_text_len(o, p->key, p->text, strlen(p->text));
}

void log_write(struct log *log, enum log_level level, const char *event,
               const struct log_pair *pairs, size_t len)
{
    if ((int)level < atomic_load(&log->level)) return;
    char now[TIME_TEXT_MAX];
    time_text(now);
    const struct log_pair head[] = {LOG_TEXT("time", now), LOG_TEXT("level", levels[level]),
                                    LOG_TEXT("event", event)};
    LOCAL(buf, line, LINE_BYTES_MAX);
    bool as_json = atomic_load(&log->format) == LOG_JSON;
    struct json *o = as_json ? json_new() : NULL;
    for (size_t i = 0; i < 3 + len; i++) {
        const struct log_pair *p = i < 3 ? &head[i] : &pairs[i - 3];
        if (p->kind == LOG_KIND_TEXT && !p->text) continue;
        if (as_json)
            put_json(o, p);
        else
            put_logfmt(&line, p);
    }
    if (as_json) json_write_plain(o, &line);
    buf_put_u8(&line, '\n');
    if (!line.bad) (void)!write(log->fd, line.data, line.len); // an error cannot be reported
}

void log_access(const struct exchange *x)
{
    char request[2 * sizeof x->request.bytes + 1] = "";
    for (size_t i = 0; x->has_request && i < sizeof x->request.bytes; i++)
        (void)snprintf(request + 2 * i, 3, "%02x", x->request.bytes[i]);
    double ms = (double)(clock_boot_ns() - x->began_ns) / 1e6;
    int status = x->status;
    // Monitors ask every few seconds, and each run of the command line asks once.
    bool health = x->route && status == 200 && strcmp(x->route->row->pattern, "/healthz") == 0;
    LOG(&x->server->log,
        status >= 500 ? LOG_WARNING
        : health      ? LOG_DEBUG
                      : LOG_INFO,
        "request", LOG_TEXT("method", httpd_method(x->http)),
        LOG_TEXT("route", x->route ? x->route->row->pattern : "none"),
        LOG_TEXT("queue", *x->queue ? x->queue : NULL), LOG_NUMBER("status", status),
        LOG_FRACTION("ms", ms), LOG_TEXT("client", httpd_peer(x->http)),
        LOG_TEXT("token", *x->token ? x->token : NULL),
        LOG_TEXT("request", *request ? request : NULL));
}
