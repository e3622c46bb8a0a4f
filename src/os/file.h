// SPDX-License-Identifier: Apache-2.0
// Reads or writes a whole file, for programs and tests. The functions return 0 or an errno value.
#pragma once

#include "base/bytes.h"
#include "base/err.h"

// Appends to the buffer; EFBIG if the file exceeds its limit.
MUST_USE int file_read(const char *path, struct buf *to);
MUST_USE int file_write(const char *path, struct bytes body); // creates or truncates; not durable
MUST_USE int file_write_fd(int fd, struct bytes body);        // writes all bytes
