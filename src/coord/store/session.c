// SPDX-License-Identifier: Apache-2.0
// A node's session on the store: join, heartbeat, leave. The session is held until `until_ms` by
// the clock of the machine. Another node takes it for ended only later: it counts from the
// modification time, which the store set after the heartbeat began.
#include "coord/store/inside.h"

#include "base/check.h"
#include "os/clock.h"
#include "os/lock.h"

#include <stdio.h>
#include <string.h>

static void member_key(char key[STORE_KEY_MAX + 1], const char *name, uint64_t number)
{
    (void)snprintf(key, STORE_KEY_MAX + 1, MEMBER_KEYS "%s/%020llu", name,
                   (unsigned long long)number);
}

enum err store_said(struct coord_answer *a, const struct store_answer *sa, enum err e)
{
    CHECK(e != ERR_OK);
    return coord_refuse(a, e, "%s", sa->why[0] ? sa->why : err_text(e));
}

enum err create_once(struct store_coord *s, const char *key, struct bytes body,
                     struct coord_answer *a)
{
    bool doubt = false; // an earlier try may have been applied
    enum err e = ERR_UNKNOWN;
    LOCAL(store_answer, sa);
    for (int tries = 0; tries < TRIES && (e == ERR_UNKNOWN || (doubt && e == ERR_UNAVAILABLE));
         tries++) {
        e = store_put_new(s->store, key, body, &sa);
        cost_add(&a->cost, &sa.cost);
        doubt |= e == ERR_UNKNOWN;
    }
    if (doubt && e == ERR_CONFLICT) {
        e = store_get(s->store, key, 0, COORD_RECORD_MAX, &sa);
        cost_add(&a->cost, &sa.cost);
        if (!e && !bytes_equal(buf_bytes(&sa.body), body)) e = ERR_CONFLICT;
        if (e == ERR_NOT_FOUND) e = ERR_CONFLICT; // it was deleted: a higher number exists
    }
    if (doubt && e && e != ERR_CONFLICT) e = ERR_UNKNOWN;
    if (e && e != ERR_CONFLICT) e = store_said(a, &sa, e);
    return e;
}

int64_t pace_ms(const struct store_coord *s)
{
    return s->number && !s->company ? s->lone_ms : s->base.lease_ms / 3;
}

static bool has_company(const struct view *v, const char *name)
{
    for (size_t i = 0; i < v->rows_len; i++)
        if (v->rows[i].live && strcmp(v->rows[i].name, name) != 0) return true;
    return false;
}

static void tell_session(struct store_coord *s, struct coord_answer *a)
{
    a->lease_ms = s->base.lease_ms;
    a->next_ms = pace_ms(s);
    a->until_ms = s->until_ms;
}

// The lock is held.
static void lapse(struct store_coord *s)
{
    s->ended = s->number;
    s->number = 0;
}

uint64_t session_of(struct store_coord *s, struct coord_member *self, struct coord_answer *a)
{
    (void)pthread_mutex_lock(&s->lock);
    uint64_t number = s->number;
    bool lapsed = number && clock_boot_ms() >= s->until_ms;
    if (lapsed) lapse(s);
    if (lapsed) number = 0;
    *self = s->self;
    (void)pthread_mutex_unlock(&s->lock);
    if (lapsed)
        (void)coord_refuse_lapsed(a, s->base.lease_ms);
    else if (!number)
        (void)coord_refuse_session(a);
    return number;
}

// Deletes what no node needs: lower numbers of this name, and members that are gone for a day. A
// failure leaves them for the next join.
static void forget_gone(struct store_coord *s, const struct view *v, const char *name,
                        struct coord_answer *a)
{
    enum { AT_ONCE = 16 };
    char keys[AT_ONCE][STORE_KEY_MAX + 1];
    const char *list[AT_ONCE];
    size_t count = 0;
    for (size_t i = 0; i < v->rows_len && count < AT_ONCE; i++) {
        const struct view_row *r = &v->rows[i];
        bool own = strcmp(r->name, name) == 0;
        bool old = !r->live && r->modified.hi != TIME_NEVER && v->time.lo != TIME_UNKNOWN &&
                   v->time.lo - r->modified.hi > FORGET_MS;
        if (!own && !old) continue;
        member_key(keys[count], r->name, r->number);
        list[count] = keys[count];
        count++;
    }
    if (count == 0) return;
    LOCAL(store_answer, sa);
    enum err e = store_delete(s->store, list, count, &sa);
    (void)e;
    cost_add(&a->cost, &sa.cost);
}

static bool is_incarnation(const struct view_row *r, const struct coord_member *m)
{
    return r->known && memcmp(r->record.incarnation, m->incarnation, sizeof m->incarnation) == 0;
}

// A list after put_new shows that the number is the highest, and from when members see this node.
static enum err settle_join(struct store_coord *s, const struct coord_member *m, uint64_t number,
                            int64_t began_ms, struct coord_answer *a)
{
    LOCAL(view, v);
    (void)pthread_mutex_lock(&s->lock);
    if (s->number != number) s->base.release_doubt = false; // the releases of another session
    s->self = *m;
    s->number = number;
    s->since_known = false;
    s->beats = false;
    (void)pthread_mutex_unlock(&s->lock);
    enum err e = view_read(s, &v, a);
    const struct view_row *own = e ? NULL : view_find(&v, m->name);
    LOCKED(&s->lock);
    if (!e && (!own || own->number != number)) {
        s->number = 0;
        e = own ? coord_refuse_replaced(a, m->name) : coord_refuse_session(a);
    } else {
        // Without the list nothing is known of others: the shorter time holds.
        s->company = e || has_company(&v, m->name);
        s->until_ms = began_ms + s->base.lease_ms + (s->company ? 0 : s->lone_ms);
        tell_session(s, a);
        if (!e) view_tell(&v, a);
        if (e != ERR_OK) e = ERR_OK, a->why[0] = 0, a->at = 0;
    }
    return e;
}

static enum err create_member(struct store_coord *s, const struct coord_member *m, uint64_t last,
                              struct coord_answer *a)
{
    char key[STORE_KEY_MAX + 1];
    LOCAL(buf, body, COORD_RECORD_MAX);
    member_print(m, &body);
    uint64_t number = coord_token_after(last, 0);
    member_key(key, m->name, number);
    int64_t began = clock_boot_ms();
    enum err e = number ? create_once(s, key, buf_bytes(&body), a)
                        : coord_refuse(a, ERR_LIMIT, "no number is left for \"%s\"", m->name);
    return e ? e : settle_join(s, m, number, began, a);
}

static enum err put_record(struct store_coord *s, const struct coord_member *self, uint64_t number,
                           bool left, struct coord_answer *a)
{
    char key[STORE_KEY_MAX + 1];
    LOCAL(buf, body, COORD_RECORD_MAX);
    LOCAL(store_answer, sa);
    if (!left) member_print(self, &body);
    member_key(key, self->name, number);
    enum err e = store_put(s->store, key, buf_bytes(&body), &sa);
    cost_add(&a->cost, &sa.cost);
    if (e) e = store_said(a, &sa, e);
    return e;
}

// Whether this join was applied already. A session that lapsed here does not go on, though a late
// heartbeat may have kept its record alive: its claims would come back, and no node knows of them.
static bool goes_on(struct store_coord *s, const struct view_row *had, const struct coord_member *m)
{
    (void)pthread_mutex_lock(&s->lock);
    bool lapsed = had->number == s->ended;
    (void)pthread_mutex_unlock(&s->lock);
    return !lapsed && is_incarnation(had, m);
}

enum err store_coord_join(struct coord *c, const struct coord_member *m, bool replace,
                          struct coord_answer *a)
{
    struct store_coord *s = store_coord_of(c);
    struct view v;
    enum err e = ERR_CONFLICT;
    for (int tries = 0; tries < TRIES && e == ERR_CONFLICT; tries++) {
        view_init(&v);
        e = view_read(s, &v, a);
        const struct view_row *had = e ? NULL : view_find(&v, m->name);
        if (had && had->live && goes_on(s, had, m)) {
            int64_t began = clock_boot_ms();
            e = put_record(s, m, had->number, false, a);
            if (!e) e = settle_join(s, m, had->number, began, a);
        } else if (had && had->live && !replace && !is_incarnation(had, m)) {
            coord_holder_of(&a->holder, &had->record, 0);
            e = coord_refuse_name(a, m->name, had->record.url);
            tries = TRIES;
        } else if (!e) {
            e = create_member(s, m, had ? had->number : 0, a);
            if (!e) forget_gone(s, &v, m->name, a);
            if (e == ERR_CONFLICT)
                (void)coord_refuse(a, e, "another node with the name \"%s\" joins now", m->name);
        }
        view_done(&v);
    }
    return e;
}

// The lock is held. `e` is the result of the heartbeat's put, which began at began_ms.
static enum err renewed(struct store_coord *s, uint64_t number, int64_t began_ms, bool company,
                        enum err e, struct coord_answer *a)
{
    int64_t until = began_ms + s->base.lease_ms + (company ? 0 : s->lone_ms);
    if (s->number != number) return coord_refuse_session(a); // left or joined meanwhile
    if (clock_boot_ms() >= s->until_ms) { // others may have seen it end before the heartbeat landed
        lapse(s);
        return coord_refuse_lapsed(a, s->base.lease_ms);
    }
    // A put that may have landed ends the longer time of a lone node.
    if (!e || (e == ERR_UNKNOWN && until < s->until_ms)) s->until_ms = until;
    s->company = company || e; // a node whose record was not written goes on
    if (!e) s->beats = company;
    tell_session(s, a);
    return e;
}

enum err store_coord_heartbeat(struct coord *c, struct coord_answer *a)
{
    struct store_coord *s = store_coord_of(c);
    struct coord_member self;
    uint64_t number = session_of(s, &self, a);
    if (!number) return ERR_NOT_FOUND;
    LOCAL(view, v);
    enum err e = view_read(s, &v, a);
    const struct view_row *own = e ? NULL : view_find(&v, self.name);
    bool lost = !e && (!own || own->number != number || own->size == 0);
    bool company = !e && has_company(&v, self.name);
    (void)pthread_mutex_lock(&s->lock);
    bool puts = company || s->beats; // the record of a node that is lone again says so
    (void)pthread_mutex_unlock(&s->lock);
    int64_t began = puts ? clock_boot_ms() : v.began_ms;
    if (!e && !lost) {
        view_tell(&v, a);
        self.beats = company;
        if (puts) e = put_record(s, &self, number, false, a);
    }
    LOCKED(&s->lock);
    if (lost) {
        if (s->number == number) lapse(s);
        if (own && own->number > number) coord_holder_of(&a->holder, &own->record, 0);
        e = own && own->number > number ? coord_refuse_replaced(a, self.name)
                                        : coord_refuse_lapsed(a, s->base.lease_ms);
    } else if (own) {
        e = renewed(s, number, began, company, e, a);
    } else {
        tell_session(s, a); // the list failed: nothing was written
    }
    return e;
}

enum err store_coord_leave(struct coord *c, struct coord_answer *a)
{
    struct store_coord *s = store_coord_of(c);
    struct coord_member self;
    uint64_t number = session_of(s, &self, a);
    a->why[0] = 0;
    if (!number) return ERR_OK;
    enum err e = put_record(s, &self, number, true, a);
    if (e) return e;
    LOCKED(&s->lock);
    if (s->number == number) s->number = 0;
    return ERR_OK;
}
