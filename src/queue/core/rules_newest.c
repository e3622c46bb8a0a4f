// SPDX-License-Identifier: Apache-2.0
// Alone in its file: the test build of an older release links another definition.
#include "queue/core/rules.h"

uint16_t rules_newest(void)
{
    return RULES_KNOWN;
}
