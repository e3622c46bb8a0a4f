// SPDX-License-Identifier: Apache-2.0
// Memory for one open request and the text that it points to. The journal has one for its main
// requests and one for its snapshots. Other code that works with a journal has its own.
#pragma once

#include "journal/journal.h"

#define ASKING_KEY_MAX (JOURNAL_PREFIX_MAX + 128)

struct asking {
    bool open;  // not answered yet
    bool taken; // passed to the driver
    struct request request;
    char key[ASKING_KEY_MAX];
    char after[ASKING_KEY_MAX];
};

// Opens a request for <prefix>/<part>/ (list) or <prefix>/<part>/<number, 20 digits>. If number is
// 0, the key is <prefix>/<part>. The caller sets the other fields.
void asking_open(struct asking *a, struct journal *j, enum request_kind kind, const char *part,
                 uint64_t number);
bool asking_take(struct asking *a, struct request *out); // returns each request once
bool asking_is(const struct asking *a, uint64_t id);     // it is open and has this id
void asking_describe(const struct asking *a, struct buf *out);
