// SPDX-License-Identifier: Apache-2.0
#include "ops/queue_calls.h"

#include "base/memory.h"
#include "ops/awaits.h"
#include "ops/mailbox_rounds.h"

void queue_calls_new(struct open_queue *q)
{
    q->calls = NEW(struct queue_calls);
    q->calls->queue = q;
}

void queue_calls_free(struct open_queue *q)
{
    awaits_free(q);
    mailbox_rounds_free(q->calls->mailbox_rounds);
    memory_free(q->calls);
}
