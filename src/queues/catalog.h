// SPDX-License-Identifier: Apache-2.0
// Which queues exist. A queue's name leads to a random id. All other objects of the queue are
// stored under that id. Each life of a name has these objects; each is created once and never
// deleted:
//
//     catalog/<name>/<life, 8 digits>   the id, and the configuration at the creation
//     gone/<name>/<life, 8 digits>      that life has ended
//     swept/<name>/<life, 8 digits>     nothing is left to delete of its journals
#pragma once

#include "base/layout_table.h"
#include "queue/codec/config.h"
#include "queue/codec/message.h"
#include "store/store.h"

struct catalog_row {
    char name[QUEUE_NAME_MAX + 1];
    uint32_t life; // 1, 2, 3 ...
    struct queue_id id;
    struct queue_config birth; // the configuration at the creation
    int64_t created_ms;
};

// The present life of the name. ERR_NOT_FOUND: there is none. For other errors, a->why may have a
// message. catalog_is_newer: a later release created the queue, with rules that this program does
// not know.
#define CATALOG_UPGRADE_NEEDED "upgrade needed: " // as JOURNAL_UPGRADE_NEEDED
bool catalog_is_newer(const struct store_answer *a);
MUST_USE enum err catalog_find(struct store *s, const char *name, struct catalog_row *out,
                               struct store_answer *a);
// Creates a new life of the name, with the id in row. ERR_CONFLICT: the name has a present life, or
// another process created one at the same time.
MUST_USE enum err catalog_create(struct store *s, const struct catalog_row *row,
                                 struct store_answer *a);
// Ends the life row->life. It succeeds if the life has ended already.
MUST_USE enum err catalog_mark_deleted(struct store *s, const struct catalog_row *row,
                                       struct store_answer *a);
// One life of the name, ended or not. ERR_NOT_FOUND: there was none.
MUST_USE enum err catalog_life(struct store *s, const char *name, uint32_t life,
                               struct catalog_row *out, struct store_answer *a);
// Marks a life that has ended as swept: catalog_deleted leaves it out.
MUST_USE enum err catalog_swept(struct store *s, const struct catalog_row *row,
                                struct store_answer *a);
// Calls `each` for every life that has ended and is not swept, with the time of its end. It lists
// two folders and reads no object.
typedef void catalog_over_fn(void *ctx, const char *name, uint32_t life, struct interval ended);
MUST_USE enum err catalog_deleted(struct store *s, catalog_over_fn *each, void *ctx,
                                  struct store_answer *a);
// Calls `each` for every name that has a present life, in order. It lists two folders and reads no
// object.
typedef void catalog_name_fn(void *ctx, const char *name);
MUST_USE enum err catalog_names(struct store *s, catalog_name_fn *each, void *ctx,
                                struct store_answer *a);

#define CATALOG_LAYOUTS(X) X(catalog)
CATALOG_LAYOUTS(LAYOUT_DECLARE)
void catalog_encode(const struct catalog_row *row, struct buf *out);
// ERR_CORRUPT on damage. ERR_UNAVAILABLE: the queue was created with rules of a later release.
MUST_USE enum err catalog_decode(struct bytes from, struct catalog_row *out);
