// SPDX-License-Identifier: Apache-2.0
// CHECK(x): on in every build, one fact a line. A failed one is our bug, never bad input: it says
// where and aborts.
#pragma once

_Noreturn void check_failed(const char *fact, const char *file, int line);

#define CHECK(fact) ((fact) ? (void)0 : check_failed(#fact, __FILE__, __LINE__))
