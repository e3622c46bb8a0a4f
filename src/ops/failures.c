// SPDX-License-Identifier: Apache-2.0
// The failures of a message. One allocation holds the rows and their texts.
#include "ops/failures.h"

#include "base/array.h"
#include "base/memory.h"

void failures_init(struct failure_rows *f, size_t messages)
{
    *f = (struct failure_rows){.ends = memory_zeroed(messages, sizeof *f->ends)};
    buf_init(&f->names, SIZE_MAX);
}

void failures_done(struct failure_rows *f)
{
    memory_free(f->rows);
    memory_free(f->ends);
    buf_done(&f->names);
}

// Stores the worker's name as an offset into f->names, because f->names may still move.
static void add_row(struct failure_rows *f, const struct failure_view *v)
{
    struct failure_view *row = ARRAY_ADD(f->rows, f->len, f->cap);
    *row = *v;
    row->worker.data = (const uint8_t *)(uintptr_t)f->names.len;
    buf_put(&f->names, v->worker);
}

void failures_see(struct failure_rows *f, const struct machine *m, int64_t now,
                  const struct message_view *views, size_t len, bool all)
{
    struct failure_view rows[FAILURES_KEPT + 1];
    for (size_t i = 0; i < len; i++) {
        size_t count = machine_failures(m, views[i].seq, now, rows);
        for (size_t j = all || count == 0 ? 0 : count - 1; j < count; j++)
            add_row(f, &rows[j]);
        f->ends[i] = f->len;
    }
    for (size_t i = 0; i < f->len; i++) {
        struct bytes *name = &f->rows[i].worker;
        *name = name->len > 0 ? bytes_of(f->names.data + (uintptr_t)name->data, name->len)
                              : BYTES_EMPTY;
    }
}

static size_t begin_of(const struct failure_rows *f, size_t index)
{
    return index > 0 ? f->ends[index - 1] : 0;
}

static size_t end_of(const struct failure_rows *f, size_t first, size_t count)
{
    return count > 0 ? f->ends[first + count - 1] : begin_of(f, first);
}

struct reason_place *failures_reasons(const struct failure_rows *f, size_t first, size_t count,
                                      size_t *len)
{
    size_t at = begin_of(f, first), end = end_of(f, first, count);
    struct reason_place *places = memory_zeroed(end - at, sizeof *places);
    *len = 0;
    for (; at < end; at++)
        if (f->rows[at].kind == FAILURE_FAILED)
            places[(*len)++] =
                (struct reason_place){.slot = f->rows[at].slot, .op = f->rows[at].op};
    return places;
}

uint64_t failures_weight(const struct failure_rows *f, size_t first, size_t count,
                         const struct kept_reply *a)
{
    uint64_t weight = 0;
    for (size_t at = begin_of(f, first); at < end_of(f, first, count); at++)
        weight += sizeof(struct sluice_failure) + f->rows[at].worker.len;
    for (size_t i = 0; i < a->reasons_len; i++)
        weight += a->reasons[i].text.len;
    return weight;
}

// NULL: the journal does not keep the reason any more.
static const char *put_reason(char **at, enum failure_kind kind, const struct reason_text *reason)
{
    if (kind == FAILURE_EXPIRED) return failure_kind_name(kind);
    return reason->kept ? text_append(at, reason->text) : NULL;
}

void failures_attach(const struct failure_rows *f, size_t index, const struct reason_text **reasons,
                     struct sluice_message *to)
{
    size_t len = f->ends[index] - begin_of(f, index), text = 0, read = 0;
    if (len == 0) return;
    const struct failure_view *rows = f->rows + begin_of(f, index);
    for (size_t i = 0; i < len; i++) {
        text += rows[i].worker.len + 1;
        if (rows[i].kind == FAILURE_FAILED) text += (*reasons)[read++].text.len + 1;
    }
    if (!to && read > 0) *reasons += read; // without any there may be no list
    if (!to) return;
    struct sluice_failure *block = memory_new(len * sizeof *block + text);
    char *at = (char *)(block + len);
    for (size_t i = 0; i < len; i++) {
        block[i] = (struct sluice_failure){.attempt = rows[i].attempt,
                                           .at = rows[i].at,
                                           .worker = text_append(&at, rows[i].worker),
                                           .kind = failure_kind_name(rows[i].kind)};
        block[i].reason = put_reason(&at, rows[i].kind, *reasons);
        if (rows[i].kind == FAILURE_FAILED) ++*reasons;
    }
    to->failures = block;
    to->failures_len = len;
}
