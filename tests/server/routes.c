// SPDX-License-Identifier: Apache-2.0
// Prints the table of calls, a line each: method, path, scope.
#include "calls/calls.h"

#include <stdio.h>

int main(void)
{
    for (const struct call *c = call_table; c < call_table + CALL_COUNT; c++)
        (void)printf("%s %s %s\n", c->method, c->pattern,
                     c->scope == SCOPE_NONE ? "-" : scope_name(c->scope));
    return 0;
}
