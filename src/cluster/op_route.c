// SPDX-License-Identifier: Apache-2.0
#include "cluster/op_route.h"

#include "base/check.h"
#include "base/mutant.h"

enum op_route op_route_decide(const struct op_route_facts *f)
{
    CHECK(f->owner <= OP_ROUTE_OWNER_AWAY);
    bool away = f->owner == OP_ROUTE_OWNER_AWAY && MUTANT(ROUTE_AWAY);
    bool proven = f->owner == OP_ROUTE_OWNER_PROVEN && !MUTANT(ROUTE_NEVER);
    if (!proven && !away) return OP_ROUTE_HERE;
    if (f->here && !MUTANT(ROUTE_AGAIN)) return OP_ROUTE_HERE;
    bool secret = f->has_token && !f->may_have_token;
    if (secret && !MUTANT(ROUTE_TOKEN_ANYWHERE)) return OP_ROUTE_HERE;
    // The owner would refuse it.
    if (f->lacks_token && !MUTANT(ROUTE_TOKENLESS)) return OP_ROUTE_HERE;
    bool fits = f->bytes <= OP_ROUTE_BYTES_MAX || MUTANT(ROUTE_LARGE);
    return fits ? OP_ROUTE_AT_OWNER : OP_ROUTE_HERE;
}
