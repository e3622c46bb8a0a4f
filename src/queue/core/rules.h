// SPDX-License-Identifier: Apache-2.0
// The version of the fold's rules. It is state: a journal begins with version 1, and OP_RAISE
// raises it by one. What a version changes applies from the raise on, so all processes fold an
// entry in the same way. A program folds its newest version and at least the one before it. The
// journal stops before any other entry (docs/decisions/0017-a-version-of-the-rules.md).
#pragma once

#include <stdint.h>

#define RULES_FIRST     1 // no field of the state has it; a journal that was never raised
// The fold numbers its events. An expiry that counts as a retry has a message-outcome event.
#define RULES_EVENTS    2
// The setting `consume`. A claim that it refuses has an event and is counted. A queue that is
// created with consume=owner begins with this version, because no older program can read it.
#define RULES_CONSUME   3
// The registry of workers, the owner's dispatch, `requires`, and the settings `dispatch` and
// `retention`. A queue that is created with one of these settings begins with this version.
#define RULES_WORKERS   4
// The publisher's cursor, workflows, and the settings `publish`, `publishKeep`, `publishKeepBytes`
// and `workflowOrder`. A queue that is created with one of these begins with this version.
#define RULES_WORKFLOWS 5
// Signals, the cancel of chosen messages, results, progress, and the setting `retainBody`. A queue
// that is created with retainBody begins with this version.
#define RULES_SIGNALS   6
#define RULES_KNOWN     6 // the newest one in this source code
#define RULES_OLDEST    1 // the oldest one that it folds

// The newest version that this program folds and raises to. It is RULES_KNOWN, except in a test
// program that stands for an older release.
uint16_t rules_newest(void);
// One sentence for operators: what changes when a queue is raised to this version.
const char *rules_about(uint16_t version);
