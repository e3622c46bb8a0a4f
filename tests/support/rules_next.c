// SPDX-License-Identifier: Apache-2.0
// Linked in place of src/queue/core/rules_newest.c: a program of the next release, whose newest
// version of the rules is one more. Nothing but the version differs.
#include "base/check.h"
#include "queue/core/rules.h"

uint16_t rules_newest(void)
{
    return RULES_KNOWN + 1;
}

const char *rules_about(uint16_t version)
{
    CHECK(version <= RULES_KNOWN + 1);
    return version == RULES_KNOWN + 1 ? "made up for tests" : version ? "the first version" : "";
}
