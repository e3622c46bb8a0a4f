// SPDX-License-Identifier: Apache-2.0
// CHECK(x) is on in every build and states one fact per line. A failure is a bug of ours, never bad
// input. It prints the place and aborts.
#pragma once

_Noreturn void check_failed(const char *fact, const char *file, int line);

#define CHECK(fact) ((fact) ? (void)0 : check_failed(#fact, __FILE__, __LINE__))
