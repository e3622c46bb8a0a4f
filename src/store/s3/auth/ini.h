// SPDX-License-Identifier: Apache-2.0
// The syntax of ~/.aws/config and ~/.aws/credentials: sections, properties, and properties nested
// one level deep. profile.c interprets them.
#pragma once

#include "base/bytes.h"

// A view into the text. Names and values are trimmed and contain no comments.
struct ini_item {
    struct bytes section; // the text between the brackets
    struct bytes name;    // empty: the section begins here
    struct bytes nested;  // name inside of `name`; empty: not nested
    struct bytes value;
    bool continued; // a further line of the previous value
    int line;       // from 1
};

struct ini_problem {
    int line;
    const char *text;
};

// The visitor returns NULL, or a text that says what is wrong with the item.
typedef const char *ini_visit(void *ctx, const struct ini_item *item);

// Calls visit for every item in order. Returns false on a problem, which has the line's number and
// a text, never the line itself.
bool ini_walk(struct bytes text, ini_visit *visit, void *ctx, struct ini_problem *problem);

bool ini_is(struct bytes name, const char *expected); // ignores case, as the SDKs do
