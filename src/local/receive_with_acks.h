// SPDX-License-Identifier: Apache-2.0
// async_receive with acks: both are under way at once, and the last to come answers.
#pragma once

#include "local/async.h"

void receive_with_acks(struct sluice *s, const char *queue, const struct sluice_receive *options,
                       struct async_call *l);
// It waits no longer: it ends as soon as its acks are answered, with nothing unless it was given
// something before.
void receive_with_acks_cancel(struct sluice *s, struct async_call *l);
