// SPDX-License-Identifier: Apache-2.0
// Opening the same ledger here and there.
#include "places.h"

#include "../unit/unit.h"
#include "os/entropy.h"
#include "store/mem.h"

#include <stdio.h>
#include <string.h>

void place_open(struct place *p, const char *name)
{
    *p = (struct place){.name = name};
    if (strcmp(name, "mem") == 0) {
        p->shared = store_mem_new();
    } else {
        assert_true(scratch_make(&p->scratch, NULL));
    }
}

void place_close(struct place *p)
{
    store_free(p->shared);
    scratch_remove(&p->scratch);
}

void handle_open(struct handle *h, struct place *p)
{
    *h = (struct handle){.place = p};
    if (!p->shared) {
        char why[STORE_WHY_MAX] = "";
        enum err err = store_file_open(p->scratch.path, &p->files, &h->store, why, sizeof why);
        if (err) fail_msg("%s: %s", p->scratch.path, why);
    }
    struct store *store = p->shared ? p->shared : h->store;
    assert_int_equal(ledger_open(store, "test", &p->options, &h->ledger), ERR_OK);
    assert_int_equal(ledger_sync(h->ledger), ERR_OK);
}

void handle_close(struct handle *h)
{
    ledger_close(h->ledger);
    store_free(h->store);
    *h = (struct handle){0};
}

enum err handle_add(struct handle *h, const char *name, int64_t *value)
{
    uint8_t id[16];
    entropy_fill(id, sizeof id);
    return ledger_add(h->ledger, name, 1, id, value);
}

int64_t handle_value(struct handle *h, const char *name)
{
    int64_t value = 0;
    enum err err = ledger_read(h->ledger, name, &value);
    assert_true(err == ERR_OK || err == ERR_NOT_FOUND);
    return err ? 0 : value;
}
