// SPDX-License-Identifier: Apache-2.0
// A JSON pointer that grows and shrinks while a tree is walked.
#pragma once

#include <stddef.h>
#include <stdio.h>

#define SCHEMA_PATH_MAX 256

struct schema_path {
    char text[SCHEMA_PATH_MAX]; // a pointer that is too long is cut off
    size_t len;
};

// Returns the length before, for schema_path_pop.
static inline size_t schema_path_push(struct schema_path *p, const char *name)
{
    size_t before = p->len;
    int more = snprintf(p->text + p->len, sizeof p->text - p->len, "/%s", name);
    p->len += more > 0 ? (size_t)more : 0;
    if (p->len >= sizeof p->text) p->len = sizeof p->text - 1;
    return before;
}

static inline void schema_path_pop(struct schema_path *p, size_t before)
{
    p->len = before;
    p->text[before] = '\0';
}

// The whole document is "/".
static inline const char *schema_path_text(const struct schema_path *p)
{
    return p->len > 0 ? p->text : "/";
}
