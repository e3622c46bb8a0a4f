// SPDX-License-Identifier: Apache-2.0
// Whether a subject matches a filter with "*" and ">", as a server of NATS matches them.
#pragma once

#include "base/bytes.h"

// Takes the next token from the front of *rest. False: there is none.
static inline bool next_token(struct bytes *rest, struct bytes *token)
{
    if (!rest->data) return false;
    const uint8_t *dot = rest->len > 0 ? memchr(rest->data, '.', rest->len) : NULL;
    size_t len = dot ? (size_t)(dot - rest->data) : rest->len;
    *token = bytes_of(rest->data, len);
    *rest = dot ? bytes_of(dot + 1, rest->len - len - 1) : BYTES_EMPTY;
    return true;
}

static inline bool subject_matches(struct bytes filter, struct bytes subject)
{
    struct bytes want, have;
    while (next_token(&filter, &want)) {
        if (!next_token(&subject, &have) || have.len == 0) return false;
        if (want.len == 1 && want.data[0] == '>') return true;
        bool any = want.len == 1 && want.data[0] == '*';
        if (!any && !bytes_equal(want, have)) return false;
    }
    return !next_token(&subject, &have);
}
