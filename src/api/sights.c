// SPDX-License-Identifier: Apache-2.0
// Looking at many queues: each look waits for the store, so several are made at a time.
#include "api/inside.h"
#include "api/together.h"

struct tour {
    struct sluice *s;
    const char *const *queues;
    unsigned what;
    struct sluice_sight *sights;
};

static void see(void *ctx, size_t i)
{
    const struct tour *t = ctx;
    struct sluice_sight *to = &t->sights[i];
    const char *queue = t->queues[i];
    *to = (struct sluice_sight){.error = {.code = SLUICE_OK}};
    enum sluice_code code = SLUICE_OK;
    if (t->what & SLUICE_SEE_INFO) code = sluice_queue_show(t->s, queue, &to->info, &to->error);
    if (!code && (t->what & SLUICE_SEE_STATS))
        code = sluice_stats(t->s, queue, &to->stats, &to->error);
    to->error.code = code;
}

void sluice_look(struct sluice *s, const char *const *queues, size_t len, unsigned what,
                 struct sluice_sight *out)
{
    struct tour t = {.s = s, .queues = queues, .what = what, .sights = out};
    together(len, see, &t);
}

void sluice_sights_done(struct sluice_sight *sights, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        sluice_queue_info_free(sights[i].info);
        sights[i].info = NULL;
    }
}
