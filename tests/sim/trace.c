// SPDX-License-Identifier: Apache-2.0
// The trace is text from the start: what is compared between two runs is what a person reads.
#include "trace.h"

#include "base/hash.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

void trace_init(struct trace *t, FILE *print, struct buf *all)
{
    t->hash = 0;
    t->lines = 0;
    t->print = print;
    t->prefix = "";
    t->all = all;
}

void trace_line(struct trace *t, int64_t now, const char *format, ...)
{
    char *line = t->kept[t->lines++ % TRACE_KEPT];
    int start =
        snprintf(line, TRACE_LINE_MAX, "%10" PRId64 ".%03d  ", now / 1000, (int)(now % 1000));
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line + start, TRACE_LINE_MAX - (size_t)start, format, args);
    va_end(args);
    t->hash = hash64_of(bytes_str(line), t->hash);
    if (t->print) (void)fprintf(t->print, "%s%s\n", t->prefix, line);
    if (t->all) {
        buf_put(t->all, bytes_str(line));
        buf_put_u8(t->all, '\n');
    }
}

void trace_tail(const struct trace *t, FILE *out)
{
    uint64_t from = t->lines > TRACE_KEPT ? t->lines - TRACE_KEPT : 0;
    for (uint64_t i = from; i < t->lines; i++)
        (void)fprintf(out, "%s%s\n", t->prefix, t->kept[i % TRACE_KEPT]);
}

void findings_add(struct findings *v, const char *invariant, const char *format, ...)
{
    if (v->broken) return;
    v->broken = true;
    (void)snprintf(v->invariant, sizeof v->invariant, "%s", invariant);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(v->text, sizeof v->text, format, args);
    va_end(args);
}
