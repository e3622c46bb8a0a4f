// SPDX-License-Identifier: Apache-2.0
// The version of the fold's rules. It is state: a journal begins with version 1, and OP_RAISE
// raises it by one. What a version changes applies from the raise on, so all processes fold an
// entry in the same way. A program folds its newest version and at least the one before it. The
// journal stops before any other entry (docs/decisions/0017-a-version-of-the-rules.md).
#pragma once

#include <stdint.h>

#define RULES_FIRST  1 // a journal that was never raised
#define RULES_KNOWN  1 // the newest one in this source code
#define RULES_OLDEST 1 // the oldest one that it folds: RULES_KNOWN less one, once there are two

// The newest version that this program folds and raises to. It is RULES_KNOWN, except in a test
// program that stands for the next release.
uint16_t rules_newest(void);
// One sentence for operators: what changes when a queue is raised to this version.
const char *rules_about(uint16_t version);
