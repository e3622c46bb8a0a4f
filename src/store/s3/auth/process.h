// SPDX-License-Identifier: Apache-2.0
// credential_process: a program of the user's prints the keys.
#pragma once

#include "store/s3/auth/secret.h"

#define PROCESS_WORDS_MAX 64

struct process_words {
    char room[S3_URL_MAX];
    char *argv[PROCESS_WORDS_MAX + 1]; // ends with NULL
    size_t len;
};

// Splits at spaces, obeys quotes and backslashes, and does nothing else a shell does. False: a
// quote is not closed, or there is nothing or too much.
bool process_split(const char *command, struct process_words *out);

// Runs it, without a shell, and reads its standard output. It may take a minute. ERR_INVALID: the
// command cannot be split. ERR_UNAVAILABLE: it failed; why says how, not what it printed.
MUST_USE enum err s3_process_fetch(const char *command, struct s3_fetched *out, char *why,
                                   size_t why_len);
