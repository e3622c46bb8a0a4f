// SPDX-License-Identifier: Apache-2.0
// A doubly linked list whose links are fields of its rows. To add or to remove a row takes constant
// time and no memory. All zero is an empty list, or the link of a row in no list. The list owns
// nothing. A row that is in several lists has a link for each.
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct list_link {
    struct list_link *next, *before;
};

struct list {
    struct list_link *first, *last;
};

void list_add(struct list *l, struct list_link *at); // as the last
void list_add_first(struct list *l, struct list_link *at);
void list_add_before(struct list *l, struct list_link *at, struct list_link *next); // NULL: last
void list_remove(struct list *l, struct list_link *at);          // must be in this list
bool list_has(const struct list *l, const struct list_link *at); // it is in this list or in none
void list_move(struct list *to, struct list *from);              // all rows, after those of `to`

static inline void *list_row(struct list_link *at, size_t offset)
{
    return at ? (char *)at - offset : NULL;
}

// The row of type `type` whose field `field` is the link. NULL if the link is NULL.
#define LIST_ROW(link, type, field)   ((type *)list_row((link), offsetof(type, field)))
#define LIST_FIRST(l, type, field)    LIST_ROW((l)->first, type, field)
#define LIST_NEXT(row, type, field)   LIST_ROW((row)->field.next, type, field)
#define LIST_BEFORE(row, type, field) LIST_ROW((row)->field.before, type, field)

// Walks the rows from the first to the last. The body may remove or free its own row only.
#define LIST_EACH(row, l, type, field)                                                             \
    for (type *row = LIST_FIRST(l, type, field),                                                   \
              *row##_next = row ? LIST_NEXT(row, type, field) : NULL;                              \
         row; row = row##_next, row##_next = row ? LIST_NEXT(row, type, field) : NULL)
