// SPDX-License-Identifier: Apache-2.0
// Prints the fields of each layout as the list of docs/format.md (tools/check-layouts).
#include "layouts/all.h"

#include <stdio.h>

#define COLUMNS 98

static const char *name_of(const struct layout *layout)
{
    for (size_t i = 0; i < ALL_LAYOUTS; i++)
        if (all_layouts[i].layout == layout) return all_layouts[i].name;
    return "?";
}

static const char *field_at(const struct layout *layout, size_t offset)
{
    for (size_t i = 0; i < layout->fields_len; i++)
        if (layout->fields[i].offset == offset && layout->fields[i].kind == LAYOUT_UNSIGNED)
            return layout->fields[i].name;
    return "?";
}

static void name_kind(const struct layout_field *f, char *out, size_t max)
{
    switch ((enum layout_kind)f->kind) {
    case LAYOUT_UNSIGNED:
    case LAYOUT_SIGNED:
        (void)snprintf(out, max, "%c%u", f->kind == LAYOUT_SIGNED ? 'i' : 'u', 8U * f->written);
        break;
    case LAYOUT_MARK:
        (void)snprintf(out, max, "u%u = %#llx", 8U * f->written, (unsigned long long)f->min);
        break;
    case LAYOUT_FIXED:
    case LAYOUT_HASH:
        (void)snprintf(out, max, "%u bytes", f->held);
        break;
    case LAYOUT_BYTES:
    case LAYOUT_TEXT:
        (void)snprintf(out, max, "sized");
        break;
    case LAYOUT_REST:
        (void)snprintf(out, max, "the rest");
        break;
    case LAYOUT_PART:
        (void)snprintf(out, max, "%s", name_of(f->of));
        break;
    case LAYOUT_ROWS:
    case LAYOUT_ARRAY:
        (void)snprintf(out, max, "u32 count, each %s", name_of(f->of));
        break;
    }
}

static void print_layout(const struct named_layout *named)
{
    const struct layout *layout = named->layout;
    char kind[80], field[200];
    int column = printf("%s:", named->name);
    for (size_t n = 0; n < layout->fields_len; n++) {
        const struct layout_field *f = &layout->fields[n];
        name_kind(f, kind, sizeof kind);
        int len = snprintf(field, sizeof field, " %s %s", f->name, kind);
        if (f->bits)
            len = snprintf(field, sizeof field, " %s %s if %s has %u", f->name, kind,
                           field_at(layout, f->when), f->bits);
        if (column + len >= COLUMNS) column = printf("\n   ");
        column += printf("%s%s", field, n + 1 < layout->fields_len ? ";" : "");
    }
    printf("\n");
}

int main(void)
{
    for (size_t i = 0; i < ALL_LAYOUTS; i++)
        print_layout(&all_layouts[i]);
    return 0;
}
