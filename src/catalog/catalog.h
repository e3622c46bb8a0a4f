// SPDX-License-Identifier: Apache-2.0
// Which queues there are. A queue's name leads to a random id, under which everything else of it
// lives; each life of a name is an object that is created once and never deleted:
//
//     catalog/<name>/<life, 8 digits>   the id, and the configuration at birth
//     gone/<name>/<life, 8 digits>      that life has ended
//     swept/<name>/<life, 8 digits>     and nothing of its journals is left that could go
#pragma once

#include "queue/config.h"
#include "queue/message.h"
#include "store/store.h"

struct catalog_row {
    char name[QUEUE_NAME_MAX + 1];
    uint32_t life; // 1, 2, 3 ...
    struct queue_id id;
    struct queue_config birth;
    int64_t created_ms;
};

// The present life of the name. ERR_NOT_FOUND: none. Errors come with a sentence in a->why.
MUST_USE enum err catalog_find(struct store *s, const char *name, struct catalog_row *out,
                               struct store_answer *a);
// A new life of the name, with the id in row. ERR_CONFLICT: it lives already (or somebody was
// faster).
MUST_USE enum err catalog_create(struct store *s, const struct catalog_row *row,
                                 struct store_answer *a);
MUST_USE enum err catalog_mark_deleted(struct store *s, const struct catalog_row *row,
                                       struct store_answer *a);
// One life of the name, over or not. ERR_NOT_FOUND: there was none.
MUST_USE enum err catalog_life(struct store *s, const char *name, uint32_t life,
                               struct catalog_row *out, struct store_answer *a);
MUST_USE enum err catalog_swept(struct store *s, const struct catalog_row *row,
                                struct store_answer *a);
// Every life that is over and not swept, and when it ended: two lists.
typedef void catalog_over_fn(void *ctx, const char *name, uint32_t life, struct interval ended);
MUST_USE enum err catalog_deleted(struct store *s, catalog_over_fn *each, void *ctx,
                                  struct store_answer *a);
// Every name that is alive, in order: two lists, however many there are, and no look at any of
// them.
typedef void catalog_name_fn(void *ctx, const char *name);
MUST_USE enum err catalog_names(struct store *s, catalog_name_fn *each, void *ctx,
                                struct store_answer *a);

void catalog_encode(const struct catalog_row *row, struct buf *out);
MUST_USE enum err catalog_decode(struct bytes from, struct catalog_row *out); // ERR_CORRUPT
