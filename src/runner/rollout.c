// SPDX-License-Identifier: Apache-2.0
// Whether an owner grants tickets.
#include "runner/rollout.h"

#include <stdatomic.h>

bool dispatch_is_on(struct dispatch_rollout *d)
{
    if (!d) return true;
    int state = atomic_load(&d->state);
    if (state == ROLLOUT_SHADOW) atomic_fetch_add(&d->withheld, 1);
    return state == ROLLOUT_ON;
}
