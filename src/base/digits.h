// SPDX-License-Identifier: Apache-2.0
// Numbers and bytes as digits, for code on every request's path: there printf would take longer
// than all other work. The writers return the end of the text and write no final zero.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DIGITS_MAX 20 // of a uint64_t in decimal

char *digits_put(char *at, uint64_t n); // decimal
char *digits_put_hex(char *at, const void *bytes, size_t len);
char *digits_put_hex64(char *at, uint64_t n); // all 16 digits, the highest first
int digits_hex_value(int c); // of a hexadecimal digit in either case; -1: it is none
// Reads two digits per byte, in either case, and nothing after them. Returns false for any other
// text.
bool digits_read_hex(const char *text, void *to, size_t len);
