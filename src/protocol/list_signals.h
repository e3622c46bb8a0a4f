// SPDX-License-Identifier: Apache-2.0
// The calls that act on single messages: cancel and signals. protocol/list.h, which includes them,
// explains the columns.
#pragma once

#include "queue/codec/ops_signals.h"

#define CANCEL_REASON_FIELD(F, S)                                                                  \
    F(S, TEXT, reason, "reason", 0, FAIL_REASON_MAX, 0, "Why. It is kept and shown.")

#define CANCEL_FIELDS(F, S)                                                                        \
    F(S, TEXTS, ids, "ids", 0, ROUTE_ITEMS_MAX, 0, "The messages, by their ids.")                  \
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

#define SIGNALS_OF_OUTCOME(A, S)                                                                   \
    A(S, SMALL, signals, "signals", OMIT_ZERO, "For renewed: how many signals wait.")
#define SIGNALS_OF_MESSAGE(A, S)                                                                   \
    A(S, SIGNALS, signals, "signals", OMIT_EMPTY,                                                  \
      "A receive returns the signals that wait for the holder of the lock. A request by id "       \
      "returns up to 256 signals of the message: pending ones, then those that have ended, the "   \
      "newest first.")

#define SIGNAL_ORDER(W, T)                                                                         \
    W(T, code), W(T, reason), W(T, id), W(T, message), W(T, token), W(T, number), W(T, kind),      \
        W(T, state), W(T, deliveries), W(T, sent_at), W(T, until), W(T, ended_at), W(T, payload),  \
        W(T, answer)

#define SIGNAL_ID_ANSWER(A, S)                                                                     \
    A(S, CHARS, id, "id", OMIT_EMPTY, "The id of the signal that was sent.")
#define SIGNAL_ID_ORDER(W, T) W(T, id)

// The numbers follow: one for each token.
#define POLL_ORDER(W, T)      W(T, wait), W(T, tokens)

#define SIGNAL_ANSWER_TABLES(T)                                                                    \
    T(Signal, signal, sluice_signal_state, SIGNAL_ANSWER)                                          \
    T(Ended, collected, sluice_message, COLLECTED_ANSWER)
#define SIGNAL_PART_TABLES(T) T(SignalId, signal_id, sluice_signals, SIGNAL_ID_ANSWER)
#define SIGNAL_COMPACT_TABLES(T)                                                                   \
    T(signal, signal_answer_rows, SIGNAL_ANSWER, SIGNAL_ORDER)                                     \
    T(signal_id, signal_id_answer_rows, SIGNAL_ID_ANSWER, SIGNAL_ID_ORDER)                         \
    T(collected, collected_answer_rows, COLLECTED_ANSWER, COLLECTED_ORDER)                         \
    T(poll, signals_receive_rows, SIGNALS_RECEIVE_FIELDS, POLL_ORDER)

#define SIGNALS_RECEIVE_FIELDS(F, S)                                                               \
    F(S, TEXTS, tokens, "tokens", 0, SLUICE_SIGNAL_TOKENS_MAX, 0, "The tokens of the locks.")      \
    F(S, NUMBERS, after, "after", 0, UINT32_MAX, 0,                                                \
      "A number for each token: only signals with a higher one come. Without it, all that wait "   \
      "come.")                                                                                     \
    F(S, DURATION, wait, "wait", 0, RECEIVE_WAIT_MAX_MS, 0,                                        \
      "How long to wait if there is no signal, up to 20 s. Default 0.")

#define SIGNAL_WAIT_FIELDS(F, S)                                                                   \
    F(S, TEXT, signal, "signal", 0, 0, 0, "The id of the signal.")                                 \
    F(S, TEXT, message, "message", 0, 0, 0,                                                        \
      "Only the signal to this message. Without it, all messages that it went to.")                \
    F(S, DURATION, wait, "wait", 0, RECEIVE_WAIT_MAX_MS, 0,                                        \
      "How long to wait until the signal has ended, up to 20 s. Default 0.")

#define SIGNAL_TARGET_FIELDS(F, S)                                                                 \
    F(S, TEXTS, ids, "ids", 0, SIGNAL_TARGETS_MAX, 0,                                              \
      "The messages. Give exactly one of ids, workflow and worker.")                               \
    F(S, TEXT, workflow, "workflow", 0, MESSAGE_WORKFLOW_MAX, 0,                                   \
      "All messages of this workflow that have not ended.")                                        \
    F(S, TEXT, worker, "worker", 0, WORKER_NAME_MAX, 0, "All messages that this worker holds.")

#define SIGNAL_KIND_FIELD(F, S)                                                                    \
    F(S, TEXT, kind, "kind", 0, 16, 0,                                                             \
      "steer: new parameters for the job. ask: a question to it. interrupt: ends it.")

#define SIGNAL_PAYLOAD_FIELD(F, S)                                                                 \
    F(S, ANY, payload, "payload", 0, 0, 0,                                                         \
      "steer: an object of keys and values. ask: a text, or any other JSON value, which the job "  \
      "gets as its text. At most 64 KiB.")

#define SIGNAL_REST_FIELDS(F, S)                                                                   \
    F(S, BASE64, payload, "payloadBase64", 0, 0, 0, "The payload as bytes, instead.")              \
    F(S, DURATION, ttl, "ttl", 0, SIGNAL_TTL_MAX_MS, 0,                                            \
      "steer, ask: when the signal expires if no worker has acknowledged it. Default 1 h, at "     \
      "most 7 days.")                                                                              \
    F(S, TEXT, when_idle, "whenIdle", 0, 16, 0,                                                    \
      "steer, ask: if no worker holds the message, wait (default) or refuse.")                     \
    F(S, TEXT, on_lock_end, "onLockEnd", 0, 16, 0,                                                 \
      "steer, ask: if the lock ends first, sticky (default of steer): the next holder gets it; "   \
      "once (default of ask): it is missed.")                                                      \
    F(S, TEXT, reason, "reason", 0, FAIL_REASON_MAX, 0, "interrupt: why. It is kept and shown.")   \
    F(S, DURATION, grace, "grace", 0, SIGNAL_GRACE_MAX_MS, 0,                                      \
      "interrupt: how long the worker may still acknowledge the message. Default 30 s, at most "   \
      "24 h. 0: as now.")                                                                          \
    F(S, BOOL, now, "now", 0, 1, 0, "interrupt: the lock ends at once.")                           \
    F(S, TEXT, then, "then", 0, 16, 0,                                                             \
      "interrupt: what becomes of the message: cancel (default), retry or dead-letter.")

#define SIGNAL_FIELDS(F, S)                                                                        \
    SIGNAL_KIND_FIELD(F, S) SIGNAL_PAYLOAD_FIELD(F, S) SIGNAL_REST_FIELDS(F, S)
#define SIGNAL_SEND_FIELDS(F, S) SIGNAL_TARGET_FIELDS(F, S) SIGNAL_FIELDS(F, S)
#define SIGNAL_MEMBERS(F, S)                                                                       \
    SIGNAL_TARGET_FIELDS(F, S) SIGNAL_KIND_FIELD(F, S) SIGNAL_REST_FIELDS(F, S)

#define SIGNALS_MAX_FIELD(F, S)                                                                    \
    F(S, SMALL, max, "max", 1, 10000, 100, "How many rows the answer has at most.")
#define SIGNALS_FIELDS(F, S)                                                                       \
    F(S, TEXT, message, "message", 0, 0, 0,                                                        \
      "Returns the signals of this message, also those that have ended.")                          \
    SIGNALS_MAX_FIELD(F, S)

#define WITHDRAW_FIELDS(F, S)                                                                      \
    F(S, TEXT, signal, "signal", 0, 0, 0, "The id of the signal.")                                 \
    F(S, TEXT, message, "message", 0, 0, 0, "Only for this message. Default: for all.")

#define SIGNAL_ACK_FIRST_FIELDS(F, S)                                                              \
    F(S, TEXT, token, "token", 0, 0, 0, TOKENS_ABOUT)                                              \
    F(S, SMALL, number, "number", 0, UINT32_MAX, 0, "The number of the signal in its message.")    \
    F(S, BOOL, decline, "decline", 0, 1, 0,                                                        \
      "The job does not do it. The answer says why, such as not-listening.")
#define SIGNAL_ACK_ANSWER_FIELD(F, S)                                                              \
    F(S, ANY, answer, "answer", 0, 0, 0,                                                           \
      "The answer to the sender: a text, or any other JSON value. At most 256 KiB.")
#define SIGNAL_ACK_BYTES_FIELD(F, S)                                                               \
    F(S, BASE64, answer, "answerBase64", 0, 0, 0, "The answer as bytes, instead.")
#define SIGNAL_ACK_ROW_FIELDS(F, S)                                                                \
    SIGNAL_ACK_FIRST_FIELDS(F, S) SIGNAL_ACK_ANSWER_FIELD(F, S) SIGNAL_ACK_BYTES_FIELD(F, S)
#define SIGNAL_ACK_LIST_FIELD(F, S)                                                                \
    F(S, LIST, signals, "signals", 0, ROUTE_ITEMS_MAX, 0,                                          \
      "Several answers, each with these fields, instead of one.")
#define SIGNAL_ACK_FIELDS(F, S) SIGNAL_ACK_ROW_FIELDS(F, S) SIGNAL_ACK_LIST_FIELD(F, S)
#define SIGNAL_ACK_MEMBERS(F, S)                                                                   \
    SIGNAL_ACK_FIRST_FIELDS(F, S) SIGNAL_ACK_BYTES_FIELD(F, S) SIGNAL_ACK_LIST_FIELD(F, S)

#define COLLECT_FIELDS(F, S)                                                                       \
    F(S, TEXTS, ids, "ids", 0, SLUICE_COLLECT_MAX, 0, "The messages, by their ids.")               \
    F(S, TEXT, workflow, "workflow", 0, MESSAGE_WORKFLOW_MAX, 0,                                   \
      "Instead of ids: all messages of this workflow, also those that have ended, for "            \
      "retention. The answer names those that are left.")                                          \
    F(S, DURATION, wait, "wait", 0, RECEIVE_WAIT_MAX_MS, 0,                                        \
      "How long to wait if no message has ended, up to 20 s. Default 0.")                          \
    F(S, BOOL, all, "all", 0, 1, 0, "Waits until all have ended, not only for the first.")         \
    F(S, NUMBER, position, "position", 0, INT64_MAX, 0,                                            \
      "The position of an earlier answer: what ended before it comes without its result.")         \
    F(S, BOOL, running, "running", 0, 1, 0,                                                        \
      "Asks the running messages first. It needs the scope signal. The answers come, too.")        \
    F(S, TEXT, ask, "ask", 0, SIGNAL_PAYLOAD_MAX, 0, "The text of that question.")                 \
    F(S, TEXTS, signals, "signals", 0, SLUICE_COLLECT_MAX / SIGNAL_TARGETS_MAX, 0,                 \
      "The questions of an earlier answer, whose answers are awaited.")                            \
    F(S, TEXTS, asked, "asked", 0, SLUICE_COLLECT_MAX, 0,                                          \
      "The messages of an earlier answer, whose answers are awaited.")

// A message that has ended.
#define COLLECTED_ANSWER(A, S)                                                                     \
    A(S, CHARS, id, "id", OMIT_NEVER, NULL)                                                        \
    A(S, TEXT, state, "state", OMIT_NEVER,                                                         \
      "processed, dead, dead-lettered, cancelled, purged or redriven; finished: it is not known "  \
      "any more how it ended; unknown: it was never sent.")                                        \
    A(S, TEXT, reason, "reason", OMIT_EMPTY, "Why it failed, or was cancelled.")                   \
    A(S, TEXT, worker, "worker", OMIT_EMPTY, "The worker that had it last.")                       \
    A(S, SMALL, attempts, "attempts", OMIT_ZERO, "How often it was delivered.")                    \
    A(S, NUMBER, finished_at, "finishedAt", OMIT_ZERO, NULL)                                       \
    A(S, DATA, result, "result", OMIT_ZERO,                                                        \
      "The result that the worker gave. A JSON object or list is written as such.")                \
    A(S, TEXT, result_type, "resultType", OMIT_EMPTY, "The content type of the result.")

#define COLLECTED_ORDER(W, T)                                                                      \
    W(T, id), W(T, state), W(T, reason), W(T, worker), W(T, attempts), W(T, finished_at),          \
        W(T, result), W(T, result_type)

#define SIGNAL_REQUEST_STRUCTS(S)                                                                  \
    S(cancel_in, CANCEL_FIELDS)                                                                    \
    S(signal_in, SIGNAL_MEMBERS)                                                                   \
    S(signals_in, SIGNALS_FIELDS)                                                                  \
    S(withdraw_in, WITHDRAW_FIELDS)                                                                \
    S(signal_ack_in, SIGNAL_ACK_MEMBERS)                                                           \
    S(signals_receive_in, SIGNALS_RECEIVE_FIELDS)                                                  \
    S(signal_wait_in, SIGNAL_WAIT_FIELDS)                                                          \
    S(collect_in, COLLECT_FIELDS)

#define SIGNAL_REQUEST_TABLES(T)                                                                   \
    T(cancel, cancel_in, CANCEL_FIELDS)                                                            \
    T(cancel_one, cancel_in, CANCEL_REASON_FIELD)                                                  \
    T(signal_send, signal_in, SIGNAL_SEND_FIELDS)                                                  \
    T(signal, signal_in, SIGNAL_FIELDS)                                                            \
    T(signals, signals_in, SIGNALS_FIELDS)                                                         \
    T(signals_max, signals_in, SIGNALS_MAX_FIELD)                                                  \
    T(withdraw, withdraw_in, WITHDRAW_FIELDS)                                                      \
    T(signal_ack, signal_ack_in, SIGNAL_ACK_FIELDS)                                                \
    T(signal_ack_row, signal_ack_in, SIGNAL_ACK_ROW_FIELDS)                                        \
    T(signals_receive, signals_receive_in, SIGNALS_RECEIVE_FIELDS)                                 \
    T(signal_wait, signal_wait_in, SIGNAL_WAIT_FIELDS)                                             \
    T(collect, collect_in, COLLECT_FIELDS)

#define SIGNAL_CALLS(X)                                                                            \
    X(CANCEL, cancel, ROUTE_ACTS, .method = "POST", ROUTE_QUEUE "/cancel",                         \
      .body_max = (size_t)1 << 20, .body = &cancel_fields, .takes = "Cancel",                      \
      .operation = "cancelMessages", .summary = "Ends messages that no worker holds",              \
      .answer = "Cancelled", .about = "One outcome for each id, in the same order.")               \
    X(CANCEL_ONE, cancel_one, ROUTE_ACTS, .conflicts = true, .method = "DELETE",                   \
      ROUTE_QUEUE "/messages/{id}", .query = &cancel_one_fields, .operation = "cancelMessage",     \
      .summary = "Ends a message that no worker holds", .answer = "Outcome",                       \
      .about = "The message is cancelled. A dead message is purged.")                              \
    X(SIGNAL, signal, SENDS_SIGNAL, ROUTE_QUEUE "/signals", .body = &signal_send_fields,           \
      .takes = "SignalTo", .operation = "sendSignal",                                              \
      .summary = "Sends a signal to messages, a workflow or a worker")                             \
    X(SIGNAL_MESSAGE, signal, SENDS_SIGNAL, .conflicts = true,                                     \
      ROUTE_QUEUE "/messages/{id}/signals", .body = &signal_fields, .takes = "NewSignal",          \
      .operation = "signalMessage", .summary = "Sends a signal to a message")                      \
    X(SIGNAL_WORKFLOW, signal, SENDS_SIGNAL, ROUTE_QUEUE "/workflows/{workflow}/signals",          \
      .body = &signal_fields, .takes = "NewSignal", .operation = "signalWorkflow",                 \
      .summary = "Sends a signal to the messages of a workflow that have not ended")               \
    X(SIGNAL_WORKER, signal, SENDS_SIGNAL, ROUTE_QUEUE "/workers/{name}/signals",                  \
      .body = &signal_fields, .takes = "NewSignal", .operation = "signalWorker",                   \
      .summary = "Sends a signal to all messages that a worker holds")                             \
    X(SIGNALS, signals, LISTS_SIGNALS, ROUTE_QUEUE "/signals", .query = &signals_fields,           \
      .operation = "listSignals", .summary = "Lists the pending signals of a queue")               \
    X(SIGNALS_MESSAGE, signals, LISTS_SIGNALS, ROUTE_QUEUE "/messages/{id}/signals",               \
      .query = &signals_max_fields, .operation = "listMessageSignals",                             \
      .summary = "Lists the signals of a message")                                                 \
    X(SIGNALS_WORKFLOW, signals, LISTS_SIGNALS, ROUTE_QUEUE "/workflows/{workflow}/signals",       \
      .query = &signals_max_fields, .operation = "listWorkflowSignals",                            \
      .summary = "Lists the signals of the messages of a workflow that have not ended")            \
    X(SIGNALS_WORKER, signals, LISTS_SIGNALS, ROUTE_QUEUE "/workers/{name}/signals",               \
      .query = &signals_max_fields, .operation = "listWorkerSignals",                              \
      .summary = "Lists the signals of the messages that a worker holds")                          \
    X(WITHDRAW, signal_withdraw, WITHDRAWS_SIGNAL, ROUTE_QUEUE "/signals",                         \
      .query = &withdraw_fields, .operation = "withdrawSignal",                                    \
      .summary = "Withdraws a signal wherever it is pending")                                      \
    X(WITHDRAW_ONE, signal_withdraw, WITHDRAWS_SIGNAL, .conflicts = true,                          \
      ROUTE_QUEUE "/messages/{id}/signals/{signal}", .operation = "withdrawMessageSignal",         \
      .summary = "Withdraws a signal to a message")                                                \
    X(SIGNALS_ACK, signals_ack, .method = "POST", ROUTE_QUEUE "/signals/ack", .scope = SCOPE_WORK, \
      .body_max = SIZE_MAX, .repeat = REPEAT_ID, .tag = "signals", .conflicts = true,              \
      .fences = true, .body = &signal_ack_fields, .takes = "SignalAck", .operation = "ackSignals", \
      .summary = "Answers signals, as the holder of the locks", .answer = "SignalOutcomes",        \
      .about = "One outcome, or one per answer in the same order.")                                \
    X(SIGNALS_RECEIVE, signals_receive, .method = "POST", .scope = SCOPE_WORK,                     \
      ROUTE_QUEUE "/signals/receive", .body_max = (size_t)4 << 20, .repeat = REPEAT_SAME,          \
      .compact = COMPACT_BOTH, .body = &signals_receive_fields, .takes = "SignalsReceive",         \
      .tag = "signals", .operation = "receiveSignals",                                             \
      .summary = "Waits for signals to the holders of locks", .answer = "Signals",                 \
      .about = "The signals, in the order of their numbers. If a lock is not in force, its row "   \
               "has a code and a reason. No row: nothing came.")                                   \
    X(SIGNAL_WAIT, signal_wait, .method = "GET", .scope = SCOPE_READ, ROUTE_QUEUE "/signals/wait", \
      .query = &signal_wait_fields, .compact = COMPACT_ANSWER, .tag = "signals",                   \
      .operation = "waitForSignal", .summary = "Waits until a signal has ended",                   \
      .answer = "Signals",                                                                         \
      .about = "A row for each message. Those that are still pending when the time is over say "   \
               "so.")                                                                              \
    X(COLLECT, collect, .method = "POST", .scope = SCOPE_READ, ROUTE_QUEUE "/collect",             \
      .blocks = true, .body_max = (size_t)16 << 20, .repeat = REPEAT_SAME,                         \
      .compact = COMPACT_ANSWER, .body = &collect_fields, .takes = "Collect", .tag = "signals",    \
      .operation = "collectMessages", .summary = "Waits for the outcomes of messages",             \
      .answer = "Collected",                                                                       \
      .about = "The messages that have ended, with their results. Ask for the others again.")

#define ROUTE_ACTS .scope = SCOPE_SIGNAL, .repeat = REPEAT_ID, .tag = "signals"
#define SENDS_SIGNAL                                                                               \
    ROUTE_ACTS, .method = "POST", .body_max = (size_t)1 << 20, .compact = COMPACT_ANSWER,          \
                .answer = "Signalled", .about = "One row for each message. The signal is durable."
#define LISTS_SIGNALS                                                                              \
    ROUTE_READS,                                                                                   \
        .tag = "signals", .compact = COMPACT_ANSWER, .answer = "Signals",                          \
        .about = "Pending signals by number, then those that have ended, the newest first."
#define WITHDRAWS_SIGNAL                                                                           \
    ROUTE_ACTS, .method = "DELETE", .compact = COMPACT_ANSWER, .answer = "Signalled",              \
                .about = "One row for each message."
