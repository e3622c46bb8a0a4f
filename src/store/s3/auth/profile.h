// SPDX-License-Identifier: Apache-2.0
// Reads one profile from the shared files.
#pragma once

#include "store/s3/auth/secret.h"

#define S3_FILES_MAX ((size_t)256 << 10) // largest size of one file

struct s3_file {
    char path[S3_URL_MAX];
    char shown[S3_URL_MAX]; // path for messages: "~/.aws/config" if the path is the default
    bool chosen;            // named by the environment: if it exists it must be readable
};

struct s3_files {
    struct s3_file config;
    struct s3_file credentials;
};

struct s3_section {
    bool found;              // in at least one file
    struct s3_profile plain; // region and other settings
    struct s3_keys keys;     // access_key "": none
    const char *keys_in;     // the `shown` of the file with the keys
    char process[S3_URL_MAX];
    char role_arn[S3_URL_MAX];
    char role_session[S3_KEY_MAX];
    char token_file[S3_URL_MAX];
    const char *unsupported; // a property that needs an unsupported source; NULL: none
};

// Reads AWS_CONFIG_FILE, AWS_SHARED_CREDENTIALS_FILE and HOME. Returns false if a name is too long;
// why names it.
bool s3_files_find(struct s3_files *files, char *why, size_t why_len);
// ERR_INVALID: a file is malformed, or one of two keys is missing. why has the file and line, but
// no value.
MUST_USE enum err s3_section_read(const struct s3_files *files, const char *profile,
                                  struct s3_section *out, char *why, size_t why_len);
// The same from texts in memory, for s3_section_read and the fuzzer. Messages use the names in
// files.
MUST_USE enum err s3_section_parse(struct bytes config, struct bytes credentials,
                                   const struct s3_files *files, const char *profile,
                                   struct s3_section *out, char *why, size_t why_len);
void s3_section_wipe(struct s3_section *s);
