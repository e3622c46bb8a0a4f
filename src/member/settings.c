// SPDX-License-Identifier: Apache-2.0
// The settings of the cluster that nodes should agree on. The record of a member has them. Nodes
// that disagree go on: the journals keep every promise. But they end each other's leases too early,
// or undo each other's moves.
#include "member/inside.h"

#include "os/lock.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

void settings_tell(struct membership *m)
{
    static_assert(sizeof m->self.settings == TUNING_TEXT_MAX, "the text fits");
    struct tuning all = tuning_with(&m->config.tuning, coord_lease_ms(m->coord));
    LOCKED(&m->lock);
    tuning_print(&all, m->self.settings);
}

static bool is_listed(const struct coord_answer *a, const struct coord_member *member)
{
    for (size_t i = 0; i < a->members_len; i++)
        if (memcmp(a->members[i].incarnation, member->incarnation, sizeof member->incarnation) == 0)
            return true;
    return false;
}

void settings_compare(struct membership *m, const struct coord_answer *listed)
{
    char what[TUNING_DIFFERS_MAX];
    LOCKED(&m->lock);
    for (size_t i = 0; m->config.differs && i < listed->members_len; i++) {
        const struct coord_member *row = &listed->members[i];
        if (!is_listed(&m->last, row) && tuning_differs(m->self.settings, row->settings, what))
            m->config.differs(m->config.event_ctx, row->name, what);
    }
}

void settings_show(const struct membership *m, struct membership_status *s)
{
    char what[TUNING_DIFFERS_MAX];
    memcpy(s->settings, m->self.settings, sizeof s->settings);
    for (size_t i = 0; i < s->members_len && !s->differs[0]; i++)
        if (tuning_differs(m->self.settings, s->members[i].settings, what))
            (void)snprintf(s->differs, sizeof s->differs, "%.60s and %.60s have %.100s",
                           m->self.name, s->members[i].name, what);
}
