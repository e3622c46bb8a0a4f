// SPDX-License-Identifier: Apache-2.0
// One seed of the journal's world, and of those that are built on it.
#include "base/memory.h"
#include "check.h"
#include "runner.h"

bool world_try(uint64_t seed, const struct runner_options *o, struct buf *all,
               struct runner_sum *sum, uint64_t *hash)
{
    struct world *w = NEW(struct world);
    struct world_options options = {.seed = seed,
                                    .lying = o->lying,
                                    .scenario = o->scenario,
                                    .print = o->trace ? stdout : NULL,
                                    .all = all};
    world_init(w, &options);
    if (o->tap) w->trace.prefix = "# ";
    world_run(w);
    sum->steps += w->steps;
    world_sum(w, sum);
    bool held = runner_note(seed, &w->trace, &w->findings, o, sum);
    *hash = w->trace.hash;
    world_done(w);
    memory_free(w);
    return held;
}
