// SPDX-License-Identifier: Apache-2.0
// Counts reports. There are few: members report only what fails.
#include "cluster/reach.h"

#include "base/mutant.h"

static bool is_between(const struct reach_report *row, const struct member_id *a,
                       const struct member_id *b)
{
    return (member_id_equal(&row->a, a) && member_id_equal(&row->b, b)) ||
           (member_id_equal(&row->a, b) && member_id_equal(&row->b, a));
}

void reach_note(struct reach *r, const struct member_id *by, const struct member_id *about,
                struct interval now)
{
    size_t at = 0, kept = 0;
    for (size_t i = 0; i < r->len; i++)
        if (now.hi < r->rows[i].until) r->rows[kept++] = r->rows[i];
    r->len = kept;
    while (at < r->len && !is_between(&r->rows[at], by, about))
        at++;
    if (at == REACH_MAX || member_id_equal(by, about)) return;
    if (at == r->len) r->len++;
    int64_t until = MUTANT(REACH_FOREVER) ? TIME_NEVER : now.hi + REACH_VALID_MS;
    r->rows[at] = (struct reach_report){*by, *about, until};
}

static bool is_live(const struct member *m)
{
    return m->life == LIFE_HEALTHY || m->life == LIFE_SUSPECT || m->life == LIFE_JOINING;
}

static bool reported(const struct reach *r, const struct member_id *a, const struct member_id *b,
                     struct interval now)
{
    for (size_t i = 0; i < r->len; i++)
        if (now.hi < r->rows[i].until && is_between(&r->rows[i], a, b)) return true;
    return false;
}

// Whether more than half of the other live members do not reach this one.
static bool is_apart(const struct reach *r, const struct members *members,
                     const struct member_id *id, struct interval now)
{
    size_t others = 0, apart = 0;
    for (size_t i = 0; i < members->len; i++) {
        const struct member *m = &members->rows[i];
        if (!is_live(m) || member_id_equal(&m->seen.id, id)) continue;
        others++;
        apart += reported(r, id, &m->seen.id, now);
    }
    return others >= 2 && 2 * apart > others;
}

bool reach_is_cut(const struct reach *r, const struct members *members, const struct member_id *id,
                  struct interval now)
{
    size_t live = 0, apart = 0;
    if (r->len == 0 || !is_apart(r, members, id, now)) return false;
    for (size_t i = 0; i < members->len; i++) {
        const struct member *m = &members->rows[i];
        if (!is_live(m)) continue;
        live++;
        apart += is_apart(r, members, &m->seen.id, now);
    }
    return 2 * apart < live;
}
