// SPDX-License-Identifier: Apache-2.0
// Alone in its file: the test build of the next release links another definition.
#include "queue/core/rules.h"

#include "base/check.h"

uint16_t rules_newest(void)
{
    return RULES_KNOWN;
}

const char *rules_about(uint16_t version)
{
    CHECK(version <= RULES_KNOWN);
    return version == RULES_FIRST ? "the first version" : "";
}
