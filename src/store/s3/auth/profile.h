// SPDX-License-Identifier: Apache-2.0
// What the shared files say about one profile.
#pragma once

#include "store/s3/auth/secret.h"

#define S3_FILES_MAX ((size_t)256 << 10) // of one file

struct s3_file {
    char path[S3_URL_MAX];
    char shown[S3_URL_MAX]; // "~/.aws/config" where that is what was meant
    bool chosen;            // named by the environment: it must be readable if it is there
};

struct s3_files {
    struct s3_file config;
    struct s3_file credentials;
};

struct s3_section {
    bool found;              // in either file
    struct s3_profile plain; // region and so on
    struct s3_keys keys;     // access_key "": none
    const char *keys_in;     // the file they are from, as it is shown
    char process[S3_URL_MAX];
    char role_arn[S3_URL_MAX];
    char role_session[S3_KEY_MAX];
    char token_file[S3_URL_MAX];
    const char *unsupported; // a property that asks for a source we do not have; NULL: none
};

// From AWS_CONFIG_FILE, AWS_SHARED_CREDENTIALS_FILE, HOME. False: a name is too long; why says it.
bool s3_files_find(struct s3_files *files, char *why, size_t why_len);
// ERR_INVALID: a file is malformed, or keys are half there; why names file and line, no value.
MUST_USE enum err s3_section_read(const struct s3_files *files, const char *profile,
                                  struct s3_section *out, char *why, size_t why_len);
// The same from texts in memory; for s3_section_read and the fuzzer. They are shown by their names.
MUST_USE enum err s3_section_parse(struct bytes config, struct bytes credentials,
                                   const struct s3_files *files, const char *profile,
                                   struct s3_section *out, char *why, size_t why_len);
void s3_section_wipe(struct s3_section *s);
