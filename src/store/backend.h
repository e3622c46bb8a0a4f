// SPDX-License-Identifier: Apache-2.0
// Functions that backends and wrappers share: filling an answer, and a log with one object per
// slot.
#pragma once

#include "store/store.h"

// Sets why to one sentence and returns e, so that a refusal is one statement.
enum err answer_refuse(struct store_answer *a, enum err e, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void answer_clear(struct store_answer *a);
struct store_row *answer_row(struct store_answer *a); // appends a zeroed row
void answer_row_key(struct store_answer *a, const char *key, uint64_t size,
                    struct interval modified);

// The log calls, expressed through the object calls of the same store. Slot n of a log is the
// object "<log>/<n, 20 digits>". `ahead` is the largest number of slots that one read fetches.
#define OBJLOG_KEY_MAX (STORE_KEY_MAX + 1)
void objlog_key(char key[OBJLOG_KEY_MAX], const char *log, uint64_t slot);
enum err objlog_append(struct store *s, const char *log, uint64_t slot, struct bytes body,
                       struct store_answer *a);
enum err objlog_read(struct store *s, const char *log, uint64_t slot, size_t bytes_max,
                     size_t ahead, struct store_answer *a);
enum err objlog_extents(struct store *s, const char *log, uint64_t from, size_t limit,
                        struct store_answer *a);
enum err objlog_drop(struct store *s, const char *log, uint64_t first, uint64_t last,
                     struct store_answer *a);
