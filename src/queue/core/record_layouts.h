// SPDX-License-Identifier: Apache-2.0
// The stored fields of records, locks and ranges. They are constants of each file that uses them,
// so that the writer, the reader and the digest are in line (base/layout_flat.h). records.c has
// them as layouts of the snapshot.
#pragma once

#include "base/layout_flat.h"
#include "queue/core/state.h"

#define IN_LINE   static const __attribute__((unused))

#define LAYOUT_OF struct msg
IN_LINE struct layout_field record_fields[] = {
    U64(seq),
    U64(slot),
    U32(skip),
    U32(retries),
    U32(deliveries),
    ENUM(state, STATE_COUNT),
    U8(priority, .max = MESSAGE_PRIORITY_MAX),
    U8(flags, .max = MSG_OPENED | MSG_WAITING),
};
IN_LINE struct layout record_in_line = LAYOUT(record_fields);
#undef LAYOUT_OF

// Of a message that is not dead. The name of the worker follows if the lock is current.
#define LAYOUT_OF struct lock
IN_LINE struct layout_field lock_fields[] = {
    HASH(token),  U64(fence), I64(deadline), U64(order), U8(end, .max = LOCK_END_RELEASED),
    FLAG(ticket),
};
IN_LINE struct layout lock_in_line = LAYOUT(lock_fields);

IN_LINE struct layout_field death_fields[] = {
    U64(number), I64(died_at), U64(reason_slot), U32(reason_op), ENUM(cause, DEAD_CAUSE_COUNT),
};
IN_LINE struct layout death_in_line = LAYOUT(death_fields);
#undef LAYOUT_OF

#define LAYOUT_OF struct range
IN_LINE struct layout_field range_fields[] = {
    U64(seq, .min = 1),
    U64(slot),
    U32(count, .min = 1),
    U32(skip),
    U8(slots, .max = PLACE_SPAN - 1),
};
IN_LINE struct layout range_in_line = LAYOUT(range_fields);
#undef LAYOUT_OF
