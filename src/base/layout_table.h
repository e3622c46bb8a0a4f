// SPDX-License-Identifier: Apache-2.0
// For the table of a folder's layouts (base/layout.h), which names each. tests/layouts/all.h has
// the tables, and tools/check-layouts finds a layout that is in none.
//
//     #define PLAN_LAYOUTS(X) X(plan) X(plan_row)
//     PLAN_LAYOUTS(LAYOUT_DECLARE)
#pragma once

struct layout;
#define LAYOUT_DECLARE(name) extern const struct layout name##_layout;
