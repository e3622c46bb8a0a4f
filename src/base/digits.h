// SPDX-License-Identifier: Apache-2.0
// Numbers and bytes as digits, for the few places that every request passes through: printf takes
// longer there than all the rest. The writers answer where they ended and put no zero behind it.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DIGITS_MAX 20 // of an uint64_t in decimal

char *digits_put(char *at, uint64_t n); // decimal
char *digits_put_hex(char *at, const void *bytes, size_t len);
char *digits_put_hex64(char *at, uint64_t n); // all 16 of them, the highest first
// Two digits a byte, in either case, and nothing after them. False: it is something else.
bool digits_read_hex(const char *text, void *to, size_t len);
