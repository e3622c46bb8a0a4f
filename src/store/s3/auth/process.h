// SPDX-License-Identifier: Apache-2.0
// credential_process: a program of the user prints the keys.
#pragma once

#include "store/s3/auth/secret.h"

#define PROCESS_WORDS_MAX 64

struct process_arguments {
    char text[S3_URL_MAX];
    char *argv[PROCESS_WORDS_MAX + 1]; // ends with NULL
    size_t len;
};

// Splits at blanks and handles quotes and backslashes; no other shell syntax. Returns false if a
// quote is not closed, or if there are no words or too many.
bool process_split(const char *command, struct process_arguments *out);

// Runs the command without a shell and reads its standard output. It may run for a minute.
// ERR_INVALID: the command cannot be split. ERR_UNAVAILABLE: the command failed; why says how,
// without its output.
MUST_USE enum err s3_process_fetch(const char *command, struct s3_source_answer *out, char *why,
                                   size_t why_len);
