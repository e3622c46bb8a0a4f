// SPDX-License-Identifier: Apache-2.0
// The table of reasons, indexed by number.
#include "queue/codec/reason.h"

#include "base/check.h"

struct reason_row {
    const char *name;
    const char *text;
    enum err err;
};

static const struct reason_row rows[REASON_COUNT] = {
#define REASON_ROW(name, id, text, err) {id, text, ERR_##err},
    REASON_LIST(REASON_ROW)
#undef REASON_ROW
};

static const struct reason_row *row(enum reason r)
{
    CHECK((unsigned)r < REASON_COUNT);
    return &rows[r];
}

const char *reason_name(enum reason r)
{
    return row(r)->name;
}

const char *reason_text(enum reason r)
{
    return row(r)->text;
}

enum err reason_err(enum reason r)
{
    return row(r)->err;
}
