// SPDX-License-Identifier: Apache-2.0
#include "queue/tables/changes.h"

#include "base/check.h"
#include "base/memory.h"
#include "queue/core/state.h"

void machine_note_changes(struct machine *m, bool on)
{
    struct changes *c = &m->changes;
    if (on == (c->seqs != NULL)) return;
    memory_free(c->seqs);
    c->seqs = on ? memory_new(CHANGES_MAX * sizeof *c->seqs) : NULL;
    c->first = c->count;
    CHECK((c->seqs != NULL) == on);
}

uint64_t machine_changes(const struct machine *m)
{
    CHECK(m->changes.first <= m->changes.count);
    return m->changes.count;
}

uint64_t machine_change(const struct machine *m, uint64_t number)
{
    const struct changes *c = &m->changes;
    CHECK(number < c->count);
    if (number < c->first || c->count - number > CHANGES_MAX) return 0;
    return c->seqs[number % CHANGES_MAX];
}

void changes_note(struct machine *m, uint64_t seq)
{
    struct changes *c = &m->changes;
    CHECK(seq > 0);
    if (c->seqs) c->seqs[c->count++ % CHANGES_MAX] = seq;
}

void changes_forget(struct machine *m)
{
    struct changes *c = &m->changes;
    if (c->seqs) c->first = ++c->count;
    CHECK(c->first <= c->count);
}
