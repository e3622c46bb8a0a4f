// SPDX-License-Identifier: Apache-2.0
// async_receive with acks: two calls, the acks and the receive, with one answer when both have
// ended.
#pragma once

#include "local/async.h"

void receive_with_acks(struct sluice *s, const char *queue, const struct sluice_receive *options,
                       struct async_call *l);
// The receive stops waiting. The call ends when its acks are answered, without messages unless the
// receive has claimed some already.
void receive_with_acks_cancel(struct sluice *s, struct async_call *l);
