// SPDX-License-Identifier: Apache-2.0
// The log: one line per event, as logfmt or JSON. It holds no secret and no message body.
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARNING, LOG_ERROR };
enum log_format { LOG_LOGFMT, LOG_JSON };

// A zeroed struct with a descriptor logs everything as logfmt. Level and format may change at any
// time.
struct log {
    _Atomic int level; // lower levels are not written
    _Atomic int format;
    int fd;
};

// A key and one of: text, number, fraction.
struct log_pair {
    const char *key;
    enum log_kind { LOG_KIND_TEXT, LOG_KIND_NUMBER, LOG_KIND_FRACTION } kind;
    const char *text; // any bytes: they are escaped; NULL: the pair is omitted
    int64_t number;
    double fraction;
};
#define LOG_TEXT(name, value)                                                                      \
    {                                                                                              \
        .key = (name), .kind = LOG_KIND_TEXT, .text = (value)                                      \
    }
#define LOG_NUMBER(name, value)                                                                    \
    {                                                                                              \
        .key = (name), .kind = LOG_KIND_NUMBER, .number = (value)                                  \
    }
#define LOG_FRACTION(name, value)                                                                  \
    {                                                                                              \
        .key = (name), .kind = LOG_KIND_FRACTION, .fraction = (value)                              \
    }

void log_write(struct log *log, enum log_level level, const char *event,
               const struct log_pair *pairs, size_t len);
#define LOG(log, level, event, ...)                                                                \
    log_write((log), (level), (event), (const struct log_pair[]){__VA_ARGS__},                     \
              sizeof((const struct log_pair[]){__VA_ARGS__}) / sizeof(struct log_pair))
