// SPDX-License-Identifier: Apache-2.0
// A log with one object per slot. Zero-padded numbers make the order of the keys the order of the
// slots.
#include "store/backend.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SLOT_DIGITS 20

void objlog_key(char key[OBJLOG_KEY_MAX], const char *log, uint64_t slot)
{
    (void)snprintf(key, OBJLOG_KEY_MAX, "%.*s/%0*" PRIu64, STORE_LOG_MAX, log, SLOT_DIGITS, slot);
}

// Returns the slot of an object of the log; 0 for another object in the same folder.
static uint64_t slot_of(const char *key, size_t log_len)
{
    const char *digits = key + log_len + 1;
    if (strlen(digits) != SLOT_DIGITS) return 0;
    uint64_t slot = 0;
    for (size_t i = 0; i < SLOT_DIGITS; i++) {
        if (digits[i] < '0' || digits[i] > '9') return 0;
        slot = slot * 10 + (uint64_t)(digits[i] - '0');
    }
    return slot;
}

enum err objlog_append(struct store *s, const char *log, uint64_t slot, struct bytes body,
                       struct store_answer *a)
{
    char key[OBJLOG_KEY_MAX];
    objlog_key(key, log, slot);
    return s->ops->put_new(s, key, body, a);
}

enum err objlog_read(struct store *s, const char *log, uint64_t slot, size_t bytes_max,
                     size_t ahead, struct store_answer *a)
{
    for (size_t i = 0; i < ahead; i++) {
        char key[OBJLOG_KEY_MAX];
        objlog_key(key, log, slot + i);
        size_t at = a->body.len;
        enum err e = s->ops->get(s, key, 0, SIZE_MAX, a);
        if (e && i == 0) return e;
        if (e || (i > 0 && a->body.len > bytes_max)) { // the run ends here
            a->body.len = at;
            a->body.bad = false;
            a->why[0] = 0;
            return ERR_OK;
        }
        struct store_row *row = answer_row(a);
        row->first = row->last = slot + i;
        row->size = a->body.len - at;
        row->body_at = at;
        row->modified = a->modified;
    }
    return ERR_OK;
}

// Lists the slots from `from` on. The rows keep their keys.
enum err objlog_extents(struct store *s, const char *log, uint64_t from, size_t limit,
                        struct store_answer *a)
{
    char prefix[OBJLOG_KEY_MAX], after[OBJLOG_KEY_MAX];
    (void)snprintf(prefix, sizeof prefix, "%.*s/", STORE_LOG_MAX, log);
    objlog_key(after, log, from - 1);
    enum err e = s->ops->list(s, prefix, after, limit, a);
    size_t kept = 0;
    for (size_t i = 0; i < a->rows_len; i++) {
        uint64_t slot = slot_of(store_row_key(a, i), strlen(log));
        if (slot == 0) continue;
        struct store_row *row = &a->rows[kept++];
        *row = a->rows[i];
        row->first = row->last = slot;
    }
    a->rows_len = kept;
    return e;
}

static enum err drop_rows(struct store *s, const struct store_answer *found, uint64_t last,
                          struct store_answer *a)
{
    const char *keys[STORE_LIST_MAX];
    size_t count = 0;
    while (count < found->rows_len && found->rows[count].first <= last) {
        keys[count] = store_row_key(found, count);
        count++;
    }
    return count ? s->ops->delete (s, keys, count, a) : ERR_OK;
}

enum err objlog_drop(struct store *s, const char *log, uint64_t first, uint64_t last,
                     struct store_answer *a)
{
    LOCAL(store_answer, found);
    for (bool more = true; more && first <= last;) {
        answer_clear(&found);
        enum err e = objlog_extents(s, log, first, STORE_LIST_MAX, &found);
        a->cost.writes += found.cost.writes;
        if (e) return answer_refuse(a, e, "%s", found.why);
        a->time = found.time;
        e = drop_rows(s, &found, last, a);
        if (e) return e;
        more = found.more && found.rows_len > 0;
        if (more) first = found.rows[found.rows_len - 1].last + 1;
    }
    return ERR_OK;
}
