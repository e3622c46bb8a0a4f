// SPDX-License-Identifier: Apache-2.0
// Results, reasons and bodies of finished messages.
#include "queue/retained.h"

#include "base/check.h"
#include "base/memory.h"
#include "queue/state.h"

void retained_note_reason(struct machine *m, uint64_t seq, struct op_place why)
{
    CHECK(seq > 0 && why.slot <= m->slot);
}

void retained_clear(struct machine *m)
{
    memory_free(m->retained.rows);
    m->retained = (struct retained){0};
}

void retained_save(const struct machine *m, struct buf *out)
{
    CHECK(m->rules >= RULES_SIGNALS);
    (void)out;
}

void retained_load(struct machine *m, struct reader *r)
{
    CHECK(m->retained.len == 0);
    (void)r;
}

void retained_check(const struct machine *m)
{
    CHECK(m->rules >= RULES_SIGNALS || m->retained.len == 0);
}

uint64_t retained_marks(const struct machine *m)
{
    CHECK(m->retained.len == 0);
    return 0;
}

bool retained_lives_at(const struct machine *m, uint64_t slot, uint32_t op)
{
    (void)m;
    (void)slot;
    (void)op;
    return false;
}

size_t machine_finished_list(const struct machine *m, int64_t now,
                             const struct finished_view *before, struct finished_view *out,
                             size_t max)
{
    (void)m;
    (void)now;
    (void)before;
    (void)out;
    (void)max;
    return 0;
}
