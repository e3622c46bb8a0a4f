// SPDX-License-Identifier: Apache-2.0
// An event of a fold in the form of sluice.h, for a reader that uses it at once.
#pragma once

#include "protocol/names.h"
#include "queue/codec/event.h"

struct event_view {
    struct sluice_event event; // its texts are below, or constants
    char id[EVENT_ID_MAX];
    char message[SLUICE_ID_MAX];
    char worker[WORKER_NAME_MAX + 1];
    char reason[FAIL_REASON_MAX + 1];
    char from_queue[QUEUE_NAME_MAX + 1];
    char from_id[MESSAGE_ID_MAX];
    char from_reason[FAIL_REASON_MAX + 1];
    char from_worker[WORKER_NAME_MAX + 1];
    char signal[SLUICE_SIGNAL_ID_MAX];
    char workflow[MESSAGE_WORKFLOW_MAX + 1];
    char key[EVENT_KEY_MAX];
};

const char *event_status(const struct event *e); // of a message's outcome or of a signal; "": none
// The id of the event's signal; "": it is about none. Returns `out`.
const char *event_signal(const struct event *e, char out[static SLUICE_SIGNAL_ID_MAX]);
const char *event_signal_kind(const struct event *e); // "": it is about none

void event_view_fill(struct queue_ref q, uint32_t shard, const struct events *list,
                     const struct event *e, struct event_view *out);
