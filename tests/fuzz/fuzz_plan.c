// SPDX-License-Identifier: Apache-2.0
// Any bytes as the plan that a leader has published.
#include "base/check.h"
#include "cluster/placement.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes input = bytes_of(data, size);
    struct plan plan;
    struct buf text;
    plan_init(&plan);
    if (plan_decode(input, &plan)) {
        CHECK(plan.epoch > 0 && plan.number > 0);
        for (size_t i = 0; i < plan.rows_len; i++) {
            char why[PLACEMENT_REASON_MAX];
            CHECK(plan_find(&plan, &plan.rows[i].shard) == &plan.rows[i]);
            (void)plan_owner(&plan, &plan.rows[i].shard);
            plan_explain(&plan, &plan.rows[i], why);
        }
        buf_init(&text, SIZE_MAX);
        plan_encode(&plan, &text);
        CHECK(bytes_equal(buf_bytes(&text), input));
        buf_done(&text);
    }
    plan_done(&plan);
    return 0;
}
