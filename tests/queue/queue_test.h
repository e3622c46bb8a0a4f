// SPDX-License-Identifier: Apache-2.0
// What the unit tests of the queue include.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "queue/codec/body_name.h"
#include "rig.h"

static inline struct queue_config defaults(void)
{
    struct queue_config c;
    config_defaults(&c);
    return c;
}

// Numbers of ops that earlier programs had.
static inline bool op_is_gone(uint16_t kind)
{
    return kind == OP_KIND_MACHINE + 8 || kind == OP_KIND_MACHINE + 9;
}

static inline void rig_defaults(struct rig *r)
{
    struct queue_config c = defaults();
    rig_init(r, &c);
}

// A message whose body was uploaded at that time; n tells it from others. The name is the caller's.
static inline struct message uploaded(char name[BODY_NAME_LEN + 1], int64_t at, uint64_t n)
{
    struct body_name body = {.uploaded_at = at, .random = {n, 1}, .hash = {2, 3}};
    body_name_print(&body, name);
    return (struct message){.reference = {bytes_of(name, BODY_NAME_LEN), 10, at}};
}

#define CASE(name) cmocka_unit_test(name)
#define RUN(cases) cmocka_run_group_tests(cases, NULL, NULL)
