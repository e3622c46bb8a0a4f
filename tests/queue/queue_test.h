// SPDX-License-Identifier: Apache-2.0
// What the unit tests of the queue include.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "rig.h"

static inline struct queue_config defaults(void)
{
    struct queue_config c;
    config_defaults(&c);
    return c;
}

static inline void rig_defaults(struct rig *r)
{
    struct queue_config c = defaults();
    rig_init(r, &c);
}

#define CASE(name) cmocka_unit_test(name)
#define RUN(cases) cmocka_run_group_tests(cases, NULL, NULL)
