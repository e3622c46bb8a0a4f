// SPDX-License-Identifier: Apache-2.0
// The segments of a log: lists them, opens them, reports extents, drops old ones.
#include "store/file/log.h"

#include "base/array.h"
#include "base/check.h"
#include "base/memory.h"
#include "os/lock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOG_OPEN_MAX 8 // segments open for reading, per log

void file_log_reader_init(struct log_reader *r)
{
    *r = (struct log_reader){0};
    (void)pthread_mutex_init(&r->lock, NULL);
}

static void segment_done(struct log_segment *g)
{
    (void)disk_close(g->fd);
    memory_free(g->index);
}

static void segments_free(struct log_segment *segments, size_t len)
{
    for (size_t i = 0; i < len; i++)
        segment_done(&segments[i]);
    memory_free(segments);
}

void file_log_forget(struct log_reader *r)
{
    segments_free(r->segments, r->len);
    r->segments = NULL;
    r->len = 0;
}

void file_log_reader_done(struct log_reader *r)
{
    file_log_forget(r);
    (void)pthread_mutex_destroy(&r->lock);
}

static bool name_parse(const char *name, uint64_t *first, uint64_t *generation)
{
    int used = 0;
    if (sscanf(name, "@%20" SCNu64 ".%" SCNu64 "%n", first, generation, &used) != 2) return false;
    char again[64];
    (void)snprintf(again, sizeof again, "@%020" PRIu64 ".%" PRIu64, *first, *generation);
    return strcmp(name, again) == 0;
}

static int segment_order(const void *a, const void *b)
{
    const struct log_segment *x = a, *y = b;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return (x->generation > y->generation) - (x->generation < y->generation);
}

struct listing {
    struct log_segment *segments;
    size_t len;
    size_t cap;
};

static void listing_add(struct listing *to, uint64_t first, uint64_t generation)
{
    *ARRAY_ADD(to->segments, to->len, to->cap) =
        (struct log_segment){.first = first, .generation = generation, .fd = -1};
}

// Segments past the tail's, and other copies of it, are unfinished work of a writer. They are
// skipped.
static int listing_read(struct file_log *l, const struct log_tail *t, struct listing *to)
{
    int fd = disk_open(l->disk, l->key, O_RDONLY | O_DIRECTORY);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) return disk_close(fd);
    for (struct dirent *row = readdir(dir); row; row = readdir(dir)) {
        uint64_t first, generation;
        if (!name_parse(row->d_name, &first, &generation)) continue;
        if (first > t->segment || (first == t->segment && generation != t->generation)) continue;
        listing_add(to, first, generation);
    }
    (void)closedir(dir);
    return 0;
}

// Keeps the highest generation of each. A segment ends one slot before the next.
static void listing_settle(struct listing *list, const struct log_reader *old)
{
    qsort(list->segments, list->len, sizeof *list->segments, segment_order);
    size_t kept = 0;
    for (size_t i = 0; i < list->len; i++) {
        bool newer = i + 1 < list->len && list->segments[i + 1].first == list->segments[i].first;
        if (!newer) list->segments[kept++] = list->segments[i];
    }
    list->len = kept;
    for (size_t i = 0; i < kept; i++)
        list->segments[i].last = i + 1 < kept ? list->segments[i + 1].first - 1 : UINT64_MAX;
    for (size_t i = 0, j = 0; i < kept && j < old->len;) { // keeps what the old list knows
        int order = segment_order(&list->segments[i], &old->segments[j]);
        if (order == 0) {
            uint64_t last = list->segments[i].last;
            list->segments[i] = old->segments[j];
            list->segments[i].last = last;
            old->segments[j].fd = -1;
            old->segments[j].index = NULL;
        }
        i += order <= 0;
        j += order >= 0;
    }
}

enum err file_log_list(struct file_log *l, const struct log_tail *t, struct store_answer *a)
{
    struct log_reader *r = &l->reader;
    struct listing list = {0};
    if (listing_read(l, t, &list) != 0) {
        memory_free(list.segments);
        return disk_refuse(a, "list", l->key);
    }
    if (list.len > 0) listing_settle(&list, r);
    segments_free(r->segments, r->len);
    r->segments = list.segments;
    r->len = list.len;
    return ERR_OK;
}

bool file_log_listed(const struct file_log *l, const struct log_tail *t)
{
    const struct log_reader *r = &l->reader;
    if (r->len == 0) return t->segment == 0;
    const struct log_segment *newest = &r->segments[r->len - 1];
    return newest->first == t->segment && newest->generation == t->generation;
}

static void close_oldest(struct log_reader *r)
{
    size_t open = 0;
    struct log_segment *oldest = NULL;
    for (size_t i = 0; i < r->len; i++) {
        struct log_segment *g = &r->segments[i];
        if (g->fd < 0) continue;
        open++;
        if (!oldest || g->used < oldest->used) oldest = g;
    }
    if (open >= LOG_OPEN_MAX) oldest->fd = disk_close(oldest->fd);
}

static enum err open_fd(struct file_log *l, struct log_segment *g, struct store_answer *a)
{
    close_oldest(&l->reader);
    struct disk *d = l->disk;
    char path[DISK_PATH_MAX];
    file_log_segment_path(l, g->first, g->generation, path);
    int fd = disk_open_quiet(d, path, O_RDONLY);
    if (fd < 0) return errno == ENOENT ? ERR_NOT_FOUND : disk_refuse_open(a, path);
    uint8_t head[SEGMENT_HEADER_LEN];
    ssize_t n = disk_read(d, fd, head, sizeof head, 0);
    if (n < 0) {
        (void)disk_close(fd);
        return disk_refuse(a, "read", path);
    }
    if (!segment_head_read(bytes_of(head, (size_t)n), &g->head) || g->head.first != g->first) {
        (void)disk_close(fd);
        return answer_refuse(a, ERR_CORRUPT, "the header of \"%.150s\" is damaged", path);
    }
    g->fd = fd;
    return ERR_OK;
}

enum err file_log_segment_open(struct file_log *l, struct log_segment *g, struct store_answer *a)
{
    g->used = ++l->reader.uses;
    enum err e = g->fd < 0 ? open_fd(l, g, a) : ERR_OK;
    if (e) return e;
    struct stat st; // each time: others append to it, and cut it down to drop it
    if (fstat(g->fd, &st) != 0) return disk_refuse(a, "stat a segment of", l->key);
    g->size = (uint64_t)st.st_size;
    g->dropped = st.st_size == SEGMENT_HEADER_LEN;
    return ERR_OK;
}

static enum err extents_locked(struct file_log *l, const struct log_tail *t, uint64_t from,
                               size_t limit, struct store_answer *a)
{
    struct log_reader *r = &l->reader;
    enum err e = file_log_list(l, t, a);
    if (!e && !file_log_listed(l, t)) return ERR_NOT_FOUND;
    for (size_t i = 0; i < r->len && !e; i++) {
        CHECK(r->segments);
        struct log_segment *g = &r->segments[i];
        struct log_segment *after = i + 1 < r->len ? g + 1 : NULL;
        uint64_t last = after ? g->last : t->next - 1;
        if (last < from || last < g->first) continue;
        if (a->rows_len == limit) {
            a->more = true;
            break;
        }
        e = file_log_segment_open(l, g, a);
        if (!e && after) e = file_log_segment_open(l, after, a);
        if (e) break;
        if (g->dropped) continue;
        int64_t newest = after ? after->head.before_ms : t->time_ms;
        *answer_row(a) = (struct store_row){.first = g->first,
                                            .last = last,
                                            .size = after ? g->size : t->offset,
                                            .modified = {newest, newest}};
    }
    return e;
}

enum err file_log_extents(struct file_log *l, uint64_t from, size_t limit, struct store_answer *a)
{
    enum err e = ERR_NOT_FOUND;
    // Tries again if a segment was removed meanwhile.
    for (int tries = 0; e == ERR_NOT_FOUND && tries < 3; tries++) {
        struct log_tail t;
        a->rows_len = 0;
        a->more = false;
        e = file_log_look(l, &t, a);
        if (e) return e;
        LOCKED(&l->reader.lock);
        e = extents_locked(l, &t, from, limit, a);
    }
    if (e != ERR_NOT_FOUND) return e;
    return answer_refuse(a, ERR_UNAVAILABLE, "journal \"%.120s\" is changing too fast", l->key);
}

static enum err cut_segment(struct file_log *l, struct log_segment *g, struct store_answer *a)
{
    enum err e = file_log_segment_open(l, g, a);
    if (e || g->dropped) return e;
    char path[DISK_PATH_MAX];
    file_log_segment_path(l, g->first, g->generation, path);
    int fd = disk_open(l->disk, path, O_WRONLY);
    if (fd < 0) return disk_refuse_open(a, path);
    int failed = l->disk->sys->truncate(fd, SEGMENT_HEADER_LEN);
    (void)disk_close(fd);
    if (failed != 0) return disk_refuse(a, "cut", path);
    g->dropped = true;
    return ERR_OK;
}

// Removes older copies first. If this is interrupted, the copy that counts is left.
static enum err unlink_segment(struct file_log *l, const struct log_segment *g,
                               struct store_answer *a)
{
    char path[DISK_PATH_MAX];
    for (uint64_t generation = 1; generation <= g->generation; generation++) {
        file_log_segment_path(l, g->first, generation, path);
        if (l->disk->sys->unlink(l->disk->root, path) != 0 && errno != ENOENT)
            return disk_refuse(a, "remove", path);
    }
    // Removes one at a time, so that a crash cannot remove a later one alone and leave a gap.
    return disk_sync_dir(l->disk, l->key) == 0 ? ERR_OK : disk_refuse(a, "sync", l->key);
}

static enum err drop_locked(struct file_log *l, uint64_t first, uint64_t last,
                            struct store_answer *a)
{
    const struct log_tail *t = &l->state.tail;
    struct log_reader *r = &l->reader;
    enum err e = file_log_list(l, t, a);
    if (!e && !file_log_listed(l, t))
        e = answer_refuse(a, ERR_CORRUPT, "the newest segment of journal \"%.120s\" is gone",
                          l->key);
    for (size_t i = 0; i + 1 < r->len && !e; i++)
        if (r->segments[i].first >= first && r->segments[i].last <= last)
            e = cut_segment(l, &r->segments[i], a);
    for (size_t i = 0; i + 1 < r->len && !e; i++) { // segments that no older one needs
        e = file_log_segment_open(l, &r->segments[i], a);
        if (e || !r->segments[i].dropped) break;
        e = unlink_segment(l, &r->segments[i], a);
    }
    file_log_forget(r);
    return e;
}

enum err file_log_drop(struct file_log *l, uint64_t first, uint64_t last, struct store_answer *a)
{
    enum err e = file_log_hold(l, a);
    if (e) return e;
    (void)pthread_mutex_lock(&l->reader.lock);
    e = drop_locked(l, first, last, a);
    (void)pthread_mutex_unlock(&l->reader.lock);
    file_log_release(l);
    return e;
}
