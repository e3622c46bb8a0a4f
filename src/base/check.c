// SPDX-License-Identifier: Apache-2.0
// The one place where a failed check ends the process.
#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>

_Noreturn void check_failed(const char *fact, const char *file, int line)
{
    (void)fprintf(stderr, "sluice: broken assumption at %s:%d: %s\n", file, line, fact);
    abort();
}
