// SPDX-License-Identifier: Apache-2.0
// The box of one worker: its numbers, what is to be written to it, what was handled.
#include "base/check.h"
#include "base/digits.h"
#include "base/memory.h"
#include "mailbox/owner_inside.h"

#include <string.h>

void *owner_grow(void *array, size_t len, size_t *cap, size_t size)
{
    CHECK(len <= *cap);
    if (len < *cap) return array;
    *cap = *cap < 8 ? 8 : *cap * 2;
    return memory_resize(array, *cap * size);
}

static uint64_t instance_of(const char *name)
{
    uint64_t instance = 0;
    for (size_t i = 0; i < 16; i++) {
        int digit = digits_hex_value(name[i]);
        instance = instance << 4 | (uint64_t)(digit < 0 ? 0 : digit);
    }
    return instance;
}

static struct box *box_new(const char *name)
{
    struct box *b = NEW(struct box);
    CHECK(strlen(name) <= MAILBOX_BOX_MAX);
    memcpy(b->name, name, strlen(name) + 1);
    b->instance = instance_of(name);
    b->in_next = 1;
    b->in_first = 1;
    b->beat_at = TIME_UNKNOWN;
    b->newest_at = TIME_UNKNOWN;
    buf_init(&b->rows, MAILBOX_OBJECT_MAX);
    return b;
}

void box_free(struct box *b)
{
    bytes_free(b->worker);
    memory_free(b->handled);
    memory_free(b->tickets);
    buf_done(&b->rows);
    memory_free(b);
}

// Returns the index of the first box whose name is not less.
static size_t box_place(const struct mailbox_owner *o, const char *name)
{
    size_t lo = 0, hi = o->boxes_len;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (strcmp(o->boxes[mid]->name, name) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

struct box *box_find(const struct mailbox_owner *o, const char *name)
{
    size_t at = box_place(o, name);
    return at < o->boxes_len && strcmp(o->boxes[at]->name, name) == 0 ? o->boxes[at] : NULL;
}

size_t box_need(struct mailbox_owner *o, const char *name)
{
    size_t lo = box_place(o, name);
    if (lo < o->boxes_len && strcmp(o->boxes[lo]->name, name) == 0) return lo;
    OWNER_GROW(o->boxes, o->boxes_len, o->boxes_cap);
    memmove(o->boxes + lo + 1, o->boxes + lo, (o->boxes_len - lo) * sizeof *o->boxes);
    o->boxes[lo] = box_new(name);
    o->boxes_len++;
    // The rows of a round name boxes by their index.
    for (size_t i = 0; i < o->reads_len; i++)
        if (o->reads[i].box >= lo) o->reads[i].box++;
    CHECK(o->writes_len == 0);
    return lo;
}

struct box *box_of(struct mailbox_owner *o, struct bytes worker, uint64_t instance)
{
    char name[MAILBOX_BOX_MAX + 1];
    mailbox_box(name, instance, worker);
    size_t at = box_need(o, name);
    struct box *b = o->boxes[at];
    if (b->worker.len == 0) b->worker = bytes_copy(worker);
    CHECK(b->instance == instance);
    return b;
}

bool box_has_handled(const struct box *b, uint64_t number)
{
    for (size_t i = 0; i < b->handled_len; i++)
        if (b->handled[i] == number) return true;
    return false;
}

void box_handled(struct box *b, uint64_t number)
{
    CHECK(!box_has_handled(b, number));
    OWNER_GROW(b->handled, b->handled_len, b->handled_cap);
    b->handled[b->handled_len++] = number;
    if (number > b->out_seen) b->out_seen = number;
    b->reports = true;
}

struct box_ticket *box_ticket_find(struct box *b, const struct lock_ref *ref)
{
    for (size_t i = 0; i < b->tickets_len; i++)
        if (b->tickets[i].ref.seq == ref->seq && hash128_equal(b->tickets[i].ref.token, ref->token))
            return &b->tickets[i];
    return NULL;
}

void box_tickets_drop(struct box *b, uint64_t round)
{
    size_t kept = 0;
    for (size_t i = 0; i < b->tickets_len; i++)
        if (b->tickets[i].round == round) b->tickets[kept++] = b->tickets[i];
    b->tickets_len = kept;
}
