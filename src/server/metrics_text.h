// SPDX-License-Identifier: Apache-2.0
// Prometheus' text format, 0.0.4.
#pragma once

#include "base/bytes.h"
#include "base/histogram.h"

#define METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

enum metric_kind { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };
// Once, before the samples of that name.
void metric_family(struct buf *to, const char *name, enum metric_kind kind, const char *help);

// Labels are pairs of name and value, up to a NULL; values are escaped. NULL: none.
void metric_count(struct buf *to, const char *name, const char *const *labels, uint64_t value);
void metric_value(struct buf *to, const char *name, const char *const *labels, double value);
// Values are divided by unit: 1e9 for nanoseconds shown in seconds.
void metric_histogram(struct buf *to, const char *name, const char *const *labels,
                      const struct histogram_view *h, const struct histogram_scale *scale,
                      double unit);
#define LABELS(...) ((const char *const[]){__VA_ARGS__, NULL})
// A metric with one value and no labels.
void metric_gauge(struct buf *to, const char *name, const char *help, double value);
void metric_counter(struct buf *to, const char *name, const char *help, uint64_t value);
