// SPDX-License-Identifier: Apache-2.0
// The status of many queues. Each one waits for the store, so several are read at a time.
#include "api/handle.h"
#include "os/parallel.h"

struct status_run {
    struct sluice *s;
    const char *const *queues;
    unsigned what;
    struct sluice_queue_status *statuses;
};

static void read_status(void *ctx, size_t i)
{
    const struct status_run *t = ctx;
    struct sluice_queue_status *to = &t->statuses[i];
    const char *queue = t->queues[i];
    *to = (struct sluice_queue_status){.error = {.code = SLUICE_OK}};
    enum sluice_code code = SLUICE_OK;
    if (t->what & SLUICE_STATUS_INFO) code = sluice_queue_show(t->s, queue, &to->info, &to->error);
    if (!code && (t->what & SLUICE_STATUS_STATS))
        code = sluice_stats(t->s, queue, &to->stats, &to->error);
    to->error.code = code;
}

void sluice_queues_status(struct sluice *s, const char *const *queues, size_t len, unsigned what,
                          struct sluice_queue_status *out)
{
    struct status_run t = {.s = s, .queues = queues, .what = what, .statuses = out};
    parallel_for(handle_parallel(s), 0, len, read_status, &t);
}

void sluice_queues_status_done(struct sluice_queue_status *statuses, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        sluice_queue_info_free(statuses[i].info);
        statuses[i].info = NULL;
    }
}
