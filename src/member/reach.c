// SPDX-License-Identifier: Apache-2.0
// Asks the other members every few seconds whether they answer. Coordination sees a member that
// renews its lease, also if no peer reaches it. The leader collects from each member which other
// ones do not answer it. So the reports also come to a leader that no member reaches.
#include "member/inside.h"

#include "base/memory.h"
#include "os/clock.h"
#include "os/lock.h"
#include "queues/waiting_workers.h"
#include "json/json.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define REACH_MS    3000 // between two rounds
#define REACH_FAILS 2    // rounds without an answer, before it is reported
#define REPORT_MAX  ((size_t)1 << 20)

// The lock is held. False: no member has the name.
static bool find_member(const struct membership *m, const char *name, struct member_id *out)
{
    for (size_t i = 0; i < m->last.members_len; i++) {
        const struct coord_member *row = &m->last.members[i];
        if (strcmp(row->name, name) != 0) continue;
        member_id_set(out, row->name, row->incarnation);
        return true;
    }
    return false;
}

static void report(struct membership *m, const char *by, const char *about)
{
    struct cluster_event e = {.kind = CLUSTER_UNREACHABLE};
    (void)pthread_mutex_lock(&m->lock);
    bool known = find_member(m, by, &e.member) && find_member(m, about, &e.other);
    (void)pthread_mutex_unlock(&m->lock);
    if (known) membership_step(m, &e);
}

void membership_unreached(struct membership *m, void (*each)(void *ctx, const char *name),
                          void *ctx)
{
    LOCKED(&m->lock);
    for (size_t i = 0; i < m->reach_len; i++)
        if (m->reach_rows[i].fails >= REACH_FAILS) each(ctx, m->reach_rows[i].name);
}

// The lock is held.
static struct reach_row *row_of(struct membership *m, const char *name)
{
    for (size_t i = 0; i < m->reach_len; i++)
        if (strcmp(m->reach_rows[i].name, name) == 0) return &m->reach_rows[i];
    m->reach_rows = memory_resize(m->reach_rows, (m->reach_len + 1) * sizeof *m->reach_rows);
    struct reach_row *row = &m->reach_rows[m->reach_len++];
    *row = (struct reach_row){.fails = 0};
    (void)snprintf(row->name, sizeof row->name, "%s", name);
    return row;
}

// Returns whether the member counts as unreached.
static bool note_answer(struct membership *m, const char *name, bool answered)
{
    LOCKED(&m->lock);
    struct reach_row *row = row_of(m, name);
    row->fails = answered ? 0 : row->fails + 1;
    return row->fails >= REACH_FAILS;
}

// The lock is held. Names of members that are gone are forgotten, so that the list stays short.
static void forget_rows(struct membership *m)
{
    size_t kept = 0;
    struct member_id id;
    for (size_t i = 0; i < m->reach_len; i++)
        if (find_member(m, m->reach_rows[i].name, &id)) m->reach_rows[kept++] = m->reach_rows[i];
    m->reach_len = kept;
}

// The leader takes over what the member reports. It has proven that it can read the store.
static void collect(struct membership *m, const struct coord_member *from)
{
    char why[128], name[COORD_NAME_MAX + 1];
    LOCAL(buf, text, REPORT_MAX);
    if (!owner_get_member(m->engine, from->url, from->name, "/v1/cluster/unreachable", &text))
        return;
    struct json *o = json_parse((const char *)text.data, text.len, why, sizeof why);
    struct json *names = o && json_kind(o) == JSON_KIND_OBJECT ? json_member(o, "members") : NULL;
    size_t len = names && json_kind(names) == JSON_KIND_LIST ? json_list_len(names) : 0;
    for (size_t i = 0; i < len; i++) {
        const struct json *row = json_list_at(names, i);
        if (json_kind(row) != JSON_KIND_TEXT || json_as_text(row).len >= sizeof name) continue;
        struct bytes value = json_as_text(row);
        (void)snprintf(name, sizeof name, "%.*s", (int)value.len, (const char *)value.data);
        report(m, from->name, name);
    }
    json_free(o);
}

int64_t reach_run(struct pool_task *task)
{
    struct membership *m =
        (struct membership *)((char *)task - offsetof(struct membership, reach_task));
    task_may_block(task);
    (void)pthread_mutex_lock(&m->lock);
    size_t len = m->last.members_len;
    CLEANUP(memory_let_go) struct coord_member *members = memory_zeroed(len + 1, sizeof *members);
    if (len > 0) memcpy(members, m->last.members, len * sizeof *members);
    bool over = m->left || m->stopping;
    bool leads = strcmp(m->last.leader.name, m->self.name) == 0;
    forget_rows(m);
    (void)pthread_mutex_unlock(&m->lock);
    for (size_t i = 0; !over && len > 2 && i < len; i++) {
        const struct coord_member *other = &members[i];
        if (strcmp(other->name, m->self.name) == 0) continue;
        bool answered = member_answers(other->url, other->name);
        if (note_answer(m, other->name, answered)) report(m, m->self.name, other->name);
        if (answered && leads) collect(m, other);
    }
    return clock_boot_ms() + REACH_MS;
}
