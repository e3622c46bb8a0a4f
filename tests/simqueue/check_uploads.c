// SPDX-License-Identifier: Apache-2.0
// I8 for large bodies: the object of every unfinished message exists, from the moment it was sent;
// when all is done, the objects of finished messages and those that no client ever sent are gone.
#include "base/hash.h"
#include "check.h"

#include <inttypes.h>
#include <string.h>

struct hash128 body_hash(const struct message *m)
{
    struct body_name name;
    return body_name_parse(m->reference.name, &name) ? name.hash : hash128_of(m->body);
}

uint64_t body_key(const struct message *m)
{
    struct body_name name;
    return body_name_parse(m->reference.name, &name) ? name.random[0] : 0;
}

static bool lives(const struct row *row)
{
    return row->state == STATE_READY || row->state == STATE_LOCKED || row->state == STATE_DEAD ||
           row->state == STATE_OUTBOUND || (row->end_kept && row->body_kept);
}

// It was just taken, or is being delivered.
void check_upload(struct world *w, const struct lane *l, const struct message *m, const char *when)
{
    if (m->reference.name.len == 0) return;
    const struct bucket_object *o = upload_find(l, m->reference.name);
    if (!o || !hash128_equal(hash128_of(o->body), body_hash(m)))
        findings_add(&w->findings, "I8", "lane %u: a body is %s when its message is %s", l->index,
                     o ? "damaged" : "gone", when);
}

void check_deleted(struct reference *g, const char *key)
{
    const char *name = strstr(key, "/data/");
    struct body_name parsed;
    if (!name || !body_name_parse(bytes_str(name + strlen("/data/")), &parsed)) return;
    g->world->life->swept++;
    for (uint64_t i = 0; i < g->rows_len; i++)
        if (g->rows[i].upload == parsed.random[0] && lives(&g->rows[i]))
            findings_add(&g->world->findings, "I8",
                         "lane %u: the body of message %" PRIu64 " (%s) is deleted", g->lane, i + 1,
                         message_state_name(g->rows[i].state));
}

static bool is_referred_to(const struct reference *g, const char *name)
{
    struct body_name parsed;
    if (!body_name_parse(bytes_str(name), &parsed)) return false;
    for (uint64_t i = 0; i < g->rows_len; i++)
        if (g->rows[i].upload == parsed.random[0] && lives(&g->rows[i])) return true;
    return false;
}

uint32_t lane_orphans(const struct lane *l)
{
    uint32_t orphans = 0;
    for (size_t i = 0; i < l->bucket.objects_len; i++) {
        const char *name = strstr(l->bucket.objects[i]->key, "/data/");
        if (name && !is_referred_to(&l->reference, name + strlen("/data/"))) orphans++;
    }
    return orphans;
}
