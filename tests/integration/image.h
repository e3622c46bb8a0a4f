// SPDX-License-Identifier: Apache-2.0
// An ext4 of the test's own: a file on a loop device, mounted where no other process sees it.
#pragma once

#include "scratch.h"

#include <stdio.h>
#include <unistd.h>

#define NEED(fact)                                                                                 \
    do {                                                                                           \
        if (!(fact)) {                                                                             \
            (void)printf("# line %d: %s: %m\n", __LINE__, #fact);                                  \
            (void)fflush(stdout);                                                                  \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

struct image {
    struct scratch scratch;
    char mounted[SCRATCH_PATH_MAX + 16];
};

// Makes the file in a directory under parent (NULL: as scratch_make), with mkfs.ext4 and these
// options, and mounts it. False: that needs root, and a kernel with loop devices. Call image_done
// either way.
bool image_make(struct image *i, const char *parent, const char *options);
bool image_mount(void); // again
void image_done(struct image *i);
