// SPDX-License-Identifier: Apache-2.0
// Calls that wait for signals, and the signals that come with other answers. A call that waits
// watches its messages: a map by number leads from a message that changed (queue/tables/changes.h)
// to the calls that wait for it. So a commit costs nothing for the messages that it does not
// concern, however many are watched.
#include "base/array.h"
#include "base/check.h"
#include "base/memory.h"
#include "base/mutant.h"
#include "shard/inside.h"

#include <stdlib.h>
#include <string.h>

void signals_free(struct shard_call_signals *signals)
{
    if (!signals) return;
    CHECK(signals->len <= signals->cap);
    memory_free(signals->watches); // the shard's rows are freed with it
    memory_free(signals->rows);
    memory_free(signals->asks);
    memory_free(signals->questions);
    memory_free(signals->hits);
    memory_free(signals);
}

static struct shard_call_signals *signals_need(struct shard_call *c)
{
    if (!c->signals) c->signals = NEW(struct shard_call_signals);
    return c->signals;
}

void signals_tell(const struct shard_call *c, struct shard_reply *out)
{
    CHECK(c->signals);
    out->signals = c->signals->rows;
    out->signals_len = c->signals->len;
    out->reasons_len = 0; // they are the texts of the signals
}

static struct signal_delivery *row_add(struct shard_call_signals *l)
{
    struct signal_delivery *row = ARRAY_ADD(l->rows, l->len, l->cap);
    *row = (struct signal_delivery){0};
    return row;
}

// Where the text of the row is; slot 0: it has none.
static struct reason_place text_place(const struct signal_delivery *row)
{
    bool pending = row->view.state == SIGNAL_PENDING;
    struct op_place at = pending ? row->view.carried : row->view.answer;
    CHECK(row->view.seq > 0);
    return (struct reason_place){.slot = at.slot, .op = at.op, .index = at.index};
}

static bool has_text(const struct signal_delivery *row)
{
    return row->reason == REASON_NONE && row->view.seq > 0 && text_place(row).slot > 0;
}

// The call reads the texts of its rows next.
static void want_texts(struct shard_call *c)
{
    const struct shard_call_signals *l = c->signals;
    CHECK(!c->reason_places && c->reason_places_len == 0);
    c->reason_places = memory_zeroed(l->len, sizeof *c->reason_places);
    c->reasons = memory_zeroed(l->len, sizeof *c->reasons);
    for (size_t i = 0; i < l->len; i++)
        if (has_text(&l->rows[i]))
            c->reason_places[c->reason_places_len++] = text_place(&l->rows[i]);
}

void listen_fetched(struct shard_call *c)
{
    struct shard_call_signals *l = c->signals;
    size_t next = 0;
    for (size_t i = 0; i < l->len; i++) {
        if (!has_text(&l->rows[i])) continue;
        CHECK(next < c->reasons_found);
        l->rows[i].text = c->reasons[next].text;
        l->rows[i].kept = c->reasons[next++].kept;
    }
}

// Adds up to max signals for the holder of a lock that is in force.
static void add_views(const struct shard *s, struct shard_call_signals *l,
                      const struct listen_ask *ask, uint32_t index, size_t max)
{
    size_t len;
    CLEANUP(memory_let_go) struct signal_view *views = memory_new((max + 1) * sizeof *views);
    CHECK(machine_signals(s->machine, &ask->ref, ask->after, views, max, &len) == REASON_NONE);
    for (size_t i = 0; i < len; i++) {
        struct signal_delivery *row = row_add(l);
        row->index = index;
        row->view = views[i];
    }
}

void signals_of_grants(struct shard *s, struct shard_call *c)
{
    if (machine_signal_count(s->machine) == 0) return;
    for (size_t i = 0; i < c->grants_len; i++) {
        const struct grant *g = &c->grants[i];
        struct lock_ref ref = {.seq = g->seq, .token = g->token};
        CHECK(g->seq > 0);
        if (machine_signals_waiting(s->machine, &ref) == 0) continue;
        struct shard_call_signals *l = signals_need(c);
        if (l->len == SIGNALS_ANSWER_MAX) break; // a poll brings the others
        add_views(s, l, &(struct listen_ask){.ref = ref}, (uint32_t)i, SIGNALS_ANSWER_MAX - l->len);
    }
    if (c->signals) want_texts(c);
}

void signals_of_renewal(struct shard *s, struct shard_call *c)
{
    struct op_outcome renewal;
    CHECK(c->kind == OP_RENEW);
    if (machine_signal_count(s->machine) == 0 || outcome_decode(c->payload, &renewal)) return;
    for (uint32_t i = 0; i < renewal.count; i++) {
        struct lock_ref ref = outcome_ref(&renewal, i);
        uint32_t waiting = machine_signals_waiting(s->machine, &ref);
        if (waiting == 0) continue;
        struct signal_delivery *row = row_add(signals_need(c));
        row->index = i;
        row->waiting = waiting;
    }
}

static void watch_add(struct shard *s, struct shard_call *c, uint32_t ask)
{
    uint32_t w = SLAB_ADD(&s->watch_slab, s->watches);
    uint64_t seq = c->signals->asks[ask].ref.seq;
    s->watches[w] = (struct signal_watch){.seq = seq, .call = c, .ask = ask};
    c->signals->watches[ask] = w;
    map_add(&s->watched, seq, w);
    CHECK(s->watched.len == s->watch_slab.used);
}

static void watch_begin(struct shard *s, struct shard_call *c)
{
    struct shard_call_signals *l = c->signals;
    CHECK(!l->watches);
    if (s->watch_slab.used == 0) {
        machine_note_changes(s->machine, true);
        s->changes_seen = machine_changes(s->machine);
    }
    l->watches = memory_zeroed(l->asks_len + 1, sizeof *l->watches);
    for (size_t i = 0; i < l->asks_len; i++)
        watch_add(s, c, (uint32_t)i);
}

static void watch_end(struct shard *s, struct shard_call *c)
{
    struct shard_call_signals *l = c->signals;
    CHECK(l->watches && s->watch_slab.used >= l->asks_len);
    for (size_t i = 0; i < l->asks_len; i++) {
        uint32_t w = l->watches[i];
        map_remove(&s->watched, s->watches[w].seq, w);
        SLAB_DROP(&s->watch_slab, s->watches, w);
    }
    memory_free(l->watches);
    l->watches = NULL;
    if (s->watch_slab.used > 0) return;
    machine_note_changes(s->machine, false);
    SLAB_DONE(&s->watch_slab, s->watches);
    map_clear(&s->watched);
}

struct shard_call *listen_take(struct shard *s, struct shard_call *c)
{
    CHECK(c->listens && c->state == SHARD_CALL_LISTENING);
    watch_end(s, c);
    return call_take(s, c);
}

void listen_done(struct shard *s)
{
    SLAB_DONE(&s->watch_slab, s->watches);
    map_done(&s->watched);
}

// There is something to tell: reads the texts, then answers. It is in no list.
static void listen_tell(struct shard *s, struct shard_call *c)
{
    CHECK(c->listens && !c->next);
    want_texts(c);
    fetch_start(s, c);
}

// The rows about a signal that may have ended. Returns how many are pending.
static size_t add_ends(const struct shard *s, struct shard_call_signals *l)
{
    size_t pending = 0;
    size_t room = machine_signals_room(s->machine, &l->signal);
    CLEANUP(memory_let_go) struct signal_view *views = memory_new((room + 1) * sizeof *views);
    size_t len = machine_signals_with(s->machine, &l->signal, views, room);
    CHECK(l->waits_end);
    l->len = 0;
    for (size_t i = 0; i < len; i++) {
        if (l->seq != 0 && views[i].seq != l->seq) continue;
        row_add(l)->view = views[i];
        pending += views[i].state == SIGNAL_PENDING;
    }
    return pending;
}

// A lock with signals that were not told, by the oldest of them.
struct waiting_lock {
    uint32_t ask;
    uint32_t op;
    uint64_t slot;
};

// The locks that have something to tell. Most locks of a poll have nothing.
struct waiting_locks {
    struct waiting_lock *rows;
    size_t len;
};

static int by_age(const void *a, const void *b)
{
    const struct waiting_lock *x = a, *y = b;
    if (x->slot != y->slot) return x->slot < y->slot ? -1 : 1;
    if (x->op != y->op) return x->op < y->op ? -1 : 1;
    return (x->ask > y->ask) - (x->ask < y->ask);
}

static void note_waiting(const struct shard *s, const struct listen_ask *ask, uint32_t index,
                         struct waiting_locks *to, size_t most)
{
    struct signal_view first;
    size_t len;
    if (machine_signals_waiting(s->machine, &ask->ref) == 0) return;
    CHECK(machine_signals(s->machine, &ask->ref, ask->after, &first, 1, &len) == REASON_NONE);
    if (len == 0) return;
    if (!to->rows) to->rows = memory_new(most * sizeof *to->rows);
    CHECK(to->len < most);
    to->rows[to->len++] = (struct waiting_lock){index, first.carried.op, first.carried.slot};
}

// Each lock gets the same share of the answer. If there are more locks than rows, those whose
// signals wait longest come first. So no lock keeps the signals of another from it.
static void add_shares(const struct shard *s, struct shard_call_signals *l,
                       struct waiting_locks *locks)
{
    if (locks->len > SIGNALS_ANSWER_MAX) {
        qsort(locks->rows, locks->len, sizeof *locks->rows, by_age);
        locks->len = SIGNALS_ANSWER_MAX;
    }
    for (size_t i = 0; i < locks->len; i++) {
        uint32_t ask = locks->rows[i].ask;
        add_views(s, l, &l->asks[ask], ask, SIGNALS_ANSWER_MAX / locks->len);
    }
}

// Fills the rows for some of the asks, or for all (NULL). Without the tail, a lock that seems to be
// gone may be one that this handle does not know yet.
static bool add_found(const struct shard *s, struct shard_call *c, const uint32_t *asks, size_t len)
{
    struct shard_call_signals *l = c->signals;
    struct waiting_locks locks = {0};
    l->len = 0;
    for (size_t i = 0; i < len; i++) {
        uint32_t ask = asks ? asks[i] : (uint32_t)i;
        CHECK(ask < l->asks_len);
        enum reason reason = machine_lock(s->machine, &l->asks[ask].ref);
        if (reason == REASON_NONE) note_waiting(s, &l->asks[ask], ask, &locks, len);
        if (reason == REASON_NONE || !c->tail_seen || MUTANT(LISTEN_LOCK_OFF)) continue;
        if (l->len == SIGNALS_ANSWER_MAX) continue; // the next poll tells it
        *row_add(l) = (struct signal_delivery){.index = ask, .reason = reason};
    }
    add_shares(s, l, &locks);
    memory_free(locks.rows);
    return l->len > 0;
}

static bool is_over_message(const struct shard *s, uint64_t seq)
{
    struct message_view v;
    enum err err = machine_find(s->machine, seq, shard_now(s), &v);
    return err || v.state == STATE_DEAD || v.state == STATE_OUTBOUND;
}

#define LISTEN_HAS 1 // of ask.after: what it waits for is there

static bool is_answered(const struct shard *s, const struct shard_call_signals *l, uint64_t seq)
{
    for (size_t i = 0; i < l->questions_len; i++)
        if (machine_signal_waits(s->machine, &l->questions[i], seq)) return false;
    return true;
}

// Notes which of the messages have ended. Returns whether the call has what it waits for.
static bool add_over(const struct shard *s, struct shard_call_signals *l, const uint32_t *asks,
                     size_t len)
{
    bool ended = false, answered = false;
    CHECK(l->messages && l->left <= l->asks_len);
    for (size_t i = 0; i < len; i++) {
        struct listen_ask *ask = &l->asks[asks ? asks[i] : i];
        bool question = ask->after & LISTEN_ANSWER, had = ask->after & LISTEN_HAS;
        if (!had &&
            !(question ? is_answered(s, l, ask->ref.seq) : is_over_message(s, ask->ref.seq)))
            continue;
        l->left -= !had && !question;
        ask->after |= LISTEN_HAS;
        *(question ? &answered : &ended) = true;
    }
    l->len = 0;
    bool found = answered || (ended && (!l->all || l->left == 0));
    if (found) row_add(l)->waiting = 1;
    return found;
}

// The messages where the signal is pending.
static void watch_pending(struct shard_call_signals *l)
{
    CHECK(l->waits_end && !l->watches);
    memory_free(l->asks);
    l->asks = memory_zeroed(l->len, sizeof *l->asks);
    l->asks_len = 0;
    for (size_t i = 0; i < l->len; i++)
        if (l->rows[i].view.state == SIGNAL_PENDING)
            l->asks[l->asks_len++].ref.seq = l->rows[i].view.seq;
}

static void listen_end(struct shard *s, struct shard_call *c)
{
    struct shard_call_signals *l = c->signals;
    if (l->waits_end)
        listen_tell(s, c);
    else
        call_answer(s, c, ERR_NOT_FOUND, BYTES_EMPTY);
}

static void listen_wait(struct shard *s, struct shard_call *c)
{
    CHECK(c->tail_seen);
    if (c->wait_until < s->listens_end) s->listens_end = c->wait_until;
    call_push(s, c, SHARD_CALL_LISTENING);
    watch_begin(s, c);
}

// Whether this call must end without an answer about signals.
static bool listen_refused(struct shard *s, struct shard_call *c)
{
    CHECK(!c->next && c->listens);
    if (machine_deleted(s->machine))
        call_refuse(s, c, REASON_DELETED);
    else if (c->signals->as_owner && !s->view->is_owner)
        call_refuse(s, c, REASON_NOT_OWNER);
    else
        return false;
    return true;
}

static void listen_try(struct shard *s, struct shard_call *c)
{
    struct shard_call_signals *l = c->signals;
    CHECK(!c->next && !l->watches);
    if (c->tail_seen && listen_refused(s, c)) return;
    bool found = false;
    if (l->waits_end)
        found = add_ends(s, l) == 0 && l->len > 0;
    else if (!l->messages)
        found = add_found(s, c, NULL, l->asks_len);
    else if (c->tail_seen) // a message that this handle does not know yet was perhaps sent
        found = add_over(s, l, NULL, l->asks_len);
    if (found) {
        listen_tell(s, c);
    } else if (!c->tail_seen) {
        call_push(s, c, SHARD_CALL_SYNCING);
        journal_sync(s->journal, call_ticket(c), c->deadline, s->now);
    } else if (call_wait_is_over(s, c) || (l->waits_end && l->len == 0)) {
        listen_end(s, c);
    } else {
        if (l->waits_end) watch_pending(l);
        listen_wait(s, c);
    }
}

void listen_synced(struct shard *s, struct shard_call *c, enum err err)
{
    CHECK(c->listens);
    c->tail_seen = true;
    if (err)
        call_answer(s, c, err, BYTES_EMPTY);
    else
        listen_try(s, c);
}

void shard_listen(struct shard *s, uint64_t ticket, const struct shard_listen *what,
                  int64_t wait_until, int64_t deadline, struct interval now)
{
    CHECK(what->len <= (what->messages ? LISTEN_MESSAGES_MAX : LISTEN_ASKS_MAX));
    shard_note_time(s, now);
    struct shard_call *c = call_new(s, ticket, deadline);
    struct shard_call_signals *l = signals_need(c);
    c->listens = true;
    c->wait_until = wait_until < deadline ? wait_until : deadline;
    l->waits_end = what->len == 0;
    l->as_owner = what->as_owner;
    l->messages = what->messages;
    l->all = what->all;
    l->signal = what->signal;
    l->seq = what->seq;
    l->asks = memory_zeroed(what->len, sizeof *l->asks);
    l->asks_len = what->len;
    if (what->len > 0) memcpy(l->asks, what->asks, what->len * sizeof *l->asks);
    for (size_t i = 0; i < what->len; i++)
        l->left += what->messages && what->asks[i].after == 0;
    l->questions_len = what->questions_len;
    l->questions = memory_zeroed(what->questions_len, sizeof *l->questions);
    if (l->questions_len > 0)
        memcpy(l->questions, what->questions, l->questions_len * sizeof *l->questions);
    listen_try(s, c);
    shard_notify_next(s, now);
}

static void hit(struct signal_watch *w, struct shard_call **hits)
{
    struct shard_call_signals *l = w->call->signals;
    if (w->hit) return;
    w->hit = true;
    *ARRAY_ADD(l->hits, l->hits_len, l->hits_cap) = w->ask;
    CHECK(l->hits_len <= l->asks_len);
    if (l->hits_len > 1) return;
    l->next_hit = *hits;
    *hits = w->call;
}

// The calls whose messages changed, in a list by next_hit.
static struct shard_call *take_hits(struct shard *s)
{
    struct shard_call *hits = NULL;
    uint64_t end = machine_changes(s->machine);
    for (uint64_t n = s->changes_seen; n < end; n++) {
        uint64_t seq = machine_change(s->machine, n);
        uint32_t w;
        CHECK(seq > 0);
        for (size_t at = map_first(&s->watched, seq);
             (w = map_value(&s->watched, seq, &at)) != MAP_NONE;)
            hit(&s->watches[w], &hits);
    }
    CHECK(s->changes_seen <= end);
    return hits;
}

static void listen_check(struct shard *s, struct shard_call *c, bool all)
{
    struct shard_call_signals *l = c->signals;
    size_t hits = l->hits_len;
    CHECK(c->state == SHARD_CALL_LISTENING);
    for (size_t i = 0; i < hits; i++)
        s->watches[l->watches[l->hits[i]]].hit = false;
    l->hits_len = 0;
    const uint32_t *asks = all ? NULL : l->hits;
    size_t len = all ? l->asks_len : hits;
    bool found = l->waits_end  ? add_ends(s, l) == 0
                 : l->messages ? add_over(s, l, asks, len)
                               : add_found(s, c, asks, len);
    if (found) listen_tell(s, listen_take(s, c));
}

static void wake_changed(struct shard *s)
{
    if (s->changes_seen == machine_changes(s->machine) || MUTANT(LISTEN_ASLEEP)) return;
    // More changed than the machine remembers, or the state was loaded again.
    bool all = machine_change(s->machine, s->changes_seen) == 0;
    struct shard_call *hits = all ? NULL : take_hits(s);
    s->changes_seen = machine_changes(s->machine);
    for (struct shard_call *c = s->calls[SHARD_CALL_LISTENING].head, *next; all && c; c = next) {
        next = c->next;
        listen_check(s, c, true);
    }
    for (struct shard_call *next; hits; hits = next) {
        next = hits->signals->next_hit;
        listen_check(s, hits, false);
    }
}

// The end of their time, and of this handle's part.
static void end_listens(struct shard *s, bool all)
{
    enum err halted = s->view->halt_err;
    if (!all && shard_now(s) < s->listens_end) return;
    s->listens_end = TIME_NEVER;
    for (struct shard_call *c = s->calls[SHARD_CALL_LISTENING].head, *next; c; c = next) {
        next = c->next;
        CHECK(c->listens);
        bool lost = c->signals->as_owner && !s->view->is_owner;
        if (halted) {
            call_answer(s, listen_take(s, c), halted, BYTES_EMPTY);
        } else if (lost || machine_deleted(s->machine)) {
            (void)listen_refused(s, listen_take(s, c));
        } else if (call_wait_is_over(s, c)) {
            if (c->signals->waits_end) (void)add_ends(s, c->signals);
            listen_end(s, listen_take(s, c));
        } else if (c->wait_until < s->listens_end) {
            s->listens_end = c->wait_until;
        }
    }
}

void listen_wake(struct shard *s)
{
    if (!s->calls[SHARD_CALL_LISTENING].head) {
        if (!MUTANT(LISTEN_WAKES_PAST)) s->listens_end = TIME_NEVER; // else it stays in the past
        return;
    }
    bool owned = s->view->is_owner;
    bool all = s->view->halt_err || machine_deleted(s->machine);
    if (!all) wake_changed(s);
    end_listens(s, all || (s->owned_before && !owned));
    s->owned_before = owned;
}
