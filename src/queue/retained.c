// SPDX-License-Identifier: Apache-2.0
// Results, reasons and bodies of finished messages.
#include "queue/retained.h"

#include "base/check.h"
#include "base/memory.h"
#include "queue/state.h"

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
