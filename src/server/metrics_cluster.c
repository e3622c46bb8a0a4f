// SPDX-License-Identifier: Apache-2.0
// The numbers of the cluster, as this node sees it. A node of no cluster shows none.
#include "member/member.h"
#include "server/inside.h"
#include "server/metrics_text.h"

#include <string.h>

static void show_members(struct buf *to, const struct membership_status *s)
{
    size_t of[LIFE_GONE + 1] = {0};
    metric_family(to, "sluice_cluster_members", METRIC_GAUGE, "Nodes by their health.");
    for (size_t i = 0; i < s->members_len; i++)
        of[s->members[i].life]++;
    for (int life = 0; life <= LIFE_GONE; life++)
        metric_count(to, "sluice_cluster_members", LABELS("status", life_name((enum life)life)),
                     of[life]);
    metric_family(to, "sluice_cluster_heartbeat_age_seconds", METRIC_GAUGE,
                  "Since the last sign of life of each node.");
    for (size_t i = 0; i < s->members_len; i++)
        metric_value(to, "sluice_cluster_heartbeat_age_seconds", LABELS("node", s->members[i].name),
                     s->members[i].beat_age_ms > 0 ? (double)s->members[i].beat_age_ms / 1e3 : 0);
}

static void show_plan(struct buf *to, const struct membership_status *s)
{
    size_t mine = 0, moving = 0;
    for (size_t i = 0; i < s->shards_len; i++) {
        mine += s->shards[i].mine;
        moving += s->shards[i].moving;
    }
    metric_gauge(to, "sluice_cluster_leader", "1 if this node leads.",
                 s->leader[0] && strcmp(s->leader, s->node) == 0);
    metric_gauge(to, "sluice_cluster_epoch", "The epoch of the leader.", (double)s->epoch);
    metric_gauge(to, "sluice_cluster_shards_owned", "Shards that this node owns.", (double)mine);
    metric_gauge(to, "sluice_cluster_shards_moving",
                 "Shards that this node takes over or gives away now.", (double)moving);
    metric_gauge(to, "sluice_cluster_moves_waiting", "Moves that a limit puts off.", s->waiting);
    metric_gauge(to, "sluice_cluster_shards_unowned",
                 "Shards that no node owns. Only the leader counts them.", s->unowned);
    metric_gauge(to, "sluice_cluster_unowned_events",
                 "Events that wait in these shards for the bus.", (double)s->unowned_events);
    metric_gauge(to, "sluice_cluster_draining", "1 if this node gives its shards away.",
                 s->draining);
}

static void show_counters(struct buf *to, const struct membership_counters *c)
{
    metric_counter(to, "sluice_cluster_elections_total", "Leaders that this node saw elected.",
                   c->elections);
    metric_counter(to, "sluice_cluster_epoch_renewals_total", "Renewals of this node's own epoch.",
                   c->renewals);
    metric_family(to, "sluice_cluster_moves_total", METRIC_COUNTER,
                  "Shards that changed their owner, as this node saw it.");
    metric_count(to, "sluice_cluster_moves_total", LABELS("kind", "acquired"), c->acquired);
    metric_count(to, "sluice_cluster_moves_total", LABELS("kind", "handed-over"), c->handed_over);
    metric_count(to, "sluice_cluster_moves_total", LABELS("kind", "lost"), c->lost);
    metric_counter(to, "sluice_cluster_fenced_epochs_total",
                   "Epochs and claims of this node that a newer owner ended.", c->fenced);
    metric_family(to, "sluice_cluster_hints_total", METRIC_COUNTER,
                  "Hints between nodes that a shard is used or that a plan is new.");
    metric_count(to, "sluice_cluster_hints_total", LABELS("kind", "sent"), c->hints_sent);
    metric_count(to, "sluice_cluster_hints_total", LABELS("kind", "received"), c->hints_received);
    metric_count(to, "sluice_cluster_hints_total", LABELS("kind", "dropped"), c->hints_dropped);
}

static void show_coordination(struct buf *to, const struct membership_status *s)
{
    const struct membership_counters *c = &s->counters;
    metric_gauge(to, "sluice_coordination_up", "0 while the coordination service does not answer.",
                 !s->degraded);
    metric_gauge(to, "sluice_coordination_outage_seconds",
                 "How long it has not answered. 0: it answers.", (double)s->degraded_ms / 1e3);
    metric_counter(to, "sluice_coordination_outages_total", "Outages of the coordination service.",
                   c->degraded);
    metric_counter(to, "sluice_coordination_requests_total", "Calls of the coordination service.",
                   c->requests);
    metric_counter(to, "sluice_coordination_errors_total", "Calls that it did not answer.",
                   c->errors);
    metric_family(to, "sluice_coordination_latency_seconds_total", METRIC_COUNTER,
                  "The time of all these calls.");
    metric_value(to, "sluice_coordination_latency_seconds_total", NULL,
                 (double)c->latency_ms_sum / 1e3);
    metric_gauge(to, "sluice_coordination_latency_max_seconds",
                 "The slowest call of the last minute or two.", (double)c->latency_ms_max / 1e3);
}

void metrics_cluster(struct server *s, struct buf *to)
{
    struct membership_status status;
    if (!s->member) return;
    membership_status(s->member, &status);
    show_members(to, &status);
    show_plan(to, &status);
    show_counters(to, &status.counters);
    show_coordination(to, &status);
    membership_status_done(&status);
}
