// SPDX-License-Identifier: Apache-2.0
// Builds requests and their keys.
#include "journal/open_request.h"

#include "base/check.h"
#include "journal/inside.h"

#include <stdio.h>

void open_request_begin(struct open_request *a, struct journal *j, enum request_kind kind,
                        const char *part, uint64_t number)
{
    CHECK(!a->open);
    CHECK(kind != REQUEST_LIST || number == 0);
    a->open = true;
    a->taken = false;
    a->request = (struct request){.id = j->next_request++, .kind = kind, .key = a->key};
    if (kind == REQUEST_APPEND || kind == REQUEST_PUT_NEW) journal_charge(j, 1);
    const char *prefix = j->config.prefix;
    int len;
    if (kind == REQUEST_LIST) {
        len = snprintf(a->key, sizeof a->key, "%s/%s/", prefix, part);
    } else if (number > 0) {
        len = snprintf(a->key, sizeof a->key, "%s/%s/%020llu", prefix, part,
                       (unsigned long long)number);
    } else {
        len = snprintf(a->key, sizeof a->key, "%s/%s", prefix, part);
    }
    CHECK(len > 0 && (size_t)len < sizeof a->key);
}

bool open_request_take(struct open_request *a, struct request *out)
{
    if (!a->open || a->taken) return false;
    CHECK(a->request.id > 0);
    CHECK(a->request.key == a->key); // the struct stays in its place while a request is open
    a->taken = true;
    *out = a->request;
    return true;
}

bool open_request_is(const struct open_request *a, uint64_t id)
{
    bool is = a->open && a->request.id == id;
    CHECK(!is || a->taken); // the driver answers only what it was given
    return is;
}

void open_request_describe(const struct open_request *a, struct buf *out)
{
    buf_put_u8(out, a->open);
    if (!a->open) return;
    buf_put_u8(out, a->taken);
    buf_put_u8(out, (uint8_t)a->request.kind);
    buf_put_sized(out, bytes_str(a->key));
    buf_put_u64(out, a->request.first);
    buf_put_u64(out, a->request.last);
}
