// SPDX-License-Identifier: Apache-2.0
// The bus feeds the sources of the hub. A node publishes the events of its shards, and they come
// here before the journal was read. An event has its sequence in its shard. So a source takes the
// next event from the bus or from the journal, whichever has it first, and drops the other one.
// The journal stays the truth: no event is missing if the bus loses one.
//
// While the bus tells the events that the journal has, the source pauses: it looks at the journal
// only now and then. It follows the journal if the bus is away or behind, or if an event is
// missing.
#include "base/check.h"
#include "base/memory.h"
#include "bus/bus.h"
#include "events/envelope.h"
#include "server/hub_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SUBJECTS   "sluice.v1.>"
#define AHEAD_MAX  1024 // events that wait for an earlier one
#define LIFE_LEN   32
// The publisher reads the journal, too, so the bus is behind it by what is under way.
#define BEHIND_MAX 1024

// "<queue id>-<shard>-<slot>-...". A gap event has no slot.
static bool read_id(const char *id, char life[LIFE_LEN + 1], uint32_t *shard, uint64_t *slot)
{
    char *end;
    if (strspn(id, "0123456789abcdef") != LIFE_LEN || id[LIFE_LEN] != '-') return false;
    (void)snprintf(life, LIFE_LEN + 1, "%s", id);
    const char *at = id + LIFE_LEN + 1;
    unsigned long long number = strtoull(at, &end, 10);
    if (end == at || *end != '-' || number > UINT32_MAX) return false;
    *shard = (uint32_t)number;
    at = end + 1;
    if (*at < '0' || *at > '9') return false;
    *slot = strtoull(at, &end, 10);
    return *end == '-' && *slot > 0;
}

static void ahead_free(struct recent *r)
{
    bytes_free(r->data);
}

void source_forget_ahead(struct source *s)
{
    for (size_t i = 0; i < s->ahead_len; i++)
        ahead_free(&s->ahead[i]);
    memory_free(s->ahead);
    s->ahead = NULL;
    s->ahead_len = 0;
}

static void keep_ahead(struct source *s, const struct told *t)
{
    if (s->ahead_len == AHEAD_MAX) source_forget_ahead(s); // the journal has them
    if (!s->ahead) s->ahead = memory_zeroed(AHEAD_MAX, sizeof *s->ahead);
    recent_fill(&s->ahead[s->ahead_len++], t);
}

static bool is_next(const struct source *s, uint32_t shard, uint64_t sequence)
{
    return sequence == s->by_shard[shard].sequence + 1;
}

static void tell_from_bus(struct source *s, struct told *t)
{
    METRICS_ADD(&s->hub->server->metrics, stream_bus, 1);
    source_tell(s, t);
}

// The events of a shard wait in the order of their sequence, so one round is enough.
void source_take_ahead(struct source *s)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->ahead_len; i++) {
        struct recent *r = &s->ahead[i];
        if (is_next(s, r->shard, r->sequence)) {
            struct told t = recent_told(r);
            tell_from_bus(s, &t);
        }
        if (r->sequence <= s->by_shard[r->shard].sequence)
            ahead_free(r);
        else
            s->ahead[kept++] = *r;
    }
    s->ahead_len = kept;
}

// Returns whether the bus has told all that was known when the source paused last, and nearly all
// that is known now.
static bool trusts(const struct source *s)
{
    bool heard = false;
    if (!s->hub->bus_up || s->alone || !s->live || s->ahead_len > 0) return false;
    for (uint32_t i = 0; i < s->shards; i++) {
        const struct source_shard *shard = &s->by_shard[i];
        bool idle = shard->sequence <= shard->since;
        if (shard->heard > shard->sequence) return false; // the journal has what is missing
        if (!idle && shard->heard < shard->needed) return false;
        if (!idle && shard->heard + BEHIND_MAX < shard->sequence) return false;
        heard = heard || shard->heard > shard->since;
    }
    return heard;
}

bool source_may_pause(struct source *s)
{
    if (!trusts(s)) return false;
    for (uint32_t i = 0; i < s->shards; i++)
        s->by_shard[i].needed = s->by_shard[i].sequence;
    return true;
}

// From now on the bus must tell each event.
void source_bus_begins(struct source *s)
{
    for (uint32_t i = 0; i < s->shards; i++) {
        s->by_shard[i].since = s->by_shard[i].needed = s->by_shard[i].sequence;
        s->by_shard[i].heard = 0;
    }
}

// Returns the source if it wants the event. Needs the lock.
static struct source *wanting(struct hub *h, const char *life, uint32_t shard, uint64_t sequence)
{
    struct source *s = source_find_shared(h, life);
    if (!s || !s->live || shard >= s->shards) return NULL;
    if (sequence > s->by_shard[shard].heard) s->by_shard[shard].heard = sequence;
    return sequence > s->by_shard[shard].sequence ? s : NULL;
}

static void take(struct source *s, struct told *t)
{
    if (is_next(s, t->shard, t->sequence)) {
        tell_from_bus(s, t);
        source_take_ahead(s);
        if (t->kind == EVENT_QUEUE_DELETED) task_schedule(&s->task); // the journal knows the end
        return;
    }
    keep_ahead(s, t);
    task_schedule(&s->task); // the journal has the one before
}

// A text that was not UTF-8 is another text now, so a filter may miss it.
static bool is_exact(const char *text)
{
    return !strstr(text, "\xef\xbf\xbd");
}

static void heard(void *ctx, const struct bus_message *m)
{
    struct hub *h = ctx;
    char life[LIFE_LEN + 1], why[ENVELOPE_WHY_MAX];
    struct told t = {0};
    struct envelope_in in;
    const char *id = bus_message_header(m, "ce-id");
    const char *number = bus_message_header(m, "ce-sequence");
    if (!id || !number || !read_id(id, life, &t.shard, &t.place.slot)) return;
    t.sequence = strtoull(number, NULL, 10);
    (void)pthread_mutex_lock(&h->lock);
    bool wanted = wanting(h, life, t.shard, t.sequence) != NULL;
    (void)pthread_mutex_unlock(&h->lock);
    if (!wanted) return; // most events of most nodes
    enum err err = envelope_read(m->body, &in, why);
    const struct envelope *e = &in.envelope;
    if (!err && strcmp(e->event_id, id) == 0 && e->sequence == t.sequence &&
        is_exact(e->workflow_id)) {
        t.data = m->body;
        t.kind = stream_kind_of(e->event_type);
        t.message = e->task_id;
        t.workflow = e->workflow_id;
        t.time = e->timestamp;
        (void)pthread_mutex_lock(&h->lock);
        struct source *s = wanting(h, life, t.shard, t.sequence);
        if (s) take(s, &t);
        (void)pthread_mutex_unlock(&h->lock);
    }
    envelope_in_done(&in);
}

static void changed(void *ctx, bool up)
{
    struct hub *h = ctx;
    (void)pthread_mutex_lock(&h->lock);
    h->bus_up = up;
    for (struct source *s = h->sources; s; s = s->next) {
        source_forget_ahead(s);
        source_bus_begins(s);
        if (s->added && !s->over) task_schedule(&s->task);
    }
    (void)pthread_mutex_unlock(&h->lock);
}

static bool is_wanted(struct hub *h)
{
    bool on = atomic_load(&h->server->flags[CAPABILITY_STREAM]) == ROLLOUT_ON;
    (void)pthread_mutex_lock(&h->lock);
    bool wanted = on && h->sources && h->server->config.bus;
    (void)pthread_mutex_unlock(&h->lock);
    return wanted;
}

void hub_bus_close(struct hub *h)
{
    if (!h->bus) return;
    bus_close(h->bus);
    h->bus = NULL;
    changed(h, false);
}

void hub_bus_look(struct hub *h)
{
    char why[BUS_WHY_MAX], name[NODE_NAME_MAX + 32];
    bool wanted = is_wanted(h);
    if (!wanted) hub_bus_close(h);
    if (!wanted || h->bus) return;
    (void)snprintf(name, sizeof name, "sluice %s stream", h->server->node);
    struct bus_config config = {.url = h->server->config.bus,
                                .name = name,
                                .changed = changed,
                                .listen = SUBJECTS,
                                .heard = heard,
                                .ctx = h};
    if (bus_open(&config, &h->bus, why)) h->bus = NULL; // the next look tries again
}
