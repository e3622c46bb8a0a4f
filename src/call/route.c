// SPDX-License-Identifier: Apache-2.0
#include "call/route.h"

#include "base/check.h"

enum route route_decide(const struct route_facts *f)
{
    CHECK(f->owner <= ROUTE_OWNER_AWAY);
    if (f->here || f->owner != ROUTE_OWNER_PROVEN) return ROUTE_HERE;
    if (f->has_token && !f->may_have_token) return ROUTE_HERE;
    if (f->lacks_token) return ROUTE_HERE; // the owner would refuse it
    return f->bytes <= ROUTE_BYTES_MAX ? ROUTE_AT_OWNER : ROUTE_HERE;
}
