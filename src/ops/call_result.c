// SPDX-License-Identifier: Apache-2.0
// The error of a call, and which of its parts another node did.
#include "base/check.h"
#include "base/memory.h"
#include "ops/call.h"

struct sluice_error *call_error(struct local_call *c)
{
    if (!c->error) {
        c->error = NEW(struct sluice_error);
        c->owns_error = true;
    }
    return c->error->code ? NULL : c->error;
}

enum sluice_code call_code(const struct local_call *c)
{
    return c->error ? c->error->code : SLUICE_OK;
}

void call_set_code(struct local_call *c, enum sluice_code code)
{
    (void)call_error(c);
    c->error->code = code;
}

void call_mark_away(struct local_call *c, size_t index, size_t len)
{
    CHECK(index < len);
    if (!c->forwarded) c->forwarded = memory_zeroed(len, sizeof *c->forwarded);
    c->forwarded[index] = true;
}

void call_forget_error(struct local_call *c)
{
    if (c->error) *c->error = (struct sluice_error){.code = SLUICE_OK};
}
