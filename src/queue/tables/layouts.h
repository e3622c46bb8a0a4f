// SPDX-License-Identifier: Apache-2.0
// All layouts of the queue's snapshot (base/layout.h). docs/format.md has each of them.
#pragma once

#define SNAPSHOT_LAYOUTS(X)                                                                        \
    X(affinity_row)                                                                                \
    X(body_row)                                                                                    \
    X(cost)                                                                                        \
    X(cost_ledger)                                                                                 \
    X(cursor)                                                                                      \
    X(cursor_mark)                                                                                 \
    X(dedup_row)                                                                                   \
    X(ended_signal)                                                                                \
    X(failure)                                                                                     \
    X(letter_source)                                                                               \
    X(machine)                                                                                     \
    X(machine_head)                                                                                \
    X(pending_signal)                                                                              \
    X(range)                                                                                       \
    X(record)                                                                                      \
    X(record_death)                                                                                \
    X(record_lock)                                                                                 \
    X(registration)                                                                                \
    X(request_row)                                                                                 \
    X(retained_row)                                                                                \
    X(signal_box)                                                                                  \
    X(workflow)                                                                                    \
    X(workflow_end)                                                                                \
    X(workflow_member)                                                                             \
    X(workflows)

struct layout;
#define SNAPSHOT_LAYOUT(name) extern const struct layout name##_layout;
SNAPSHOT_LAYOUTS(SNAPSHOT_LAYOUT)
#undef SNAPSHOT_LAYOUT
