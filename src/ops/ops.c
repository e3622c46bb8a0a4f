// SPDX-License-Identifier: Apache-2.0
#include "ops/ops.h"

#include "base/memory.h"
#include "ops/announcements.h"
#include "ops/mailbox_session.h"
#include "ops/upkeep.h"
#include "ops/waiting_receives.h"

#define ARGUMENTS(...) __VA_ARGS__
#define MADE_WAIT(result, name, params, args)
#define MADE_START(result, name, params, args)                                                     \
    result ops_##name params                                                                       \
    {                                                                                              \
        return start_##name(&(struct request_origin){.engine = e}, ARGUMENTS args);                \
    }
#define MADE_CALL(result, public, made, name, params, args) MADE_##made(result, name, params, args)
LIBRARY_CALLS(MADE_CALL, struct engine *e)

enum err ops_start(struct engine *e)
{
    e->ops = NEW(struct ops);
    e->hooks = (struct engine_hooks){
        .opened = queue_calls_new, .closed = queue_calls_free, .moved = queue_reroute};
    enum err err = blocked_sends_new(e, &e->ops->blocked);
    if (!err) err = upkeep_start(e);
    return err ? err : announcements_new(e, &e->ops->announcements);
}

void ops_stop(struct engine *e)
{
    blocked_sends_stop(e->ops->blocked);
    pool_share_free(e->jobs);
    blocked_sends_free(e->ops->blocked);
    mailbox_sessions_free(e);
    upkeep_stop(e);
    struct owner_cluster *cluster = atomic_load(&e->cluster);
    if (cluster) cluster->free(cluster);
    announcements_free(e->ops->announcements);
    memory_free(e->ops);
    e->ops = NULL;
}
