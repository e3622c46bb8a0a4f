// SPDX-License-Identifier: Apache-2.0
// Whole files, for programs and tests: read one, write one, make a directory entry durable. They
// answer an errno value, 0 when done.
#pragma once

#include "base/bytes.h"
#include "base/err.h"

MUST_USE int file_read(const char *path,
                       struct buf *to); // appends; EFBIG past the limit of the buffer
MUST_USE int file_write(const char *path, struct bytes body); // creates or truncates; not durable
MUST_USE int file_write_fd(int fd, struct bytes body);        // all of it
MUST_USE int file_sync_dir(const char *path);
