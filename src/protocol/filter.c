// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE // memmem
#include "protocol/filter.h"

#include "protocol/errors.h"

#include <string.h>

bool filter_is_given(const struct sluice_find *f)
{
    return f->headers_len > 0 || (f->contains && *f->contains) || f->before > 0;
}

enum sluice_code filter_check(const struct sluice_find *f, struct sluice_error *error)
{
    size_t len = f->contains ? strlen(f->contains) : 0;
    if (len > SLUICE_FIND_TEXT_MAX)
        return refuse(error, ERR_INVALID, "contains",
                      "contains has %zu bytes; at most %d are allowed", len, SLUICE_FIND_TEXT_MAX);
    if (f->headers_len > SLUICE_FIND_HEADERS_MAX)
        return refuse(error, ERR_INVALID, "header", "%zu headers are given; at most %d are allowed",
                      f->headers_len, SLUICE_FIND_HEADERS_MAX);
    for (size_t i = 0; i < f->headers_len; i++)
        if (!f->headers[i].name || !*f->headers[i].name || !f->headers[i].value)
            return refuse(error, ERR_INVALID, "header",
                          "a header to find has a name and a value: NAME=VALUE");
    if (f->before < 0)
        return refuse(error, ERR_INVALID, "before", "before is negative; it is a time since 1970");
    return SLUICE_OK;
}

static bool has_header(struct bytes headers, const struct sluice_header *wanted)
{
    struct reader r = reader_of(headers);
    struct bytes name, value;
    while (headers_next(&r, &name, &value))
        if (bytes_equal(name, bytes_str(wanted->name)) &&
            bytes_equal(value, bytes_str(wanted->value)))
            return true;
    return false;
}

bool filter_matches_body(const struct sluice_find *f, struct bytes body)
{
    size_t len = f->contains ? strlen(f->contains) : 0;
    return len == 0 || (body.len >= len && memmem(body.data, body.len, f->contains, len));
}

bool filter_matches(const struct sluice_find *f, const struct delivery *d)
{
    if (f->before > 0 && d->sent_at >= f->before) return false;
    for (size_t i = 0; i < f->headers_len; i++)
        if (!has_header(d->message.headers, &f->headers[i])) return false;
    return d->message.reference.name.len > 0 || filter_matches_body(f, d->message.body);
}
