// SPDX-License-Identifier: Apache-2.0
// The calls of an engine: what they share, their begin and their end.
#pragma once

#include "ops/async.h"
#include "ops/queue_calls.h"
#include "protocol/library_calls.h"

struct ops {
    struct blocked_sends *blocked;              // sends that wait for space
    struct announcements *announcements;        // messages that were announced to other processes
    struct mailbox_sessions *_Atomic mailboxes; // of the workers of this process; NULL: none
    struct upkeep *upkeep;                      // NULL before upkeep_start and after upkeep_stop
};

// Calls are possible after it. ERR_LIMIT: the process cannot create a thread; use ops_stop then,
// too.
MUST_USE enum err ops_start(struct engine *e);
// Ends what waits, waits for what is under way, and moves the dead letters that are left.
void ops_stop(struct engine *e);

// ops_<name>, the calls of sluice.h on a store.
#define OPS_CALL(result, public, made, name, params, args) result ops_##name params;
LIBRARY_CALLS(OPS_CALL, struct engine *e)
#undef OPS_CALL
// start_<name>: the same, as struct request_origin says.
#define START_WAIT(result, name, params)
#define START_START(result, name, params)                    result start_##name params;
#define START_CALL(result, public, made, name, params, args) START_##made(result, name, params)
LIBRARY_CALLS(START_CALL, const struct request_origin *as)
#undef START_CALL
#undef START_START
#undef START_WAIT
enum sluice_code ops_events_next(struct sluice_events *e, int64_t wait_ms, struct sluice_event *out,
                                 struct sluice_error *error);
void ops_events_close(struct sluice_events *e);
