// SPDX-License-Identifier: Apache-2.0
// Any headers of messages of a bus, between reads of a journal: the reader looks only where the bus
// named an event, and never sleeps while the bus named one that it has not read.
#include "base/check.h"
#include "events/bus_progress.h"
#include "fuzz.h"

#include <stdio.h>
#include <string.h>

#define SHARDS 3
#define TEXT   96

// Takes a text up to its zero.
static void take_text(struct bytes *from, char out[TEXT])
{
    size_t len = 0;
    while (len < from->len && from->data[len] != 0)
        len++;
    (void)snprintf(out, TEXT, "%.*s", (int)(len < TEXT ? len : TEXT), (const char *)from->data);
    size_t used = len < from->len ? len + 1 : len;
    *from = bytes_of(from->data + used, from->len - used);
}

static void named(struct bus_progress *p, struct bytes *from)
{
    char id[TEXT], sequence[TEXT];
    struct event_ref e;
    take_text(from, id);
    take_text(from, sequence);
    if (!event_ref_read(id, sequence, &e)) return;
    CHECK(strlen(e.life) == EVENT_REF_LIFE && e.sequence > 0);
    bool news = bus_progress_named(p, e.shard, e.sequence);
    CHECK(!news || (e.shard < SHARDS && e.sequence > p->by_shard[e.shard].read));
}

static void next(struct bus_progress *p, bool found)
{
    uint32_t shard = UINT32_MAX;
    enum bus_progress_next next = bus_progress_next(p, found, &shard);
    if (next == BUS_PROGRESS_LOOK)
        CHECK(found && shard < SHARDS && p->by_shard[shard].named > p->by_shard[shard].read);
    for (uint32_t i = 0; next == BUS_PROGRESS_SLEEP && i < SHARDS; i++)
        CHECK(p->up && p->by_shard[i].named <= p->by_shard[i].read);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct bus_progress p;
    struct bytes from = bytes_of(data, len);
    bus_progress_init(&p, SHARDS);
    while (from.len > 0) {
        uint8_t op = from.data[0];
        uint32_t shard = op / 8 % SHARDS;
        from = bytes_of(from.data + 1, from.len - 1);
        if (op % 8 == 0) bus_progress_begin(&p, op & 8);
        if (op % 8 == 1) bus_progress_read(&p, shard, p.by_shard[shard].read + op / 32);
        if (op % 8 == 2) next(&p, op & 8);
        if (op % 8 > 2) named(&p, &from);
    }
    bus_progress_done(&p);
    return 0;
}
