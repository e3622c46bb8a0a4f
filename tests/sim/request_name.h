// SPDX-License-Identifier: Apache-2.0
// The names of requests, for traces.
#pragma once

#include "base/check.h"
#include "journal/request.h"

static inline const char *request_kind_name(enum request_kind kind)
{
    static const char *const names[] = {"append", "read_log", "extents", "drop",  "put_new",
                                        "get",    "list",     "part",    "delete"};
    CHECK((size_t)kind < sizeof names / sizeof *names);
    return names[kind];
}
