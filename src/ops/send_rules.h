// SPDX-License-Identifier: Apache-2.0
// The version of the rules that messages need: labels that a worker must have, and workflows.
#pragma once

#include "ops/call.h"

// How messages with a workflow find their shard.
struct send_workflows {
    bool decide;   // the workflow decides the shard, from version 5 of the rules on ...
    bool in_first; // ... which is the first one: the queue is strict
};

// Returns CALL_ENDED after a refusal, which is then in the call's error and in `sent`.
enum call_built send_rules_check(struct local_call *c, const struct sluice_send *messages,
                                 size_t len, struct sluice_sent *sent, bool may_block,
                                 struct send_workflows *out);
