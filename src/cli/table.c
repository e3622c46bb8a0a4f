// SPDX-License-Identifier: Apache-2.0
// Aligned tables, and text that is safe on a terminal.
#define _GNU_SOURCE // vasprintf
#include "cli/table.h"

#include "base/check.h"
#include "cli/text.h"
#include "json/json.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define GAP      2  // spaces between columns
#define NAME_MIN 12 // columns of a name that is shortened

struct table {
    const char *const *heads;
    size_t columns;
    char **cells;
    size_t cells_len;
    size_t width_max; // 0: no limit
};

struct screen_size screen_size(void)
{
    struct winsize size = {0};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0)
        return (struct screen_size){24, 80};
    return (struct screen_size){size.ws_row, size.ws_col};
}

struct table *table_new(const char *const *heads, size_t columns)
{
    struct table *t = cli_alloc(sizeof *t);
    *t = (struct table){.heads = heads, .columns = columns};
    return t;
}

void table_free(struct table *t)
{
    if (!t) return;
    for (size_t i = 0; i < t->cells_len; i++)
        free(t->cells[i]);
    free(t->cells);
    free(t);
}

void table_cell(struct table *t, const char *text)
{
    t->cells = cli_realloc(t->cells, (t->cells_len + 1) * sizeof *t->cells);
    t->cells[t->cells_len++] = safe_text(text, strlen(text), 0);
}

void table_cellf(struct table *t, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    table_cell(t, text);
}

void table_number(struct table *t, uint64_t n)
{
    char text[TEXT_MAX];
    table_cell(t, number_text(n, text));
}

void table_width(struct table *t, size_t columns)
{
    t->width_max = columns;
}

static bool is_right(const char *head)
{
    return head[0] == '>';
}

static const char *head_text(const char *head)
{
    return is_right(head) ? head + 1 : head;
}

// The last column of a row is not padded, so that lines have no trailing spaces.
static void cell_print(const char *text, size_t width, bool right, bool last, FILE *out)
{
    size_t columns = text_columns(text);
    int pad = (int)(width > columns ? width - columns : 0);
    if (right) (void)fprintf(out, "%*s%s", pad, "", text);
    if (!right) (void)fprintf(out, "%s%*s", text, last ? 0 : pad, "");
    (void)fprintf(out, last ? "\n" : "%*s", GAP, "");
}

static void row_print(const struct table *t, const size_t *widths, size_t shown, char *const *cells,
                      FILE *out)
{
    for (size_t c = 0; c < shown; c++)
        cell_print(cells[c], widths[c], is_right(t->heads[c]), c + 1 == shown, out);
}

// Keeps the beginning and the end of a text, which tell names apart: "orders-of...-europe". The
// text is safe already. Bytes that are no ASCII are not cut.
static void shorten(char *text, size_t columns)
{
    size_t len = strlen(text);
    if (len <= columns || text_columns(text) != len) return;
    size_t head = (columns - 3) / 2, tail = columns - 3 - head;
    memcpy(text + head, "...", 3);
    memmove(text + head + 3, text + len - tail, tail + 1);
}

void table_shorten(struct table *t, size_t columns)
{
    for (size_t i = 0; i < t->cells_len; i += t->columns)
        shorten(t->cells[i], columns < NAME_MIN ? NAME_MIN : columns);
}

// The last column gets the space that the others leave, and at least the width of its head.
static void cut_last(const struct table *t, size_t *widths)
{
    size_t last = t->columns - 1, others = 0, head = text_columns(head_text(t->heads[last]));
    if (t->width_max == 0) return;
    for (size_t c = 0; c < last; c++)
        others += widths[c] + GAP;
    size_t left = t->width_max > others + head ? t->width_max - others : head;
    if (widths[last] > left) widths[last] = left;
    for (size_t i = last; i < t->cells_len; i += t->columns) {
        if (text_columns(t->cells[i]) <= left) continue;
        char *cut = safe_text(t->cells[i], strlen(t->cells[i]), left);
        free(t->cells[i]);
        t->cells[i] = cut;
    }
}

static size_t column_width(const struct table *t, size_t column)
{
    size_t width = text_columns(head_text(t->heads[column]));
    for (size_t i = column; i < t->cells_len; i += t->columns) {
        size_t w = text_columns(t->cells[i]);
        if (w > width) width = w;
    }
    return width;
}

size_t table_columns(const struct table *t)
{
    size_t sum = t->columns > 0 ? GAP * (t->columns - 1) : 0;
    for (size_t c = 0; c < t->columns; c++)
        sum += column_width(t, c);
    return sum;
}

// On a terminal, names are shortened to a third of the line. If that is not enough, the last
// columns are left out. Returns how many columns are shown.
static size_t fit_columns(struct table *t)
{
    size_t limit = t->width_max == 0 && isatty(STDOUT_FILENO) ? (size_t)screen_size().columns : 0;
    if (limit == 0 || table_columns(t) <= limit) return t->columns;
    table_shorten(t, limit / 3);
    size_t shown = 0, sum = 0;
    for (; shown < t->columns; shown++) {
        sum += column_width(t, shown) + (shown > 0 ? GAP : 0);
        if (sum > limit && shown > 1) break;
    }
    return shown;
}

void table_print(struct table *t, const struct cli *cli, FILE *out)
{
    size_t *widths = cli_alloc(t->columns * sizeof *widths), shown = fit_columns(t);
    for (size_t c = 0; c < t->columns; c++)
        widths[c] = column_width(t, c);
    cut_last(t, widths);
    (void)fputs(bold(cli), out);
    for (size_t c = 0; c < shown; c++) {
        bool last = c + 1 == shown;
        if (last) { // the colour ends before the newline
            size_t w = text_columns(head_text(t->heads[c]));
            if (is_right(t->heads[c])) (void)fprintf(out, "%*s", (int)(widths[c] - w), "");
            (void)fprintf(out, "%s%s\n", head_text(t->heads[c]), plain(cli));
        } else {
            cell_print(head_text(t->heads[c]), widths[c], is_right(t->heads[c]), false, out);
        }
    }
    for (size_t i = 0; i + t->columns <= t->cells_len; i += t->columns)
        row_print(t, widths, shown, t->cells + i, out);
    if (shown < t->columns)
        (void)fprintf(out, "%s%zu column%s hidden: the screen is narrow%s\n", dim(cli),
                      t->columns - shown, t->columns - shown == 1 ? " is" : "s are", plain(cli));
    free(widths);
}

void count_print(int width, const char *name, uint64_t n, const char *remark)
{
    char text[TEXT_MAX];
    (void)printf("%-*s  %12s%s%s\n", width, name, number_text(n, text), *remark ? "  " : "",
                 remark);
}

void field_print(FILE *out, int width, const char *name, const char *format, ...)
{
    va_list args;
    CHECK(format); // gcc warns about NULL on the sanitizer's branch
    (void)fprintf(out, "%-*s  ", width, name);
    va_start(args, format);
    vprint_line(out, format, args);
    va_end(args);
}

void print_line(FILE *out, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vprint_line(out, format, args);
    va_end(args);
}

void vprint_line(FILE *out, const char *format, va_list args)
{
    char *line = NULL;
    int len = vasprintf(&line, format, args);
    if (len < 0) return;
    char *safe = safe_text(line, (size_t)len, 0);
    (void)fprintf(out, "%s\n", safe);
    free(safe);
    free(line);
}

// Writes the escape of a byte, or the byte itself if it is harmless.
static size_t escape(char *out, uint8_t c, bool utf8)
{
    static const char named[] = "\aa\bb\tt\nn\vv\ff\rr";
    const char *found = c ? memchr(named, c, sizeof named - 1) : NULL;
    if (c < ' ' && found) return (size_t)sprintf(out, "\\%c", found[1]);
    if (c < ' ' || c == 0x7f || (c >= 0x80 && !utf8)) return (size_t)sprintf(out, "\\x%02x", c);
    *out = (char)c;
    return 1;
}

// C1 controls are two bytes in UTF-8 (c2 80 .. c2 9f). A terminal interprets them like ESC.
static bool has_c1(const uint8_t *p, size_t len)
{
    for (size_t i = 0; i + 1 < len; i++)
        if (p[i] == 0xc2 && p[i + 1] < 0xa0) return true;
    return false;
}

char *safe_text(const void *bytes, size_t len, size_t columns_max)
{
    const uint8_t *p = bytes;
    size_t used = columns_max > 0 && len > columns_max * 4 ? columns_max * 4 : len;
    while (used < len && used > 0 && (p[used] & 0xc0) == 0x80) // do not cut inside a character
        used--;
    bool utf8 = utf8_ok(p, used) && !has_c1(p, used);
    char *out = cli_alloc(used * 4 + 4);
    size_t at = 0, columns = 0, cut_at = 0;
    for (size_t i = 0; i < used; i++) {
        bool begins = !utf8 || (p[i] & 0xc0) != 0x80;
        size_t n = escape(out + at, p[i], utf8);
        if (begins) columns += n;
        if (columns_max > 0 && begins && columns > columns_max) {
            at = cut_at;
            (void)memcpy(out + at, "…", 3);
            at += 3;
            break;
        }
        if (begins && columns < columns_max) cut_at = at + n;
        at += n;
        if (!begins && columns < columns_max) cut_at = at;
    }
    out[at] = '\0';
    return out;
}

void print_safe(FILE *out, const void *bytes, size_t len, size_t columns_max)
{
    if (columns_max == 0 && !isatty(fileno(out))) {
        (void)fwrite(bytes, 1, len, out);
        return;
    }
    char *text = safe_text(bytes, len, columns_max);
    (void)fputs(text, out);
    free(text);
}

const char *bold(const struct cli *cli)
{
    return cli->color ? "\x1b[1m" : "";
}

const char *dim(const struct cli *cli)
{
    return cli->color ? "\x1b[2m" : "";
}

const char *plain(const struct cli *cli)
{
    return cli->color ? "\x1b[0m" : "";
}
