// SPDX-License-Identifier: Apache-2.0
// Objects are files named by their keys: reads, lists and deletes them. disk_put writes them.
#include "store/file/object.h"

#include "base/array.h"
#include "base/memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct interval modified_of(const struct stat *st)
{
    int64_t ms = (int64_t)st->st_mtim.tv_sec * 1000 + st->st_mtim.tv_nsec / 1000000;
    return (struct interval){ms, ms};
}

static enum err read_open(struct disk *d, int fd, const char *key, size_t from, size_t len,
                          struct store_answer *a)
{
    struct stat st;
    if (fstat(fd, &st) != 0) return disk_refuse(a, "stat", key);
    enum err e = disk_settle(d, key, &st, a);
    if (e) return e;
    size_t size = (size_t)st.st_size;
    if (from > size) from = size;
    if (len > size - from) len = size - from;
    a->modified = modified_of(&st);
    if (len == 0) return ERR_OK;
    uint8_t *room = buf_grow(&a->body, len);
    if (!room)
        return answer_refuse(a, ERR_LIMIT, "object \"%.120s\" has %zu bytes, too many", key, size);
    ssize_t n = disk_read(d, fd, room, len, from);
    if (n < 0) return disk_refuse(a, "read", key);
    if ((size_t)n < len)
        return answer_refuse(a, ERR_CORRUPT, "object \"%.120s\" was cut short", key);
    return ERR_OK;
}

enum err file_object_get(struct disk *d, const char *key, size_t from, size_t len,
                         struct store_answer *a)
{
    int fd = disk_open(d, key, O_RDONLY);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == EISDIR)) return ERR_NOT_FOUND;
    if (fd < 0) return disk_refuse(a, "open", key);
    enum err e = read_open(d, fd, key, from, len, a);
    (void)disk_close(fd);
    return e;
}

static bool same_folder(const char *a, const char *b)
{
    const char *a_end = strrchr(a, '/'), *b_end = strrchr(b, '/');
    size_t a_len = a_end ? (size_t)(a_end - a) : 0, b_len = b_end ? (size_t)(b_end - b) : 0;
    return a_len == b_len && strncmp(a, b, a_len) == 0;
}

static enum err unlink_keys(struct disk *d, const char *const *keys, size_t count,
                            struct store_answer *a)
{
    for (size_t i = 0; i < count; i++)
        if (d->sys->unlink(d->root, keys[i]) != 0 && errno != ENOENT && errno != ENOTDIR &&
            errno != EISDIR)
            return disk_refuse(a, "delete", keys[i]);
    return ERR_OK;
}

// Deletes keys of one folder, with one sync. The folder is opened first, so nothing behind a link
// is deleted.
static enum err delete_in_folder(struct disk *d, const char *const *keys, size_t count,
                                 struct store_answer *a)
{
    int folder = disk_open_parent(d, keys[0]);
    if (folder < 0 && (errno == ENOENT || errno == ENOTDIR)) return ERR_OK;
    if (folder < 0) return disk_refuse(a, "open the folder of", keys[0]);
    enum err e = unlink_keys(d, keys, count, a);
    if (!e && disk_sync_open(d, folder) != 0)
        e = answer_refuse(a, ERR_UNKNOWN, "cannot sync the folder of \"%.120s\": %m", keys[0]);
    (void)disk_close(folder);
    return e;
}

enum err file_object_delete(struct disk *d, const char *const *keys, size_t count,
                            struct store_answer *a)
{
    enum err e = ERR_OK;
    for (size_t i = 0, end; i < count && !e; i = end) {
        for (end = i + 1; end < count && same_folder(keys[i], keys[end]); end++)
            ;
        e = delete_in_folder(d, keys + i, end - i, a);
    }
    return e;
}

// The names of one folder. Names of folders end in '/', so that their order is the order of the
// keys below them.
struct names {
    char **name;
    size_t len;
    size_t cap;
};

static void names_add(struct names *to, const char *name, bool folder)
{
    size_t len = strlen(name);
    char *copy = memory_new(len + 2);
    memcpy(copy, name, len);
    copy[len] = folder ? '/' : 0;
    copy[len + 1] = 0;
    *ARRAY_ADD(to->name, to->len, to->cap) = copy;
}

static void names_done(struct names *n)
{
    for (size_t i = 0; i < n->len; i++)
        memory_free(n->name[i]);
    memory_free(n->name);
}

static int names_order(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_folder(int dir, const struct dirent *row)
{
    if (row->d_type != DT_UNKNOWN) return row->d_type == DT_DIR;
    struct stat st;
    return fstatat(dir, row->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

static int names_read(struct disk *d, const char *folder, struct names *to)
{
    int fd = disk_open(d, folder[0] ? folder : ".", O_RDONLY | O_DIRECTORY);
    if (fd < 0) return errno == ENOENT || errno == ENOTDIR ? 0 : -1;
    DIR *dir = fdopendir(fd);
    if (!dir) return disk_close(fd);
    for (struct dirent *row = readdir(dir); row; row = readdir(dir)) {
        const char *name = row->d_name;
        if (name[0] == '@' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) continue;
        names_add(to, name, is_folder(fd, row));
    }
    (void)closedir(dir);
    if (to->len > 0) qsort(to->name, to->len, sizeof *to->name, names_order);
    return 0;
}

struct object_listing {
    struct disk *disk;
    const char *prefix;
    const char *after;
    size_t limit;
    struct store_answer *a;
};

// Returns whether a folder (its path ends in '/') can hold a requested key.
static bool folder_wanted(const struct object_listing *w, const char *path)
{
    size_t len = strlen(path), prefix_len = strlen(w->prefix);
    if (strncmp(path, w->prefix, len < prefix_len ? len : prefix_len) != 0) return false;
    return strcmp(path, w->after) > 0 || strncmp(path, w->after, len) == 0;
}

static void list_object(struct object_listing *w, const char *path)
{
    if (strncmp(path, w->prefix, strlen(w->prefix)) != 0 || strcmp(path, w->after) <= 0) return;
    struct stat st;
    if (fstatat(w->disk->root, path, &st, AT_SYMLINK_NOFOLLOW) != 0) return; // deleted just now
    if (w->a->rows_len == w->limit)
        w->a->more = true;
    else
        answer_row_key(w->a, path, (uint64_t)st.st_size, modified_of(&st));
}

// The length of a key limits the depth.
static enum err list_folder(struct object_listing *w, const char *folder)
{
    struct names names CLEANUP(names_done) = {0};
    if (names_read(w->disk, folder, &names) != 0) return disk_refuse(w->a, "list", folder);
    for (size_t i = 0; i < names.len && !w->a->more; i++) {
        char path[STORE_KEY_MAX + 2];
        int len = snprintf(path, sizeof path, "%s%s", folder, names.name[i]);
        if (len < 0 || (size_t)len >= sizeof path) continue; // not ours: no key is this long
        if (path[len - 1] != '/') {
            list_object(w, path);
        } else if (folder_wanted(w, path)) {
            enum err e = list_folder(w, path);
            if (e) return e;
        }
    }
    return ERR_OK;
}

enum err file_object_list(struct disk *d, const char *prefix, const char *after, size_t limit,
                          struct store_answer *a)
{
    struct object_listing w = {d, prefix, after, limit, a};
    char folder[STORE_KEY_MAX + 2];
    const char *slash = strrchr(prefix, '/');
    (void)snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - prefix + 1) : 0, prefix);
    return list_folder(&w, folder);
}
