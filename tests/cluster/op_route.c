// SPDX-License-Identifier: Apache-2.0
// Where a part of a call goes: every combination of the facts.
#include "cluster/op_route.h"

#include "../unit/unit.h"

#define BIT(n) ((bool)(flags >> (n)&1))

static const size_t sizes[] = {0, OP_ROUTE_BYTES_MAX, OP_ROUTE_BYTES_MAX + 1, SIZE_MAX};

static struct op_route_facts facts_of(int owner, unsigned flags, size_t bytes)
{
    return (struct op_route_facts){.owner = (enum op_route_owner)owner,
                                   .here = BIT(0),
                                   .has_token = BIT(1),
                                   .may_have_token = BIT(2),
                                   .lacks_token = BIT(3),
                                   .bytes = bytes};
}

// The reasons to do it here.
static uint32_t reasons(const struct op_route_facts *f)
{
    return (uint32_t)(f->owner != OP_ROUTE_OWNER_PROVEN) + // no owner, this process, or it is away
           (uint32_t)f->here +                             // the owner did not do it
           (uint32_t)(f->has_token && !f->may_have_token) +
           (uint32_t)f->lacks_token + // the owner would refuse it
           (uint32_t)(f->bytes > OP_ROUTE_BYTES_MAX);
}

static void a_part_of_a_call_goes_to_the_owner_unless_a_reason_keeps_it(void **state)
{
    (void)state;
    uint32_t there = 0;
    for (int owner = 0; owner <= OP_ROUTE_OWNER_AWAY; owner++)
        for (unsigned flags = 0; flags < 1u << 4; flags++)
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
                struct op_route_facts f = facts_of(owner, flags, sizes[i]);
                bool goes = op_route_decide(&f) == OP_ROUTE_AT_OWNER;
                assert_int_equal(goes, reasons(&f) == 0);
                there += goes;
            }
    assert_int_equal(there, 6); // three cases of tokens, two sizes
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_part_of_a_call_goes_to_the_owner_unless_a_reason_keeps_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
