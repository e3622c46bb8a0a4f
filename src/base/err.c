// SPDX-License-Identifier: Apache-2.0
// The error table, indexed by code.
#include "base/err.h"

#include "base/check.h"

struct err_row {
    const char *name;
    const char *title;
    const char *text;
    int http;
    int exit;
};

static const struct err_row rows[ERR_COUNT] = {
#define ERR_ROW(name, title, text, http, exit) {#name, title, text, http, exit},
    ERR_LIST(ERR_ROW)
#undef ERR_ROW
};

static const struct err_row *row(enum err e)
{
    CHECK((unsigned)e < ERR_COUNT);
    return &rows[e];
}

const char *err_name(enum err e)
{
    return row(e)->name;
}

const char *err_title(enum err e)
{
    return row(e)->title;
}

const char *err_text(enum err e)
{
    return row(e)->text;
}

int err_http(enum err e)
{
    return row(e)->http;
}

int err_exit(enum err e)
{
    return row(e)->exit;
}

enum err err_repeated(enum err e)
{
    return e == ERR_LIMIT || e == ERR_UNAVAILABLE || e == ERR_DENIED ? ERR_UNKNOWN : e;
}
