// SPDX-License-Identifier: Apache-2.0
// Aligned tables: collect the cells, then print them with each column as wide as it must be.
#pragma once

#include "cli/cli.h"

#include <stdarg.h>

struct table;

// heads: "QUEUE", "READY" ...; a leading '>' aligns a column to the right: ">READY".
struct table *table_new(const char *const *heads, size_t columns);
void table_free(struct table *t);
// The next cell, row by row; control characters are shown escaped.
void table_cell(struct table *t, const char *text);
void table_cellf(struct table *t, const char *format, ...) PRINTF(2, 3);
void table_number(struct table *t, uint64_t n);
// No line is to be longer than so many columns, as far as the last column can be cut for it.
void table_width(struct table *t, size_t columns);
// How many columns of the screen its longest line takes.
size_t table_columns(const struct table *t);
void table_print(const struct table *t, const struct cli *cli, FILE *out);

// A line that holds what others said: printf, with control characters shown escaped on a terminal,
// and a newline.
void print_line(FILE *out, const char *format, ...) PRINTF(2, 3);
void vprint_line(FILE *out, const char *format, va_list args) PRINTF(2, 0);
// "name   value" lines, names padded to the same width.
void field_print(FILE *out, int width, const char *name, const char *format, ...) PRINTF(4, 5);

// Text that is safe on a terminal: control characters become escapes (\n, \x1b), no more than
// columns_max columns (0: all). Raw when out is no terminal and columns_max is 0.
void print_safe(FILE *out, const void *bytes, size_t len, size_t columns_max);
// The same into a string of the caller's to free.
char *safe_text(const void *bytes, size_t len, size_t columns_max);

// "\x1b[1m" and its end, or "" without colour.
const char *bold(const struct cli *cli);
const char *dim(const struct cli *cli);
const char *plain(const struct cli *cli);
