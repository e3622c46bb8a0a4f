// SPDX-License-Identifier: Apache-2.0
// Labels of a worker, and labels that a message requires: "host=a7,kind=gpu". The canonical text is
// sorted by key, without spaces, and has each key once.
#pragma once

#include "base/bytes.h"
#include "base/err.h"

#define LABELS_MAX      16
#define LABEL_KEY_MAX   63 // [a-z0-9._-]
#define LABEL_VALUE_MAX 63 // [A-Za-z0-9._-]
#define LABELS_TEXT_MAX (LABELS_MAX * (LABEL_KEY_MAX + 1 + LABEL_VALUE_MAX) + LABELS_MAX - 1)

struct labels {
    uint16_t len;                   // 0: none
    char text[LABELS_TEXT_MAX + 1]; // canonical, with a final zero byte
};

// Where and why a text is no list of labels.
struct labels_error {
    size_t at;        // offset in the text
    const char *text; // what would be right: "a key of 1 to 63 of a-z 0-9 . _ -"
};

// Reads labels in any order; the empty text is no labels. ERR_INVALID: error says why; out is
// empty.
MUST_USE enum err labels_parse(struct bytes text, struct labels *out, struct labels_error *error);
bool labels_are_canonical(struct bytes text); // not empty, and as labels_parse writes it
// Both are canonical or empty. True: `have` has every label of `needed`.
bool labels_match(struct bytes have, struct bytes needed);
// Gets the next label of a canonical text and moves the text behind it. False: there is none.
bool labels_next(struct bytes *text, struct bytes *key, struct bytes *value);
