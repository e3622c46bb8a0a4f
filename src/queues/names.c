// SPDX-License-Identifier: Apache-2.0
// The names of all queues of the store.
#include "base/memory.h"
#include "queues/queues.h"

#include <stdlib.h>
#include <string.h>

#define NAMES_STEP 256

static void add_name(void *ctx, const char *name)
{
    struct sluice_names *list = ctx;
    if (list->len % NAMES_STEP == 0)
        list->names = memory_resize(list->names, (list->len + NAMES_STEP) * sizeof *list->names);
    list->names[list->len++] = memory_text(name);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

// Closes the open queues that other processes have deleted. Perhaps no later call would notice.
static void forget_deleted(struct engine *e, const struct sluice_names *alive)
{
    struct open_queue **open;
    size_t len = queues_hold(e, &open);
    for (size_t i = 0; i < len; i++) {
        CLEANUP(queue_let_go) struct open_queue *now = NULL;
        const char *name = open[i]->row.name;
        bool there = alive->len > 0 &&
                     bsearch(&name, alive->names, alive->len, sizeof *alive->names, by_name);
        if (!there) (void)queue_get_fresh(e, name, &now, NULL); // makes a deleted one stale
    }
    queues_let_go(open, len);
}

enum sluice_code queues_list(struct engine *e, struct sluice_names **out,
                             struct sluice_error *error)
{
    struct sluice_names *list = NEW(struct sluice_names);
    struct store_answer answer;
    store_answer_init(&answer);
    enum err err = catalog_names(e->store, add_name, list, &answer);
    enum sluice_code code = err ? refuse_store(e, error, err, "the catalog", &answer) : SLUICE_OK;
    store_answer_done(&answer);
    if (code) {
        sluice_names_free(list);
        return code;
    }
    forget_deleted(e, list);
    *out = list;
    return SLUICE_OK;
}
