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

// A signal to one message, and what became of it.
#define SIGNAL_ANSWER(A, S)                                                                        \
    A(S, CODE, code, "code", OMIT_NEVER, "OK: it was accepted.")                                   \
    A(S, CHARS, reason, "reason", OMIT_EMPTY, "Why it was refused.")                               \
    A(S, CHARS, id, "id", OMIT_EMPTY, "The id of the signal, in 32 hex digits.")                   \
    A(S, CHARS, message, "message", OMIT_EMPTY,                                                    \
      "Missing: a shard that could not be asked, with the code.")                                  \
    A(S, CHARS, token, "token", OMIT_EMPTY, "The lock that it is for, if a worker receives it.")   \
    A(S, SMALL, number, "number", OMIT_ZERO,                                                       \
      "Its number in its message, from 1. Missing: it was refused, or ended at once.")             \
    A(S, WORD, kind, "kind", OMIT_EMPTY, "steer, ask or interrupt.")                               \
    A(S, WORD, state, "state", OMIT_EMPTY,                                                         \
      "pending, acked, declined, expired, missed, withdrawn, or applied: an interrupt that ended " \
      "its message at once.")                                                                      \
    A(S, SMALL, deliveries, "deliveries", OMIT_ZERO, "How many locks got it.")                     \
    A(S, NUMBER, sent_at, "sentAt", OMIT_ZERO, NULL)                                               \
    A(S, NUMBER, until, "until", OMIT_ZERO,                                                        \
      "When a pending signal expires. For an interrupt, when the lock ends.")                      \
    A(S, NUMBER, ended_at, "endedAt", OMIT_ZERO, "Missing: it is pending.")                        \
    A(S, DATA, payload, "payload", OMIT_ZERO,                                                      \
      "Of a pending signal: the object of a steer, the text of an ask, the reason of an "          \
      "interrupt. A JSON object or list is written as such.")                                      \
    A(S, DATA, answer, "answer", OMIT_ZERO,                                                        \
      "Of an acked signal: the answer. Of a declined one: why.")

#define SIGNAL_ORDER(W, T)                                                                         \
    W(T, code), W(T, reason), W(T, id), W(T, message), W(T, token), W(T, number), W(T, kind),      \
        W(T, state), W(T, deliveries), W(T, sent_at), W(T, until), W(T, ended_at), W(T, payload),  \
        W(T, answer)

#define SIGNAL_ID_ANSWER(A, S)                                                                     \
    A(S, CHARS, id, "id", OMIT_EMPTY, "The id of the signal that was sent.")
#define SIGNAL_ID_ORDER(W, T)   W(T, id)

#define SIGNAL_ANSWER_TABLES(T) T(Signal, signal, sluice_signal_state, SIGNAL_ANSWER)
#define SIGNAL_PART_TABLES(T)   T(SignalId, signal_id, sluice_signals, SIGNAL_ID_ANSWER)
#define SIGNAL_COMPACT_TABLES(T)                                                                   \
    T(signal, signal_answer_rows, SIGNAL_ANSWER, SIGNAL_ORDER)                                     \
    T(signal_id, signal_id_answer_rows, SIGNAL_ID_ANSWER, SIGNAL_ID_ORDER)

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
