// SPDX-License-Identifier: Apache-2.0
// One sample a line: name{label="value",...} number.
#include "server/metrics_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NUMBER_MAX 48

static void put(struct buf *to, const char *text)
{
    buf_put(to, bytes_str(text));
}

void metric_family(struct buf *to, const char *name, enum metric_kind kind, const char *help)
{
    static const char *const kinds[] = {"counter", "gauge", "histogram"};
    put(to, "# HELP ");
    put(to, name);
    put(to, " ");
    put(to, help);
    put(to, "\n# TYPE ");
    put(to, name);
    put(to, " ");
    put(to, kinds[kind]);
    put(to, "\n");
}

static void put_label(struct buf *to, const char *name, const char *value)
{
    put(to, name);
    put(to, "=\"");
    for (; *value; value++) {
        if (*value == '"' || *value == '\\') buf_put_u8(to, '\\');
        if (*value == '\n')
            put(to, "\\n");
        else
            buf_put_u8(to, (uint8_t)*value);
    }
    put(to, "\"");
}

static void put_sample(struct buf *to, const char *name, const char *suffix,
                       const char *const *labels, const char *le, const char *number)
{
    bool any = false;
    put(to, name);
    put(to, suffix);
    for (size_t i = 0; labels && labels[i]; i += 2) {
        put(to, any ? "," : "{");
        put_label(to, labels[i], labels[i + 1]);
        any = true;
    }
    if (le) {
        put(to, any ? "," : "{");
        put_label(to, "le", le);
        any = true;
    }
    put(to, any ? "} " : " ");
    put(to, number);
    put(to, "\n");
}

void metric_count(struct buf *to, const char *name, const char *const *labels, uint64_t value)
{
    char number[NUMBER_MAX];
    (void)snprintf(number, sizeof number, "%" PRIu64, value);
    put_sample(to, name, "", labels, NULL, number);
}

void metric_value(struct buf *to, const char *name, const char *const *labels, double value)
{
    char number[NUMBER_MAX];
    (void)snprintf(number, sizeof number, "%.15g", value);
    put_sample(to, name, "", labels, NULL, number);
}

void metric_histogram(struct buf *to, const char *name, const char *const *labels,
                      const struct histogram_view *h, const struct histogram_scale *scale,
                      double unit)
{
    uint64_t total = 0;
    char number[NUMBER_MAX], bound[NUMBER_MAX];
    for (size_t i = 0; i <= scale->len; i++) {
        bool last = i == scale->len;
        total += h->counts[last ? HISTOGRAM_BOUNDS_MAX : i];
        (void)snprintf(number, sizeof number, "%" PRIu64, total);
        if (!last) (void)snprintf(bound, sizeof bound, "%.15g", (double)scale->bounds[i] / unit);
        put_sample(to, name, "_bucket", labels, last ? "+Inf" : bound, number);
    }
    (void)snprintf(number, sizeof number, "%.15g", (double)h->sum / unit);
    put_sample(to, name, "_sum", labels, NULL, number);
    (void)snprintf(number, sizeof number, "%" PRIu64, total);
    put_sample(to, name, "_count", labels, NULL, number);
}

void metric_gauge(struct buf *to, const char *name, const char *help, double value)
{
    metric_family(to, name, METRIC_GAUGE, help);
    metric_value(to, name, NULL, value);
}

void metric_counter(struct buf *to, const char *name, const char *help, uint64_t value)
{
    metric_family(to, name, METRIC_COUNTER, help);
    metric_count(to, name, NULL, value);
}
