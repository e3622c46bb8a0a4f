// SPDX-License-Identifier: Apache-2.0
// The name of a node that owns a shard, as its journal has it.
#pragma once

#include "journal/journal.h"

#include <stdbool.h>

// The owner's address in the journal: "<url> <node> <incarnation>".
struct owner_name {
    char url[JOURNAL_ADDRESS_MAX];
    char node[JOURNAL_ADDRESS_MAX];
    // Drawn at each start. Only processes that can read the journal know it.
    char incarnation[JOURNAL_ADDRESS_MAX];
};
// Returns false if the result is too long, or if owner_parse would not read a character of it back.
bool owner_print(const struct owner_name *name, char out[JOURNAL_ADDRESS_MAX + 1]);
// Returns false if owner_print did not make the text.
bool owner_parse(const char *address, struct owner_name *out);
bool owner_name_equal(const struct owner_name *a, const struct owner_name *b);
