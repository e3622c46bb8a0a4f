// SPDX-License-Identifier: Apache-2.0
// Both ends of a list are NULL, so a list needs no start value other than zero.
#include "base/list.h"

#include "base/check.h"

bool list_has(const struct list *l, const struct list_link *at)
{
    return at->before || l->first == at;
}

void list_add_before(struct list *l, struct list_link *at, struct list_link *next)
{
    CHECK(!at->next && !list_has(l, at));
    at->next = next;
    at->before = next ? next->before : l->last;
    *(at->before ? &at->before->next : &l->first) = at;
    *(next ? &next->before : &l->last) = at;
}

void list_add(struct list *l, struct list_link *at)
{
    list_add_before(l, at, NULL);
}

void list_add_first(struct list *l, struct list_link *at)
{
    list_add_before(l, at, l->first);
}

void list_remove(struct list *l, struct list_link *at)
{
    CHECK(list_has(l, at) && (at->next || l->last == at));
    *(at->before ? &at->before->next : &l->first) = at->next;
    *(at->next ? &at->next->before : &l->last) = at->before;
    *at = (struct list_link){NULL, NULL};
}

void list_move(struct list *to, struct list *from)
{
    if (!from->first) return;
    from->first->before = to->last;
    *(to->last ? &to->last->next : &to->first) = from->first;
    to->last = from->last;
    *from = (struct list){NULL, NULL};
}
