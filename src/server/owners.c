// SPDX-License-Identifier: Apache-2.0
// Keeps the lines of a few queues for a tenth of a second, because a line asks the runner of every
// shard.
#include "server/owners.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/memory.h"
#include "os/clock.h"
#include "os/lock.h"
#include "queues/known_owners.h"
#include "server/inside.h"

#include <string.h>

#define FRESH_MS 100
#define SLOTS    64

struct owners_slot {
    char queue[QUEUE_NAME_MAX + 1]; // "": it is free
    int64_t made_ms;
    struct buf text; // empty: no owner is known
};

struct owners_cache {
    pthread_mutex_t lock;
    struct owners_slot slots[SLOTS]; // by the hash of the name: a queue may displace another one
};

struct owners_cache *owners_shown_new(void)
{
    struct owners_cache *o = NEW(struct owners_cache);
    (void)pthread_mutex_init(&o->lock, NULL);
    for (size_t i = 0; i < SLOTS; i++)
        buf_init(&o->slots[i].text, SIZE_MAX);
    return o;
}

void owners_shown_free(struct owners_cache *o)
{
    if (!o) return;
    for (size_t i = 0; i < SLOTS; i++)
        buf_done(&o->slots[i].text);
    (void)pthread_mutex_destroy(&o->lock);
    memory_free(o);
}

static bool is_fresh(const struct owners_slot *slot, const char *queue, int64_t now)
{
    return strcmp(slot->queue, queue) == 0 && now < slot->made_ms + FRESH_MS;
}

// Returns the line as text that the exchange keeps, or NULL if the client has it already.
static const char *line_for(struct exchange *x, const char *known)
{
    struct owners_cache *o = x->server->owners_shown;
    struct owners_slot *slot = &o->slots[hash64_of(bytes_str(x->queue), 0) % SLOTS];
    char hash[OWNER_MAP_HASH_MAX], *line = NULL;
    int64_t now = clock_boot_ms();
    LOCKED(&o->lock);
    if (!is_fresh(slot, x->queue, now)) {
        buf_clear(&slot->text);
        if (!owner_map_known(x->server->engine, x->queue, &slot->text)) buf_clear(&slot->text);
        memcpy(slot->queue, x->queue, sizeof slot->queue);
        slot->made_ms = now;
    }
    owner_map_hash(buf_bytes(&slot->text), hash);
    if (slot->text.len > 0 && strcmp(hash, known) != 0) {
        line = kept_new(&x->kept, slot->text.len + 1);
        memcpy(line, slot->text.data, slot->text.len);
        line[slot->text.len] = '\0';
    }
    return line;
}

void owners_add(struct exchange *x, struct httpd_answer *a,
                struct httpd_pair headers[OWNERS_HEADERS_MAX])
{
    // Only calls that a node forwards: sends, receives and settles that were admitted.
    bool forwarded = x->route && x->route->row->repeat == REPEAT_ID && *x->queue;
    const char *known = forwarded ? httpd_header(x->http, OWNER_MAP_HEADER) : NULL;
    if (!known || a->status < 200 || a->status >= 300) return;
    const char *line = line_for(x, known);
    if (!line) return;
    CHECK(a->headers_len < OWNERS_HEADERS_MAX);
    for (size_t i = 0; i < a->headers_len; i++)
        headers[i] = a->headers[i];
    headers[a->headers_len++] = (struct httpd_pair){OWNER_MAP_HEADER, line};
    a->headers = headers;
}
