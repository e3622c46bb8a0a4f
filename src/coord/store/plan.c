// SPDX-License-Identifier: Apache-2.0
// The leader's plan on the store: an object for each version, created once. The newest version
// counts. So a former leader, whose epoch is lower, cannot replace the plan of its successor.
#include "coord/store/inside.h"

#include <stdio.h>
#include <string.h>

void plan_key(char key[STORE_KEY_MAX + 1], uint64_t epoch, uint64_t number)
{
    (void)snprintf(key, STORE_KEY_MAX + 1, PLAN_KEYS "%020llu.%020llu", (unsigned long long)epoch,
                   (unsigned long long)number);
}

// A failure leaves them for the next plan.
static void delete_older(struct store_coord *s, const struct view *v, struct coord_answer *a)
{
    char newest[STORE_KEY_MAX + 1];
    const char *list[sizeof v->plans / sizeof *v->plans + 1];
    size_t count = 0;
    for (; count < v->plans_len; count++)
        list[count] = v->plans[count];
    if (v->plan_epoch) {
        plan_key(newest, v->plan_epoch, v->plan_number);
        list[count++] = newest;
    }
    if (count == 0) return;
    LOCAL(store_answer, sa);
    enum err e = store_delete(s->store, list, count, &sa);
    (void)e;
    cost_add(&a->cost, &sa.cost);
}

enum err store_coord_plan_write(struct coord *c, uint64_t epoch, uint64_t number, struct bytes plan,
                                struct coord_answer *a)
{
    struct store_coord *s = store_coord_of(c);
    char key[STORE_KEY_MAX + 1];
    LOCAL(view, v);
    enum err e = view_read(s, &v, a);
    if (!e) {
        a->plan_epoch = v.plan_epoch;
        a->plan_number = v.plan_number;
        if (coord_plan_compare(v.plan_epoch, v.plan_number, epoch, number) >= 0)
            e = coord_refuse_plan(a, epoch, number);
    }
    plan_key(key, epoch, number);
    if (!e) {
        e = create_once(s, key, plan, a);
        if (e == ERR_CONFLICT) (void)coord_refuse_plan(a, epoch, number);
    }
    if (!e) {
        a->plan_epoch = epoch;
        a->plan_number = number;
        delete_older(s, &v, a);
    }
    return e;
}

// A newer plan can replace the one that was listed, so a missing object is looked for again.
enum err store_coord_plan_read(struct coord *c, struct buf *out, struct coord_answer *a)
{
    struct store_coord *s = store_coord_of(c);
    char key[STORE_KEY_MAX + 1];
    enum err e = ERR_NOT_FOUND;
    LOCAL(store_answer, sa);
    for (int tries = 0; tries < TRIES && e == ERR_NOT_FOUND; tries++) {
        (void)pthread_mutex_lock(&s->lock);
        a->plan_epoch = s->last.plan_epoch;
        a->plan_number = s->last.plan_number;
        (void)pthread_mutex_unlock(&s->lock);
        if (tries > 0 || a->plan_epoch == 0) {
            struct view v;
            view_init(&v);
            e = view_read(s, &v, a);
            a->plan_epoch = v.plan_epoch;
            a->plan_number = v.plan_number;
            view_done(&v);
            if (e) break;
        }
        if (a->plan_epoch == 0) {
            e = ERR_NOT_FOUND;
            break;
        }
        plan_key(key, a->plan_epoch, a->plan_number);
        e = store_get(s->store, key, 0, COORD_PLAN_MAX, &sa);
        cost_add(&a->cost, &sa.cost);
        if (e && e != ERR_NOT_FOUND) e = store_said(a, &sa, e);
        if (!e) buf_put(out, buf_bytes(&sa.body));
    }
    return e;
}
