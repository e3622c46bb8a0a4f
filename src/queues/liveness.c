// SPDX-License-Identifier: Apache-2.0
// The write has the size of a disk's smallest unit, so a full disk refuses it.
#include "queues/liveness.h"

#include "base/hash.h"
#include "queues/queues.h"
#include "store/identity.h"
#include "store/meter.h"

#include <stdio.h>
#include <string.h>

#define LIVENESS_BYTES  4096
#define LOW_LATENCY_MS  2000
#define HIGH_LATENCY_MS 10000

int64_t liveness_holds_ms(const struct engine *e)
{
    return store_is_high_latency(e->store) ? HIGH_LATENCY_MS : LOW_LATENCY_MS;
}

bool liveness_is_dead(const struct engine *e, struct sluice_error *error)
{
    char why[STORE_WHY_MAX];
    if (!store_is_dead(e->store, why)) return false;
    bool lost = store_identity_is_lost(e->identity);
    (void)refuse(error, lost ? ERR_CORRUPT : ERR_UNAVAILABLE, "store", "%s", why);
    return true;
}

bool liveness_concern(const struct engine *e, enum store_concern what, struct sluice_error *error)
{
    char why[STORE_WHY_MAX];
    if (!store_concern(e->store, what, why)) return false;
    (void)refuse(error, ERR_OK, "store", "%s", why);
    return true;
}

enum sluice_code liveness_write(struct engine *e, const char *writer, struct sluice_error *error)
{
    char key[32];
    uint8_t body[LIVENESS_BYTES];
    memset(body, ' ', sizeof body);
    (void)snprintf(key, sizeof key, "pulse/%016llx",
                   (unsigned long long)hash64_of(bytes_str(writer), 0));
    LOCAL(store_answer, a);
    enum err err = store_put(e->store, key, bytes_of(body, sizeof body), &a);
    return err ? refuse_store(e, error, err, "the store", &a) : SLUICE_OK;
}
