// SPDX-License-Identifier: Apache-2.0
// The answers of a beanstalkd server, protocol 1.12. The bytes come from outside: anything may be
// in them.
#pragma once

#include "base/bytes.h"

#define ANSWER_LINE_MAX 256                // of an answer's first line, with its end
#define ANSWER_BODY_MAX ((size_t)64 << 20) // more than any queue accepts

enum answer_word {
    ANSWER_OTHER, // a word that no command of an import expects, such as INTERNAL_ERROR
    ANSWER_DEADLINE_SOON,
    ANSWER_DELETED,
    ANSWER_DRAINING,
    ANSWER_FOUND, // id and body
    ANSWER_INSERTED,
    ANSWER_NOT_FOUND,
    ANSWER_NOT_IGNORED,
    ANSWER_OK, // body: a list of names or of values
    ANSWER_RESERVED,
    ANSWER_TIMED_OUT,
    ANSWER_USING,
    ANSWER_WATCHING,
};

struct beanstalk_answer {
    enum answer_word word;
    uint64_t id;       // FOUND, INSERTED, RESERVED
    struct bytes line; // the first line, without its end
    struct bytes body; // FOUND, OK, RESERVED; a view into the input
};

enum answer_step { ANSWER_MORE, ANSWER_ONE, ANSWER_BAD };

// Reads the first answer of `from`. ANSWER_MORE: it is not complete. ANSWER_BAD: no beanstalkd
// server answers so. *used is the length of the answer.
enum answer_step answer_read(struct bytes from, struct beanstalk_answer *out, size_t *used);

// Finds "name: value" in the body of an OK answer. Returns false if it is absent.
bool answer_value(struct bytes body, const char *name, struct bytes *out);
bool answer_number(struct bytes body, const char *name, uint64_t *out);
// Reads the next "- name" of a list. *at is 0 at first. Returns false at the end.
bool answer_item(struct bytes body, size_t *at, struct bytes *out);
// Reads a whole decimal number. Returns false for any other text, and for one over UINT64_MAX.
bool answer_digits(struct bytes text, uint64_t *out);
// Cuts the text up to the next space off *rest.
struct bytes answer_next_word(struct bytes *rest);
