// SPDX-License-Identifier: Apache-2.0
// One request becomes one store call and one response.
#include "runner/perform.h"

#include "base/check.h"
#include "base/memory.h"

#include <string.h>

void perform_buffer_init(struct perform_buffer *p)
{
    *p = (struct perform_buffer){0};
    store_answer_init(&p->answer);
}

void perform_buffer_done(struct perform_buffer *p)
{
    store_answer_done(&p->answer);
    memory_free(p->rows);
    *p = (struct perform_buffer){0};
}

static enum err delete_keys(struct store *s, const struct request *r, struct store_answer *a)
{
    const char *keys[STORE_LIST_MAX] = {r->key};
    size_t count = r->body.len > 0 ? 0 : 1;
    for (struct reader rest = reader_of(r->body); rest.left > 0; count++) {
        const uint8_t *end = memchr(rest.at, 0, rest.left);
        CHECK(end && count < STORE_LIST_MAX);
        keys[count] = (const char *)read_bytes(&rest, (size_t)(end - rest.at) + 1).data;
    }
    return store_delete(s, keys, count, a);
}

static enum err call(struct store *s, const struct request *r, struct store_answer *a)
{
    enum err err = ERR_OK;
    switch (r->kind) {
    case REQUEST_APPEND:
        if (r->grows) err = store_check_space(s, r->body.len, a);
        return err ? err : store_append(s, r->key, r->first, r->body, a);
    case REQUEST_READ_LOG:
        return store_read_log(s, r->key, r->first, r->limit, a);
    case REQUEST_EXTENTS:
        return store_extents(s, r->key, r->first, r->limit, a);
    case REQUEST_DROP:
        return store_drop(s, r->key, r->first, r->last, a);
    case REQUEST_PUT_NEW:
        return store_put_new(s, r->key, r->body, a);
    case REQUEST_GET:
        return store_get(s, r->key, 0, SIZE_MAX, a);
    case REQUEST_LIST:
        return store_list(s, r->key, r->after, r->limit, a);
    case REQUEST_SEAL:
        return store_seal(s, r->key, a);
    case REQUEST_DELETE:
        return delete_keys(s, r, a);
    }
    CHECK(false); // every kind is above
    return ERR_INVALID;
}

static void view_rows(struct perform_buffer *p, enum request_kind kind)
{
    const struct store_answer *a = &p->answer;
    if (a->rows_len > p->rows_cap) {
        p->rows = memory_resize(p->rows, a->rows_len * sizeof *p->rows);
        p->rows_cap = a->rows_len;
    }
    for (size_t i = 0; i < a->rows_len; i++) {
        struct response_row row = {
            .first = a->rows[i].first, .last = a->rows[i].last, .modified = a->rows[i].modified};
        if (kind == REQUEST_LIST) row.key = store_row_key(a, i);
        if (kind == REQUEST_READ_LOG) row.body = store_row_bytes(a, i);
        p->rows[i] = row;
    }
}

struct response perform(struct store *s, const struct request *r, struct perform_buffer *p)
{
    if (r->fresh) store_distrust(s, r->kind == REQUEST_READ_LOG ? r->key : NULL);
    enum err err = call(s, r, &p->answer);
    view_rows(p, r->kind);
    return (struct response){.id = r->id,
                             .err = err,
                             .time = p->answer.time,
                             .body = buf_bytes(&p->answer.body),
                             .rows = p->rows,
                             .rows_len = p->answer.rows_len,
                             .more = p->answer.more,
                             .tight = p->answer.tight,
                             .cost = p->answer.cost,
                             .why = p->answer.why[0] ? p->answer.why : NULL};
}
