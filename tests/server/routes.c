// SPDX-License-Identifier: Apache-2.0
// Prints the server's table of routes, a line each: method, path, scope.
#include "server/inside.h"

#include <stdio.h>

int main(void)
{
    const struct route *r;
    for (size_t i = 0; (r = route_at(i)); i++)
        (void)printf("%s %s %s\n", r->method, *r->pattern ? r->pattern : "/",
                     r->scope == SCOPE_NONE ? "-" : scope_name(r->scope));
    return 0;
}
