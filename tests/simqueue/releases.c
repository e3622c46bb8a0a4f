// SPDX-License-Identifier: Apache-2.0
// Programs of two releases: in every fourth world a start of a handle is one of the older or of the
// newer program, as chance has it. Each shard is raised at some moment to the version that only the
// newer knows, and once more. A handle of the older program then stops, and is replaced by one of
// the newer program a while later. A handle that crashes after the raise may come back as the older
// program: that is a downgrade, and it stops. The executable is linked with
// tests/support/rules_next.c.
#include "check.h"

#include "base/hash.h"

#define OLDER RULES_KNOWN
#define NEWER (RULES_KNOWN + 1)

void releases_draw(struct world *w)
{
    struct life *life = w->life;
    rng_init(&life->releases, hash64_mix(w->seed, 0x72756c6573));
    life->raises = !life_is_crowd(w) && rng_chance(&life->releases, 2500);
    for (uint32_t i = 0; life->raises && i < 2 * life->lanes_len; i++)
        life_after(w, rng_range(&life->releases, 2 * SECOND, w->mix.run_ms), LIFE_RAISE, i / 2, 0);
}

uint16_t releases_start(struct world *w, struct handle *h)
{
    struct life *life = w->life;
    if (!life->raises) return NEWER;
    bool older = rng_chance(&life->releases, 4500) && !h->upgrades && !life_drains(w);
    h->upgrades = false;
    return older ? OLDER : NEWER;
}

void releases_stopped(struct world *w, const struct node *n)
{
    struct handle *h = &w->life->handles[n->index];
    if (h->upgrades) return; // on its way
    h->upgrades = true;
    trace_line(&w->trace, w->now, "n%u.%u needs an upgrade", n->index, n->life);
    life_after(w, rng_range(&w->life->releases, 100, 8 * SECOND), LIFE_UPGRADE, n->index, n->life);
}

void releases_upgrade(struct world *w, uint32_t node, uint32_t life)
{
    struct node *n = &w->nodes[node];
    if (!n->up || n->life != life) return;
    node_crash(w, n);
    if (!w->findings.broken) node_start(w, n);
}
