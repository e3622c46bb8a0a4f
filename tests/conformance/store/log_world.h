// SPDX-License-Identifier: Apache-2.0
// One log in a file store in a scratch directory, and the files of the log without the store.
#pragma once

#include "support.h"

#include "base/bytes.h"

#define LOG          "q/log"
#define PAGE         LOG "/@lock"
#define FILE_MAX_LEN ((size_t)1 << 20)
#define PATH_MAX_LEN (SCRATCH_MAX + 64)

struct world {
    char dir[SCRATCH_MAX];
    const struct file_options *options;
    struct store *store; // NULL: it is not open
    struct store_answer a;
};

void world_start(struct world *w, const struct file_options *options); // with an open store
void world_end(struct world *w);

// One slot, with the body of body_make(seed, len).
void world_append(struct world *w, struct store *s, uint64_t slot, uint64_t seed, size_t len);
void world_holds(struct world *w, struct store *s, uint64_t slot, uint64_t seed, size_t len);
void world_ends(struct world *w, struct store *s, uint64_t last); // no slot follows

// The path of a file in the store's directory.
void world_path(const struct world *w, const char *name, char path[PATH_MAX_LEN]);
void world_load(const struct world *w, const char *name, struct buf *to);    // initialises it
void world_save(const struct world *w, const char *name, struct bytes from); // the same inode
