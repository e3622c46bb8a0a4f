// SPDX-License-Identifier: Apache-2.0
#include "events/publisher.h"

#include "base/array.h"
#include "base/check.h"
#include "base/memory.h"
#include "base/mutant.h"

#define KEPT_MAX      256 // acknowledged events of workflows
#define MARKS         32  // of the cursor's past
#define SEQUENCE_BITS 40  // of a tag; the rest is the era
#define SEQUENCE_MASK ((UINT64_C(1) << SEQUENCE_BITS) - 1)

enum state { IDLE, SYNCING, RUNNING };

struct item {
    struct publisher_item item; // its content is owned
    int64_t sent_at;
    uint64_t number; // in the stream, once it is acknowledged
    bool sent;       // in this era
    bool acked;      // in this era
};

// How far the acknowledgements were at some time.
struct mark {
    int64_t at;
    struct publisher_cursor cursor;
    uint64_t stream; // the highest number in the stream of an acknowledged event
    uint64_t number; // ... of those that are forgotten
};

struct publisher {
    struct publisher_config config;
    struct rng rng;
    enum state state;
    bool up;
    bool asked;     // SYNC is under way
    bool fresh;     // the stream was not asked since the shard was taken
    bool rewind;    // the reader must begin again
    bool begins;    // the shard was never published: older events are not missing
    bool waits;     // the fold has no cursor yet, so no floor waits
    bool announces; // ... and `start` is to be committed
    bool alone;     // what is in flight is a gap event
    bool probing;   // fenced: the next event may be in the stream; send one at a time
    uint64_t era;   // answers of an earlier era do not count
    uint32_t failures;
    int64_t retry_at;
    struct publisher_cursor durable, start;
    uint64_t acked;       // all events up to this sequence are acknowledged
    uint64_t certain;     // ... and, up to this one, a later sync can tell whether they were lost
    uint64_t number;      // in the stream: the highest of these
    uint64_t stream;      // the highest number of an acknowledged message
    uint64_t stream_last; // fenced: expected by the next publish
    uint64_t heal_from;   // the stream lost what is above this sequence; UINT64_MAX: no
    uint64_t fed;         // the last sequence that the reader gave; 0: none since the rewind
    uint64_t read;        // the last sequence that it read
    uint64_t fed_slot;    // ... and the slot
    struct item *items;   // [head, len): those above `certain`
    size_t head, len, cap;
    size_t first; // that is not acknowledged
    size_t next;  // that was not sent in this era
    size_t in_flight;
    struct mark marks[MARKS]; // a ring, the oldest at `oldest`
    size_t oldest, marks_len;
    struct publisher_status counts;
};

struct publisher *publisher_new(const struct publisher_config *config)
{
    struct publisher *p = NEW(struct publisher);
    p->config = *config;
    if (p->config.window == 0) p->config.window = PUBLISHER_WINDOW;
    if (p->config.ack_ms == 0) p->config.ack_ms = PUBLISHER_ACK_MS;
    if (p->config.settle_ms < 0) p->config.settle_ms = PUBLISHER_SETTLE_MS;
    p->heal_from = UINT64_MAX;
    rng_init(&p->rng, config->seed);
    return p;
}

static void drop_items(struct publisher *p)
{
    for (size_t i = p->head; i < p->len; i++)
        bytes_free(p->items[i].item.content);
    p->head = p->first = p->len = p->next = p->in_flight = 0;
}

void publisher_free(struct publisher *p)
{
    if (!p) return;
    drop_items(p);
    memory_free(p->items);
    memory_free(p);
}

// Asks the stream again. What was sent and not acknowledged will be sent again.
static void resync(struct publisher *p, int64_t now, enum err why)
{
    CHECK(p->state != IDLE);
    int64_t most = PUBLISHER_BACKOFF_MIN_MS;
    for (uint32_t i = 1; i < p->failures && most < PUBLISHER_BACKOFF_MAX_MS; i++)
        most *= 2;
    if (most > PUBLISHER_BACKOFF_MAX_MS) most = PUBLISHER_BACKOFF_MAX_MS;
    p->retry_at = p->failures > 0 ? now + rng_range(&p->rng, most / 2, most) : now;
    p->failures++;
    p->state = SYNCING;
    p->asked = false;
    p->era++;
    p->next = p->first = p->head;
    p->in_flight = 0;
    p->acked = p->certain;
    for (size_t i = p->head; i < p->len; i++)
        p->items[i].sent = p->items[i].acked = false;
    p->counts.retries++;
    if (why) p->counts.last_error = why;
}

void publisher_own(struct publisher *p, int64_t now, const struct publisher_cursor *durable)
{
    CHECK(p->state == IDLE && p->head == p->len);
    p->begins = p->waits = !durable;
    p->announces = false;
    p->durable = durable ? *durable : (struct publisher_cursor){0, 0};
    p->acked = p->certain = p->fed = p->read = p->fed_slot = p->stream = p->number = 0;
    p->oldest = p->marks_len = 0;
    p->fresh = true;
    p->heal_from = UINT64_MAX;
    p->failures = 0;
    p->state = SYNCING;
    p->counts.last_error = ERR_OK;
    resync(p, now, ERR_OK);
}

void publisher_lose(struct publisher *p)
{
    drop_items(p);
    p->state = IDLE;
    p->era++;
}

void publisher_bus(struct publisher *p, int64_t now, bool up)
{
    p->up = up;
    if (up) p->failures = 0;
    if (p->state != IDLE) resync(p, now, up ? ERR_OK : ERR_UNAVAILABLE);
}

// The newest event that certainly was in the stream before message number `stream`.
static uint64_t known_before(const struct publisher *p, uint64_t stream)
{
    for (size_t i = p->marks_len; i > 0; i--) {
        const struct mark *m = &p->marks[(p->oldest + i - 1) % MARKS];
        if (m->stream < stream) return m->cursor.sequence;
    }
    return p->durable.sequence;
}

// Everything up to the answer is on the stream. Without a fence, an event can be stored before an
// earlier one, but not before one that left the window.
static uint64_t position_of(const struct publisher *p, const struct publisher_tail *tail)
{
    uint64_t slack = p->config.fenced ? 0 : p->config.window;
    uint64_t base = tail->sequence > slack ? tail->sequence - slack : 0;
    uint64_t known = p->fresh ? p->durable.sequence : p->certain;
    bool healing = p->heal_from != UINT64_MAX;
    if (MUTANT(PUBLISHER_TAIL_TRUSTED)) return known;
    if (tail->sequence == 0 && tail->trimmed && !healing) return known;
    if (!p->fresh && !healing && tail->number >= p->number) return p->certain;
    if (p->heal_from < base) base = p->heal_from;
    return p->fresh || base < p->certain ? base : p->certain;
}

void publisher_synced(struct publisher *p, int64_t now, uint64_t tag,
                      const struct publisher_tail *tail)
{
    if (p->state != SYNCING || !p->asked || tag != p->era) return;
    p->asked = false;
    if (tail->err) {
        resync(p, now, tail->err);
        return;
    }
    uint64_t position = position_of(p, tail);
    bool lost = !p->fresh && position < p->certain;
    if (lost) p->counts.healed++;
    if (p->fresh || lost) {
        p->rewind = true;
        p->begins = p->begins && tail->sequence == 0;
        drop_items(p);
        p->fed = p->read = p->fed_slot = 0;
        p->stream = p->number = tail->number;
        p->marks_len = 0; // what they say may be lost
    }
    p->acked = p->certain = position;
    CHECK(p->head == p->len || p->items[p->head].item.sequence > position);
    p->fresh = false;
    p->heal_from = UINT64_MAX;
    p->stream_last = tail->stream_last;
    p->probing = p->config.fenced;
    p->state = RUNNING;
}

static struct publisher_cursor position(const struct publisher *p)
{
    if (MUTANT(PUBLISHER_CURSOR_EARLY) && p->fed > p->acked)
        return (struct publisher_cursor){p->fed_slot, p->fed};
    if (p->first < p->len)
        return (struct publisher_cursor){p->items[p->first].item.slot - 1, p->acked};
    return (struct publisher_cursor){p->fed_slot, p->acked < p->read ? p->acked : p->read};
}

// Remembers how far the acknowledgements are, at most MARKS times in settle_ms.
static void mark(struct publisher *p, int64_t now)
{
    struct mark *last = p->marks_len > 0 ? &p->marks[(p->oldest + p->marks_len - 1) % MARKS] : NULL;
    int64_t apart = p->config.settle_ms / (MARKS - 2) + 1;
    struct mark m = {.at = now, .cursor = position(p), .stream = p->stream, .number = p->number};
    if (m.cursor.slot == 0) return; // nothing was read yet
    if (last && (now - last->at < apart || last->cursor.sequence >= m.cursor.sequence)) return;
    if (p->marks_len == MARKS) {
        p->oldest = (p->oldest + 1) % MARKS;
        p->marks_len--;
    }
    p->marks[(p->oldest + p->marks_len++) % MARKS] = m;
}

static bool timed_out(const struct publisher *p, int64_t now)
{
    for (size_t i = p->first; p->in_flight > 0 && i < p->next; i++)
        if (p->items[i].sent && !p->items[i].acked)
            return now - p->items[i].sent_at >= p->config.ack_ms; // the oldest
    return false;
}

static bool send_one(struct publisher *p, int64_t now, struct publisher_effect *out)
{
    size_t most = p->probing ? 1 : MUTANT(PUBLISHER_WINDOW_OFF) ? SIZE_MAX : p->config.window;
    while (p->next < p->len && p->items[p->next].acked)
        p->next++;
    // The window counts events from the first that is not acknowledged.
    if (p->next == p->len || p->in_flight >= most || p->next - p->first >= most) return false;
    struct item *i = &p->items[p->next];
    // A gap event stands for more events than a window has, so it is alone in it.
    if (p->in_flight > 0 && (i->item.missing > 0 || p->alone)) return false;
    p->alone = i->item.missing > 0;
    p->next++;
    i->sent = true;
    i->sent_at = now;
    p->in_flight++;
    *out = (struct publisher_effect){.kind = PUBLISHER_PUBLISH,
                                     .tag = p->era << SEQUENCE_BITS | i->item.sequence,
                                     .content = i->item.content,
                                     .sequence = i->item.sequence,
                                     .fenced = p->config.fenced,
                                     .stream_last = p->stream_last};
    if (!p->probing) p->stream_last++;
    return true;
}

bool publisher_next(struct publisher *p, int64_t now, struct publisher_effect *out)
{
    if (p->state == IDLE || !p->up) return false;
    if (p->state == RUNNING && timed_out(p, now)) resync(p, now, ERR_UNKNOWN);
    if (p->state == RUNNING && !p->rewind) mark(p, now);
    if (p->state == SYNCING) {
        if (p->asked || now < p->retry_at) return false;
        p->asked = true;
        *out = (struct publisher_effect){.kind = PUBLISHER_SYNC, .tag = p->era};
        return true;
    }
    if (p->rewind) {
        p->rewind = false;
        *out = (struct publisher_effect){.kind = PUBLISHER_REWIND};
        return true;
    }
    return send_one(p, now, out);
}

int64_t publisher_wake_at(const struct publisher *p)
{
    if (p->state == IDLE || !p->up) return INT64_MAX;
    bool asked = p->asked && !MUTANT(PUBLISHER_WAKES_PAST);
    if (p->state == SYNCING) return asked ? INT64_MAX : p->retry_at;
    for (size_t i = p->first; p->in_flight > 0 && i < p->next; i++)
        if (p->items[i].sent && !p->items[i].acked) return p->items[i].sent_at + p->config.ack_ms;
    return INT64_MAX;
}

static struct item *find(struct publisher *p, uint64_t sequence)
{
    size_t lo = p->head, hi = p->len;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (p->items[mid].item.sequence < sequence)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < p->len && p->items[lo].item.sequence == sequence ? &p->items[lo] : NULL;
}

// Forgets what is acknowledged, up to an event that a sync can find and behind which the stream
// has none of them. What stays are a few events of workflows.
static void advance(struct publisher *p)
{
    size_t keep = p->head;
    uint64_t number = p->number, any = p->number;
    p->first = p->head;
    for (; p->first < p->len && p->items[p->first].acked; p->first++) {
        const struct item *i = &p->items[p->first];
        p->acked = i->item.sequence;
        if (i->number > any) any = i->number;
        if (i->item.in_tail && i->number > number) number = i->number;
        if (number >= any || p->first - p->head > KEPT_MAX) keep = p->first + 1;
        if (keep == p->first + 1) p->number = number;
    }
    while (p->head < keep) {
        struct item *i = &p->items[p->head++];
        CHECK(i->item.sequence > p->certain);
        p->certain = i->item.sequence;
        bytes_free(i->item.content);
    }
    if (p->next < p->head) p->next = p->head;
    if (p->head == p->len) p->head = p->first = p->len = p->next = 0;
}

// The stream's numbers only rise. One that is not above an old mark's shows that the stream lost
// messages.
static bool shows_loss(struct publisher *p, const struct publisher_answer *a)
{
    if (a->duplicate || p->marks_len == 0) return false;
    const struct mark *newest = &p->marks[(p->oldest + p->marks_len - 1) % MARKS];
    if (a->sequence > newest->number) return false;
    p->heal_from = known_before(p, a->sequence);
    return true;
}

static void take_ack(struct publisher *p, int64_t now, struct item *i,
                     const struct publisher_answer *a)
{
    CHECK(i->sent && p->in_flight > 0);
    i->acked = true;
    i->number = a->sequence;
    p->in_flight--;
    p->failures = 0;
    p->counts.last_error = ERR_OK;
    if (a->duplicate)
        p->counts.repeated++;
    else
        p->counts.published++;
    p->counts.dropped += i->item.missing;
    if (a->sequence > p->stream) p->stream = a->sequence;
    if (p->probing && !a->duplicate) {
        p->probing = false;
        p->stream_last = a->sequence;
    }
    advance(p);
    mark(p, now);
}

void publisher_ack(struct publisher *p, int64_t now, uint64_t tag, const struct publisher_answer *a)
{
    bool current = tag >> SEQUENCE_BITS == (p->era & (UINT64_MAX >> SEQUENCE_BITS));
    if (p->state != RUNNING || !current) return;
    struct item *i = find(p, tag & SEQUENCE_MASK);
    if (!i || !i->sent || i->acked) return;
    if (a->err)
        resync(p, now, a->err);
    else if (shows_loss(p, a))
        resync(p, now, ERR_OK);
    else
        take_ack(p, now, i, a);
}

void publisher_refused(struct publisher *p, int64_t now, uint64_t tag)
{
    publisher_ack(p, now, tag, &(struct publisher_answer){.err = ERR_UNAVAILABLE});
}

bool publisher_wants_more(const struct publisher *p)
{
    return p->state == RUNNING && !p->rewind && p->len - p->first < p->config.window;
}

static uint64_t last_known(const struct publisher *p)
{
    return p->fed > p->certain ? p->fed : p->certain;
}

bool publisher_wants(const struct publisher *p, uint64_t event)
{
    return p->state != IDLE && event > last_known(p);
}

bool publisher_gap(struct publisher *p, uint64_t event, uint64_t *first, uint64_t *last)
{
    CHECK(publisher_wants(p, event));
    bool silent = p->begins || MUTANT(PUBLISHER_GAP_SILENT);
    if (silent && p->head == p->len) p->acked = p->certain = event - 1;
    *first = last_known(p) + 1;
    *last = event - 1;
    return *first <= *last;
}

void publisher_feed(struct publisher *p, const struct publisher_item *item)
{
    CHECK(item->sequence > last_known(p) && item->sequence <= SEQUENCE_MASK && item->slot > 0);
    if (p->len == p->cap && p->head > p->len / 2) {
        memmove(p->items, p->items + p->head, (p->len - p->head) * sizeof *p->items);
        p->next -= p->head;
        p->first -= p->head;
        p->len -= p->head;
        p->head = 0;
    }
    struct item *added = ARRAY_ADD(p->items, p->len, p->cap);
    *added = (struct item){.item = *item};
    added->item.content = bytes_copy(item->content);
    // The stream may have events already, of a node that published without a cursor.
    if (p->waits) p->start = (struct publisher_cursor){item->slot - 1, item->sequence - 1};
    p->announces = p->announces || p->waits;
    p->begins = p->waits = false;
    p->fed = item->sequence;
}

void publisher_fed(struct publisher *p, uint64_t slot, uint64_t sequence)
{
    if (slot > p->fed_slot) p->fed_slot = slot;
    if (sequence > p->read) p->read = sequence;
}

bool publisher_cursor(const struct publisher *p, int64_t now, struct publisher_cursor *out)
{
    bool found = false;
    if (p->state == IDLE) return false;
    if (p->announces) *out = p->start;
    if (p->announces) return true;
    if (p->state != RUNNING) return false; // the stream may have lost what the marks say
    for (size_t i = p->marks_len; i > 0 && !found; i--) {
        const struct mark *m = &p->marks[(p->oldest + i - 1) % MARKS];
        found = MUTANT(PUBLISHER_SETTLE_OFF) || now - m->at >= p->config.settle_ms;
        if (found) *out = m->cursor;
    }
    return found && (out->slot > p->durable.slot || out->sequence > p->durable.sequence);
}

void publisher_committed(struct publisher *p, struct publisher_cursor durable)
{
    p->announces = false;
    if (durable.slot > p->durable.slot) p->durable.slot = durable.slot;
    if (durable.sequence > p->durable.sequence) p->durable.sequence = durable.sequence;
}

struct publisher_status publisher_status(const struct publisher *p)
{
    struct publisher_status s = p->counts;
    s.owns = p->state != IDLE;
    s.running = p->state == RUNNING && p->up;
    s.acked = p->acked;
    s.waiting = p->len - p->first;
    s.oldest_at = p->first < p->len ? p->items[p->first].item.at : 0;
    return s;
}
