// SPDX-License-Identifier: Apache-2.0
// Aligned tables. Collects the cells, then prints each column as wide as its longest cell.
#pragma once

#include "cli/cli.h"

#include <stdarg.h>

struct screen_size {
    int rows;
    int columns;
};
struct screen_size screen_size(void);

struct table;

// heads are "QUEUE", "READY" and so on. A leading '>' aligns the column to the right: ">READY".
struct table *table_new(const char *const *heads, size_t columns);
void table_free(struct table *t);
// Adds the next cell, row by row. Control characters are escaped.
void table_cell(struct table *t, const char *text);
void table_cellf(struct table *t, const char *format, ...) PRINTF(2, 3);
void table_number(struct table *t, uint64_t n);
// Limits the line length by cutting the last column, as far as possible.
void table_width(struct table *t, size_t columns);
// Returns the columns that the longest line takes.
size_t table_columns(const struct table *t);
// Shortens the names in the first column in their middle.
void table_shorten(struct table *t, size_t columns);
// On a terminal the lines fit: names are shortened, and the last columns are left out.
void table_print(struct table *t, const struct cli *cli, FILE *out);

// printf of untrusted text, with a newline. Control characters are escaped, also in a pipe: a pager
// or a log viewer would pass them to the terminal.
void print_line(FILE *out, const char *format, ...) PRINTF(2, 3);
void vprint_line(FILE *out, const char *format, va_list args) PRINTF(2, 0);
// Prints a "name   value" line, with the name padded to width.
// The same on standard output for a number, with a remark after it ("": none).
void count_print(int width, const char *name, uint64_t n, const char *remark);
void field_print(FILE *out, int width, const char *name, const char *format, ...) PRINTF(4, 5);

// Prints text that is safe on a terminal: control characters become escapes (\n, \x1b). Prints at
// most columns_max columns (0: all). If out is not a terminal and columns_max is 0, the bytes are
// unchanged.
void print_safe(FILE *out, const void *bytes, size_t len, size_t columns_max);
// The same into a string that the caller frees.
char *safe_text(const void *bytes, size_t len, size_t columns_max);

// Escape sequences such as "\x1b[1m", or "" without colour.
const char *bold(const struct cli *cli);
const char *dim(const struct cli *cli);
const char *plain(const struct cli *cli);
