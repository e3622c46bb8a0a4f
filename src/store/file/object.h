// SPDX-License-Identifier: Apache-2.0
// The objects of a file store.
#pragma once

#include "store/file/disk.h"

enum err file_object_get(struct disk *d, const char *key, size_t from, size_t len,
                         struct store_answer *a);
enum err file_object_list(struct disk *d, const char *prefix, const char *after, size_t limit,
                          struct store_answer *a);
enum err file_object_delete(struct disk *d, const char *const *keys, size_t count,
                            struct store_answer *a);
