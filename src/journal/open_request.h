// SPDX-License-Identifier: Apache-2.0
// Memory for one open request and the text that it points to. The journal has one for its main
// requests and one for its snapshots. Other code that works with a journal has its own.
#pragma once

#include "journal/journal.h"

#define OPEN_REQUEST_KEY_MAX (JOURNAL_PREFIX_MAX + 128)

struct open_request {
    bool open;  // not answered yet
    bool taken; // passed to the driver
    struct request request;
    char key[OPEN_REQUEST_KEY_MAX];
    char after[OPEN_REQUEST_KEY_MAX];
};

// Opens a request for <prefix>/<part>/ (list) or <prefix>/<part>/<number, 20 digits>. If number is
// 0, the key is <prefix>/<part>. The caller sets the other fields.
void open_request_begin(struct open_request *a, struct journal *j, enum request_kind kind,
                        const char *part, uint64_t number);
bool open_request_take(struct open_request *a, struct request *out); // returns each request once
bool open_request_is(const struct open_request *a, uint64_t id);     // it is open and has this id
void open_request_describe(const struct open_request *a, struct buf *out);
