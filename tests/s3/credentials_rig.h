// SPDX-License-Identifier: Apache-2.0
// A home of one's own and an environment without AWS in it. Every sentence a test gets is searched
// for the secrets.
#pragma once

#include "scratch.h"
#include "stand_in.h"
#include "store/s3/auth/credentials.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#define ACCESS "AKIDEXAMPLEACCESS"
#define SECRET "wJalrXUtnFEMI/K7MDENG+EXAMPLESECRET="
#define TOKEN  "IQoJb3JpZ2luX2VjEXAMPLETOKEN//////////8BAA=="
#define NOW    INT64_C(1767225600000) // 2026-01-01T00:00:00Z
#define MINUTE INT64_C(60000)

struct rig {
    struct scratch home;
    struct http *client;
    struct stand_in *server;
    struct s3_credentials *credentials;
    char why[2048];
    struct s3_keys keys;
};

int rig_setup(void **state);
int rig_teardown(void **state);

void rig_write(struct rig *r, const char *name, const char *text); // under the home
void rig_path(const struct rig *r, const char *name, char *to, size_t size);
enum err rig_open(struct rig *r, const char *profile); // closes the one before
void rig_opens(struct rig *r, const char *profile);
enum err rig_get(struct rig *r, int64_t now_ms);
void rig_gets(struct rig *r, int64_t now_ms, const char *access_key);
// It was refused with a sentence that holds this.
void rig_says(const struct rig *r, const char *text);

// The shapes of the services' answers. All of them hold SECRET and TOKEN. The caller frees.
char *instance_answer(const char *access_key, int64_t expires_ms);
char *container_answer(const char *access_key, int64_t expires_ms);
char *process_answer(const char *access_key, int64_t expires_ms);
char *sts_answer(const char *access_key, int64_t expires_ms);
