// SPDX-License-Identifier: Apache-2.0
// The table of lives, and the members that are in it.
#include "cluster/life.h"

#include "base/array.h"
#include "base/check.h"
#include "base/memory.h"
#include "cluster/lease.h"

#include <stdlib.h>
#include <string.h>

#define JOI LIFE_JOINING
#define HEA LIFE_HEALTHY
#define SUS LIFE_SUSPECT
#define UNH LIFE_UNHEALTHY
#define LEA LIFE_LEAVING
#define GON LIFE_GONE

// clang-format off
static const uint8_t table[6][9] = {
    //                  steady beat late silent forgotten leaves stays removed replaced
    [LIFE_JOINING]   = {HEA,   JOI, JOI, UNH,   GON,      LEA,   JOI,  GON,    GON},
    [LIFE_HEALTHY]   = {HEA,   HEA, SUS, UNH,   GON,      LEA,   HEA,  GON,    GON},
    [LIFE_SUSPECT]   = {SUS,   HEA, SUS, UNH,   GON,      LEA,   SUS,  GON,    GON},
    [LIFE_UNHEALTHY] = {HEA,   UNH, UNH, UNH,   GON,      LEA,   UNH,  GON,    GON},
    [LIFE_LEAVING]   = {LEA,   LEA, LEA, GON,   GON,      LEA,   JOI,  GON,    GON},
    [LIFE_GONE]      = {GON,   GON, GON, GON,   GON,      GON,   GON,  GON,    GON},
};
// clang-format on

void life_rules_defaults(struct life_rules *r, int64_t lease_ms)
{
    CHECK(lease_ms >= 10);
    *r = (struct life_rules){.lease_ms = lease_ms,
                             .late_ms = lease_ms * 4 / 5,
                             .steady_ms = lease_ms * 2 / 5,
                             .forget_ms = 60000};
    if (r->forget_ms < 4 * lease_ms) r->forget_ms = 4 * lease_ms;
}

const char *life_name(enum life life)
{
    static const char *const names[] = {"joining",   "healthy", "suspect",
                                        "unhealthy", "leaving", "gone"};
    CHECK((size_t)life < sizeof names / sizeof *names);
    return names[life];
}

enum life life_after(enum life life, enum life_cause cause)
{
    CHECK(life <= LIFE_GONE);
    CHECK(cause <= LIFE_REPLACED);
    return (enum life)table[life][cause];
}

void members_init(struct members *m)
{
    *m = (struct members){.len = 0};
}

void members_done(struct members *m)
{
    memory_free(m->rows);
    members_init(m);
}

void life_changes_done(struct life_changes *c)
{
    memory_free(c->rows);
    *c = (struct life_changes){.len = 0};
}

static void note(struct life_changes *c, const struct member_id *id, enum life from, enum life to)
{
    *ARRAY_ADD(c->rows, c->len, c->cap) = (struct life_change){.id = *id, .from = from, .to = to};
}

static void cause(struct member *m, enum life_cause what, struct interval now,
                  struct life_changes *changes)
{
    enum life next = life_after(m->life, what);
    if (next == m->life) return;
    note(changes, &m->seen.id, m->life, next);
    m->life = next;
    m->changed = now;
}

static bool silent_for(const struct member *m, int64_t ms, struct interval now)
{
    return time_passed(m->seen.beat, ms, now);
}

static bool is_steady(const struct member *m, const struct life_rules *r)
{
    return time_passed(m->since, r->steady_ms, m->seen.beat);
}

static void tick_one(struct member *m, const struct life_rules *r, struct interval now,
                     struct life_changes *changes)
{
    if (m->seen.leaving) cause(m, LIFE_LEAVES, now, changes);
    if (silent_for(m, r->forget_ms, now))
        cause(m, LIFE_FORGOTTEN, now, changes);
    else if (silent_for(m, r->lease_ms, now))
        cause(m, LIFE_SILENT, now, changes);
    else if (silent_for(m, r->late_ms, now))
        cause(m, LIFE_LATE, now, changes);
    else if (is_steady(m, r))
        cause(m, LIFE_STEADY, now, changes);
}

static void drop_gone(struct members *m)
{
    size_t kept = 0;
    for (size_t i = 0; i < m->len; i++) {
        if (m->rows[i].life == LIFE_GONE) continue;
        if (kept != i) m->rows[kept] = m->rows[i];
        kept++;
    }
    m->len = kept;
}

void members_tick(struct members *m, const struct life_rules *r, struct interval now,
                  struct life_changes *changes)
{
    CHECK(now.lo <= now.hi);
    for (size_t i = 0; i < m->len; i++)
        tick_one(&m->rows[i], r, now, changes);
    drop_gone(m);
}

int64_t members_wake_at(const struct members *m, const struct life_rules *r, struct interval now)
{
    const int64_t waits[] = {r->late_ms, r->lease_ms, r->forget_ms};
    int64_t at = TIME_NEVER;
    for (size_t i = 0; i < m->len; i++)
        for (size_t k = 0; k < sizeof waits / sizeof *waits; k++) {
            int64_t due = time_passed_at(m->rows[i].seen.beat, waits[k], now);
            if (due > now.hi && due < at) at = due;
        }
    return at;
}

static bool is_fresh(const struct member *m, const struct member_report *seen)
{
    return seen->beat.lo > m->seen.beat.lo || seen->beat.hi > m->seen.beat.hi;
}

static void see_again(struct member *m, const struct life_rules *r,
                      const struct member_report *seen, struct interval now,
                      struct life_changes *changes)
{
    CHECK(member_id_equal(&m->seen.id, &seen->id));
    bool fresh = is_fresh(m, seen);
    if (fresh && time_passed(m->seen.beat, r->late_ms, seen->beat)) m->since = seen->beat;
    bool leaving = seen->leaving || (m->seen.leaving && !fresh); // an older record says nothing
    struct interval beat = fresh ? seen->beat : m->seen.beat;
    m->seen = *seen;
    m->seen.beat = beat;
    m->seen.leaving = leaving;
    if (!leaving) cause(m, LIFE_STAYS, now, changes);
    if (fresh && !silent_for(m, r->late_ms, now)) cause(m, LIFE_BEAT, now, changes);
}

static struct member *named(struct members *m, const char *name)
{
    size_t low = 0, high = m->len;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(m->rows[middle].seen.id.name, name);
        if (order == 0) return &m->rows[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static void add(struct members *m, const struct member_report *seen, struct interval now)
{
    if (m->len >= MEMBERS_MAX) return;
    size_t at = m->len;
    while (at > 0 && strcmp(m->rows[at - 1].seen.id.name, seen->id.name) > 0)
        at--;
    *ARRAY_INSERT(m->rows, m->len, m->cap, at) = (struct member){.seen = *seen,
                                                                 .life = LIFE_JOINING,
                                                                 .first_seen = now,
                                                                 .changed = now,
                                                                 .since = seen->beat};
}

// Is there a record in the list that replaces this one?
static bool is_replaced(const struct member_report *seen, const struct member_report *list,
                        size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (member_id_named(&list[i].id, &seen->id) && list[i].joined > seen->joined) return true;
    }
    return false;
}

static const struct member_report *record_of(const struct member *m,
                                             const struct member_report *list, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (member_id_equal(&list[i].id, &m->seen.id)) return &list[i];
    }
    return NULL;
}

void members_see(struct members *m, const struct life_rules *r, const struct member_report *list,
                 size_t list_len, struct interval now, struct life_changes *changes)
{
    for (size_t i = 0; i < m->len; i++) {
        struct member *one = &m->rows[i];
        const struct member_report *seen = record_of(one, list, list_len);
        if (is_replaced(&one->seen, list, list_len))
            cause(one, LIFE_REPLACED, now, changes);
        else if (!seen)
            cause(one, LIFE_REMOVED, now, changes);
        else
            see_again(one, r, seen, now, changes);
    }
    drop_gone(m);
    for (size_t i = 0; i < list_len; i++) {
        if (named(m, list[i].id.name) || is_replaced(&list[i], list, list_len)) continue;
        add(m, &list[i], now);
        note(changes, &list[i].id, LIFE_GONE, LIFE_JOINING);
    }
    members_tick(m, r, now, changes);
}

const struct member *members_named(const struct members *m, const char *name)
{
    return named((struct members *)m, name);
}

const struct member *members_find(const struct members *m, const struct member_id *id)
{
    const struct member *found = members_named(m, id->name);
    return found && member_id_equal(&found->seen.id, id) ? found : NULL;
}

const struct member *members_first_healthy(const struct members *m)
{
    for (size_t i = 0; i < m->len; i++) {
        if (m->rows[i].life == LIFE_HEALTHY) return &m->rows[i];
    }
    return NULL;
}
