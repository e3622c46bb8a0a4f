// SPDX-License-Identifier: Apache-2.0
// The calls that act on single messages: cancel and signals. calls/list.h, which includes them,
// explains the columns.
#pragma once

#include "queue/ops_signals.h"

#define CANCEL_REASON_FIELD(F, S)                                                                  \
    F(S, TEXT, reason, "reason", 0, FAIL_REASON_MAX, 0, "Why. It is kept and shown.")

#define CANCEL_FIELDS(F, S)                                                                        \
    F(S, TEXTS, ids, "ids", 0, CALL_ITEMS_MAX, 0, "The messages, by their ids.")                   \
    CANCEL_REASON_FIELD(F, S)

#define SIGNAL_REQUEST_STRUCTS(S) S(cancel_in, CANCEL_FIELDS)

#define SIGNAL_REQUEST_TABLES(T)                                                                   \
    T(cancel, cancel_in, CANCEL_FIELDS)                                                            \
    T(cancel_one, cancel_in, CANCEL_REASON_FIELD)

#define SIGNAL_CALLS(X)                                                                            \
    X(CANCEL, cancel, CALL_ACTS, .method = "POST", CALL_QUEUE "/cancel",                           \
      .body_max = (size_t)1 << 20, .body = &cancel_fields, .takes = "Cancel",                      \
      .operation = "cancelMessages", .summary = "Ends messages that no worker holds",              \
      .answer = "Cancelled", .about = "One outcome for each id, in the same order.")               \
    X(CANCEL_ONE, cancel_one, CALL_ACTS, .method = "DELETE", CALL_QUEUE "/messages/{id}",          \
      .query = &cancel_one_fields, .operation = "cancelMessage",                                   \
      .summary = "Ends a message that no worker holds", .answer = "Outcome",                       \
      .about = "The message is cancelled. A dead message is purged.")

#define CALL_ACTS                                                                                  \
    .scope = SCOPE_SIGNAL, .blocks = true, .repeat = REPEAT_ID, .tag = "signals", .conflicts = true
