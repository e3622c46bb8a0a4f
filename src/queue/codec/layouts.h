// SPDX-License-Identifier: Apache-2.0
// The field lists (base/layout.h) of ops, results and messages: what they have in common, and the
// table of all of them. A list with the name x is the layout x_layout. docs/format.md has each.
#pragma once

#include "base/layout.h"
#include "base/layout_table.h"

#define OPS_VERSION 1

// The first fields of each op.
#define OP_HEAD     MARK(1, "version", OPS_VERSION), FIXED(request)

#define CODEC_LAYOUTS(X)                                                                           \
    X(event_origin)                                                                                \
    X(grant)                                                                                       \
    X(lock_ref)                                                                                    \
    X(message)                                                                                     \
    X(op_arrive)                                                                                   \
    X(op_cancel)                                                                                   \
    X(op_claim)                                                                                    \
    X(op_configure)                                                                                \
    X(op_dispatch)                                                                                 \
    X(op_lock)                                                                                     \
    X(op_outbox)                                                                                   \
    X(op_outcome)                                                                                  \
    X(op_plain)                                                                                    \
    X(op_publish)                                                                                  \
    X(op_published)                                                                                \
    X(op_purge)                                                                                    \
    X(op_raise)                                                                                    \
    X(op_redrive)                                                                                  \
    X(op_signal)                                                                                   \
    X(op_signal_further)                                                                           \
    X(op_signal_settle)                                                                            \
    X(op_signal_withdraw)                                                                          \
    X(op_spent)                                                                                    \
    X(op_workers)                                                                                  \
    X(outcome_extra)                                                                               \
    X(outcome_row)                                                                                 \
    X(reason_row)                                                                                  \
    X(send_row)                                                                                    \
    X(seq)                                                                                         \
    X(signal_answer)                                                                               \
    X(signal_row)                                                                                  \
    X(ticket_row)                                                                                  \
    X(worker_change)

CODEC_LAYOUTS(LAYOUT_DECLARE)
