// SPDX-License-Identifier: Apache-2.0
// The settings of a cluster: their defaults, and how two nodes compare them.
#include "cluster/tuning.h"

#include "base/check.h"
#include "base/duration.h"
#include "cluster/cluster.h"

#include <stdio.h>
#include <string.h>

static int64_t either(int64_t given, int64_t otherwise)
{
    return given > 0 ? given : otherwise;
}

struct tuning tuning_with(const struct tuning *t, int64_t lease_ms)
{
    struct cluster_config defaults;
    struct member_id any = {.name = "any"};
    CHECK(lease_ms > 0);
    cluster_config_defaults(&defaults, &any, lease_ms);
    return (struct tuning){.lease_ms = lease_ms,
                           .observe_ms = either(t->observe_ms, defaults.election.observe_ms),
                           .cool_down_ms = either(t->cool_down_ms, defaults.election.cool_down_ms),
                           .moves = t->moves,
                           .move_pause_ms = either(t->move_pause_ms, defaults.move_round_ms),
                           .move_cool_down_ms =
                               either(t->move_cool_down_ms, defaults.move_cool_down_ms)};
}

// A node that observes for less than a lease could ask while a leader is still there.
void tuning_apply(const struct tuning *t, struct cluster_config *c)
{
    struct tuning all = tuning_with(t, c->life.lease_ms);
    c->election.observe_ms = all.observe_ms > c->life.lease_ms ? all.observe_ms : c->life.lease_ms;
    c->election.cool_down_ms = all.cool_down_ms;
    c->moves_max = all.moves;
    c->move_round_ms = all.move_pause_ms;
    c->move_cool_down_ms = all.move_cool_down_ms;
}

void tuning_print(const struct tuning *t, char out[static TUNING_TEXT_MAX])
{
    char lease[DURATION_TEXT_MAX], observe[DURATION_TEXT_MAX], cool[DURATION_TEXT_MAX],
        pause[DURATION_TEXT_MAX], move[DURATION_TEXT_MAX], moves[16] = "auto";
    if (t->moves > 0) (void)snprintf(moves, sizeof moves, "%u", t->moves);
    (void)snprintf(out, TUNING_TEXT_MAX,
                   "lease=%s observe=%s coolDown=%s moves=%s movePause=%s moveCoolDown=%s",
                   duration_exact(t->lease_ms, lease), duration_exact(t->observe_ms, observe),
                   duration_exact(t->cool_down_ms, cool), moves,
                   duration_exact(t->move_pause_ms, pause),
                   duration_exact(t->move_cool_down_ms, move));
}

// The word of `text` that has the same key as this one; NULL: none.
static const char *same_key(const char *text, const char *word)
{
    size_t key = strcspn(word, "= ");
    while (*text) {
        if (strcspn(text, "= ") == key && strncmp(text, word, key) == 0) return text;
        text += strcspn(text, " ");
        text += strspn(text, " ");
    }
    return NULL;
}

bool tuning_differs(const char *a, const char *b, char out[static TUNING_DIFFERS_MAX])
{
    out[0] = 0;
    while (*a) {
        const char *other = same_key(b, a);
        size_t len = strcspn(a, " "), other_len = other ? strcspn(other, " ") : 0;
        if (other && (len != other_len || strncmp(a, other, len) != 0)) {
            (void)snprintf(out, TUNING_DIFFERS_MAX, "%.*s and %.*s", (int)(len < 80 ? len : 80), a,
                           (int)(other_len < 80 ? other_len : 80), other);
            return true;
        }
        a += len;
        a += strspn(a, " ");
    }
    return false;
}
