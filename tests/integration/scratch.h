// SPDX-License-Identifier: Apache-2.0
// A directory of one's own on a real disk, gone when done; and waiting without sleeping blindly.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define SCRATCH_PATH_MAX 512

struct scratch {
    char path[SCRATCH_PATH_MAX];
};

// Makes a directory under parent (NULL: $TMPDIR, else /tmp). False, with the reason on standard
// error.
bool scratch_make(struct scratch *s, const char *parent);
void scratch_remove(struct scratch *s); // with everything in it; an empty path is fine

// Asks again and again, with short pauses, until the answer is yes or wait_ms have passed.
bool eventually(bool (*answer)(void *ctx), void *ctx, int64_t wait_ms);
