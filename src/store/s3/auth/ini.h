// SPDX-License-Identifier: Apache-2.0
// The syntax of ~/.aws/config and ~/.aws/credentials: sections, properties, and properties nested
// one level deep. What they mean is profile.c's.
#pragma once

#include "base/bytes.h"

// A view into the text. Names and values are trimmed and without their comments.
struct ini_item {
    struct bytes section; // what stands between the brackets
    struct bytes name;    // empty: the section begins here
    struct bytes nested;  // its name inside of `name`; empty: not nested
    struct bytes value;
    bool continued; // a further line of the value that came before
    int line;       // from 1
};

struct ini_problem {
    int line;
    const char *text;
};

// The visitor answers NULL, or what is wrong with the item.
typedef const char *ini_visit(void *ctx, const struct ini_item *item);

// Calls visit for every item in order. False: the problem says where and what, never the line.
bool ini_walk(struct bytes text, ini_visit *visit, void *ctx, struct ini_problem *problem);

bool ini_is(struct bytes name, const char *expected); // in any case, as the SDKs do
