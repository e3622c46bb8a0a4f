// SPDX-License-Identifier: Apache-2.0
// Linked in place of src/queue/core/rules_newest.c: a program whose newest version of the rules is
// the one before. It stands for the release before.
#include "queue/core/rules.h"

uint16_t rules_newest(void)
{
    return RULES_KNOWN - 1;
}
