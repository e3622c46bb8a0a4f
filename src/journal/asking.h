// SPDX-License-Identifier: Apache-2.0
// A place for one open request and the text it points to. The journal's dialogue has one, its
// snapshot writer another; whoever works beside a journal brings his own.
#pragma once

#include "journal/journal.h"

#define ASKING_KEY_MAX (JOURNAL_PREFIX_MAX + 128)

struct asking {
    bool open;  // not answered yet
    bool taken; // handed to the driver
    struct request request;
    char key[ASKING_KEY_MAX];
    char after[ASKING_KEY_MAX];
};

// Opens a request for <prefix>/<part>/ (list), <prefix>/<part>/<number, 20 digits>, or
// <prefix>/<part> when number is 0. The caller fills in the rest.
void asking_open(struct asking *a, struct journal *j, enum request_kind kind, const char *part,
                 uint64_t number);
bool asking_take(struct asking *a, struct request *out); // once
bool asking_is(const struct asking *a, uint64_t id);     // open, and has this id
void asking_describe(const struct asking *a, struct buf *out);
