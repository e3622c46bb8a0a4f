// SPDX-License-Identifier: Apache-2.0
#include "log_world.h"

#include "os/file.h"

#include <fcntl.h>
#include <unistd.h>

void world_start(struct world *w, const struct file_options *options)
{
    *w = (struct world){.options = options};
    scratch_make_quick(w->dir);
    w->store = file_open(w->dir, options);
    store_answer_init(&w->a);
}

void world_end(struct world *w)
{
    store_free(w->store);
    store_answer_done(&w->a);
    scratch_remove(w->dir);
}

void world_append(struct world *w, struct store *s, uint64_t slot, uint64_t seed, size_t len)
{
    struct bytes body = body_make(seed, len);
    ANSWERS(ERR_OK, &w->a, store_append(s, LOG, slot, body, &w->a));
    bytes_free(body);
}

void world_holds(struct world *w, struct store *s, uint64_t slot, uint64_t seed, size_t len)
{
    ANSWERS(ERR_OK, &w->a, store_read_log(s, LOG, slot, 1, &w->a));
    NEED(body_is(store_row_bytes(&w->a, 0), seed, len));
}

void world_ends(struct world *w, struct store *s, uint64_t last)
{
    ANSWERS(ERR_NOT_FOUND, &w->a, store_read_log(s, LOG, last + 1, 1, &w->a));
}

void world_path(const struct world *w, const char *name, char path[PATH_MAX_LEN])
{
    scratch_path(path, PATH_MAX_LEN, w->dir, name);
}

void world_load(const struct world *w, const char *name, struct buf *to)
{
    char path[PATH_MAX_LEN];
    world_path(w, name, path);
    buf_init(to, FILE_MAX_LEN);
    NEED(file_read(path, to) == 0);
}

void world_save(const struct world *w, const char *name, struct bytes from)
{
    char path[PATH_MAX_LEN];
    world_path(w, name, path);
    int fd = open(path, O_WRONLY);
    NEED(fd >= 0 && file_write_fd(fd, from) == 0 && close(fd) == 0);
}
