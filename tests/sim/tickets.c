// SPDX-License-Identifier: Apache-2.0
// Two growing arrays.
#include "tickets.h"

#include "base/check.h"
#include "base/memory.h"

#include <string.h>

void tickets_init(struct tickets *t)
{
    *t = (struct tickets){0};
}

void tickets_done(struct tickets *t)
{
    memory_free(t->rows);
    memory_free(t->asks);
}

uint64_t tickets_push(struct tickets *t, const struct ticket *row)
{
    if (t->len == t->cap) {
        t->cap = t->cap ? t->cap * 2 : 16;
        t->rows = memory_resize(t->rows, t->cap * sizeof *t->rows);
    }
    t->rows[t->len++] = *row;
    return t->len;
}

struct ticket *tickets_at(struct tickets *t, uint64_t ticket)
{
    return ticket == 0 || ticket > t->len ? NULL : &t->rows[ticket - 1];
}

uint32_t asks_push(struct tickets *t, const struct ask *ask)
{
    if (t->asks_len == t->asks_cap) {
        t->asks_cap = t->asks_cap ? t->asks_cap * 2 : 16;
        t->asks = memory_resize(t->asks, t->asks_cap * sizeof *t->asks);
    }
    t->asks[t->asks_len++] = *ask;
    return (uint32_t)(t->asks_len - 1);
}

void ask_name(struct ask *ask, uint32_t place, uint64_t chance)
{
    memset(ask->what.request, 0, REGISTER_REQUEST_LEN);
    memcpy(ask->what.request, &chance, sizeof chance);
    memcpy(ask->what.request + sizeof chance, &place, sizeof place);
}

struct ask *asks_find(struct tickets *t, const uint8_t request[REGISTER_REQUEST_LEN])
{
    uint32_t place;
    memcpy(&place, request + sizeof(uint64_t), sizeof place);
    if (place >= t->asks_len) return NULL;
    struct ask *ask = &t->asks[place];
    return memcmp(ask->what.request, request, REGISTER_REQUEST_LEN) == 0 ? ask : NULL;
}
