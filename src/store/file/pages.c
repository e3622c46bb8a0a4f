// SPDX-License-Identifier: Apache-2.0
// Which page counts: finds it, makes the first one, and continues with the next.
//
// flock cannot be taken away from a stopped process. So a takeover continues with another file,
// which is another lock. Any process can repeat or finish each of these steps:
//
//   1. The page is fenced (log_page_fence). From here on no holder of it acknowledges a write, and
//   no
//      reader trusts it.
//   2. The name under which its holders prepare segments becomes a folder. link(2) does not accept
//   a
//      folder, so a holder that resumes later cannot add a segment to the log. It can still write
//      past the mark of the current segment, and drop what may be dropped.
//   3. The tail is read from the segments. Because of step 1, every acknowledged record is there.
//   4. The next page appears by link(2), complete, with that tail. If several processes take over,
//   one
//      succeeds.
//   5. The first append begins a new segment. So a slot that a former holder writes after the last
//      record of the old segment is not a slot of that segment any more.
//
// A page that was removed during its use is handled the same way. Its file has no name, so its
// holders find that it is not the log's page. A fenced page takes its place first and is then taken
// over. So for each folder of step 2, the page of its number is fenced or never existed.
#include "store/file/log.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ATTACH_TRIES 16
#define BLOCK_TRIES  64
#define BLOCK_BYTES  4096 // size of a new folder
#define FOLDER_LOOKS 4
// One part in this many of the patience: the time for another process to finish a takeover.
#define FOLLOW_SHARE 20
#define FOLLOW_NAP   1000000

void file_log_page_name(uint64_t number, char name[LOG_NAME_MAX])
{
    if (number == 0)
        (void)snprintf(name, LOG_NAME_MAX, DISK_LOCK);
    else
        (void)snprintf(name, LOG_NAME_MAX, DISK_LOCK ".%" PRIu64, number);
}

void file_log_fresh_path(const struct file_log *l, uint64_t number, char path[DISK_PATH_MAX])
{
    char name[LOG_NAME_MAX];
    if (number == 0)
        (void)snprintf(name, sizeof name, DISK_FRESH);
    else
        (void)snprintf(name, sizeof name, DISK_FRESH ".%" PRIu64, number);
    file_log_path(l, name, path);
}

static void page_path(const struct file_log *l, uint64_t number, char path[DISK_PATH_MAX])
{
    char name[LOG_NAME_MAX];
    file_log_page_name(number, name);
    file_log_path(l, name, path);
}

// The folder of step 2 stays for ever, so it also fences a page whose own fence was overwritten.
static bool is_blocked(struct file_log *l, uint64_t number)
{
    char path[DISK_PATH_MAX];
    struct disk_id id;
    file_log_fresh_path(l, number, path);
    return disk_identify(l->disk->root, path, AT_SYMLINK_NOFOLLOW, &id) == 0 && S_ISDIR(id.mode);
}

bool file_log_owned(struct file_log *l, struct log_page *p)
{
    char path[DISK_PATH_MAX];
    struct disk_id id;
    if (log_page_fenced(p)) return false;
    if (is_blocked(l, p->number)) {
        (void)log_page_fence(p);
        return false;
    }
    page_path(l, p->number, path);
    return disk_identify(l->disk->root, path, AT_SYMLINK_NOFOLLOW, &id) == 0 &&
           disk_is_same(&id, &p->id);
}

struct folder {
    bool segments;
    bool page;
    uint64_t page_number; // the highest
    bool blocked;
    uint64_t blocked_number; // the highest page whose holders cannot make segments any more
};

// "<stem>" is 0, "<stem>.<n>" is n.
static bool number_parse(const char *name, const char *stem, uint64_t *number)
{
    size_t len = strlen(stem);
    if (strncmp(name, stem, len) != 0) return false;
    *number = 0;
    if (name[len] == 0) return true;
    if (name[len] != '.' || name[len + 1] < '1' || name[len + 1] > '9') return false;
    char *end;
    errno = 0;
    *number = strtoull(name + len + 1, &end, 10);
    return *end == 0 && errno == 0;
}

static void folder_note(int dir, const char *name, struct folder *to)
{
    uint64_t n;
    struct stat st;
    if (number_parse(name, DISK_LOCK, &n)) {
        if (!to->page || n > to->page_number) to->page_number = n;
        to->page = true;
    } else if (number_parse(name, DISK_FRESH, &n)) {
        if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(st.st_mode)) return;
        if (!to->blocked || n > to->blocked_number) to->blocked_number = n;
        to->blocked = true;
    } else if (name[0] == '@' && name[1] >= '0' && name[1] <= '9') {
        to->segments = true;
    }
}

static int folder_read(struct file_log *l, struct folder *to)
{
    *to = (struct folder){0};
    int fd = disk_open(l->disk, l->key, O_RDONLY | O_DIRECTORY);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR)) return 0;
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) return disk_close(fd);
    struct dirent *row;
    while (errno = 0, row = readdir(dir))
        folder_note(fd, row->d_name, to);
    int failed = errno;
    (void)closedir(dir);
    errno = failed;
    return failed == 0 ? 0 : -1;
}

// If a takeover replaces the page while the list is read, the list may show neither page.
static int folder_settled(struct file_log *l, struct folder *to)
{
    for (int looks = 0; looks < FOLDER_LOOKS; looks++) {
        if (folder_read(l, to) != 0) return -1;
        if (to->page || !to->segments) break;
    }
    return 0;
}

static enum err boot_of(struct file_log *l, struct log_state *s, struct store_answer *a)
{
    static_assert(sizeof s->boot == BOOT_ID_LEN, "two words hold a boot id");
    if (l->disk->sys->boot_id((uint8_t *)s->boot)) return ERR_OK;
    return answer_refuse(a, ERR_UNAVAILABLE,
                         "cannot read /proc/sys/kernel/random/boot_id; mount /proc");
}

static enum err page_put(struct file_log *l, uint64_t number, const struct log_state *s,
                         bool fenced, struct store_answer *a)
{
    uint8_t image[LOG_PAGE_LEN];
    char path[DISK_PATH_MAX];
    log_page_image(s, image);
    if (fenced) log_page_image_fence(image);
    page_path(l, number, path);
    enum err e = disk_put(l->disk, path, bytes_of(image, sizeof image), 0, true, a);
    if (e == ERR_UNKNOWN) e = ERR_UNAVAILABLE; // a page is no slot
    return e == ERR_CONFLICT ? ERR_OK : e;     // another process was faster
}

static enum err page_first(struct file_log *l, uint64_t number, struct store_answer *a)
{
    struct log_state s = {.tail = {.next = 1}};
    enum err e = boot_of(l, &s, a);
    return e ? e : page_put(l, number, &s, false, a);
}

// Step 2.
static enum err block(struct file_log *l, uint64_t number, struct store_answer *a)
{
    struct disk *d = l->disk;
    char path[DISK_PATH_MAX];
    struct stat st;
    file_log_fresh_path(l, number, path);
    for (int tries = 0; tries < BLOCK_TRIES; tries++) {
        (void)d->sys->unlink(d->root, path);
        if (disk_mkdir(d, path) == 0) return ERR_OK;
        if (disk_spend(d, BLOCK_BYTES)) continue;
        if (errno != EEXIST) return disk_refuse(a, "take over", path);
        if (fstatat(d->root, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode))
            return ERR_OK;
    }
    return answer_refuse(a, ERR_UNAVAILABLE, "cannot take over \"%.120s\": it changes too fast",
                         path);
}

// Steps 2 to 4; then the fenced page is deleted.
static enum err page_next(struct file_log *l, uint64_t number, uint64_t proved, uint64_t stalls,
                          struct store_answer *a)
{
    struct log_state s = {.fresh = 1, .stalls = stalls};
    char old[DISK_PATH_MAX];
    enum err e = block(l, number, a);
    if (!e) e = boot_of(l, &s, a);
    if (!e) e = file_log_survey(l, proved, false, &s.tail, a);
    if (!e) e = page_put(l, number + 1, &s, false, a);
    if (e) return e;
    page_path(l, number, old);
    (void)l->disk->sys->unlink(l->disk->root, old); // if that fails, the higher number counts
    return ERR_OK;
}

static uint64_t proved_by(struct file_log *l, struct log_page *p)
{
    struct log_look look;
    uint64_t proved = atomic_load(&l->seen);
    bool good = log_page_look(p, &look) == LOG_PAGE_GOOD && look.state.file == p->file;
    return good && look.state.tail.next > proved ? look.state.tail.next : proved;
}

enum err file_log_take_over(struct file_log *l, uint64_t stalls, struct store_answer *a)
{
    struct log_page *p = l->page;
    if (log_page_fence(p) != 0) return disk_refuse(a, "take over", l->key);
    return page_next(l, p->number, proved_by(l, p), stalls + 1, a);
}

static void page_set(struct file_log *l, struct log_page *p)
{
    (void)pthread_mutex_lock(&l->page_lock);
    struct log_page *old = l->page;
    l->page = p;
    (void)pthread_mutex_unlock(&l->page_lock);
    log_page_drop(old);
}

void file_log_detach(struct file_log *l)
{
    page_set(l, NULL);
}

// Another process is taking over, or died while it did. Wait a moment before doing the same.
static enum err page_follow(struct file_log *l, struct log_page *p, const struct folder *f,
                            struct store_answer *a)
{
    uint64_t number = f->blocked && f->blocked_number > p->number ? f->blocked_number : p->number;
    char path[DISK_PATH_MAX];
    struct stat st;
    struct timespec nap = {.tv_nsec = FOLLOW_NAP};
    page_path(l, number + 1, path);
    int64_t naps = l->disk->patience_ms / FOLLOW_SHARE;
    while (naps-- > 0) {
        if (fstatat(l->disk->root, path, &st, AT_SYMLINK_NOFOLLOW) == 0) return ERR_OK;
        (void)nanosleep(&nap, NULL);
    }
    if (log_page_fence(p) != 0) return disk_refuse(a, "take over", l->key);
    return page_next(l, number, proved_by(l, p), 1, a);
}

static enum err page_use(struct file_log *l, const struct folder *f, struct store_answer *a)
{
    uint64_t number = f->page_number;
    char path[DISK_PATH_MAX];
    page_path(l, number, path);
    int fd = disk_open_quiet(l->disk, path, O_RDWR);
    if (fd < 0 && errno == ENOENT) return ERR_OK; // deleted just now: search again
    if (fd < 0) return disk_refuse_open(a, path);
    struct log_page *p = log_page_new(l->disk, fd, number);
    if (!p) return disk_refuse(a, "map", path);
    bool blocked = f->blocked && f->blocked_number >= number;
    if (!blocked && !log_page_fenced(p)) {
        page_set(l, p);
        return ERR_OK;
    }
    enum err e = page_follow(l, p, f, a);
    log_page_drop(p);
    return e;
}

static enum err page_missing(struct file_log *l, const struct folder *f, bool create,
                             struct store_answer *a)
{
    uint64_t number = f->blocked ? f->blocked_number + 1 : 0;
    // The next search finds it, or the page of a process that was faster, and takes it over.
    if (f->segments) return page_put(l, number, &(struct log_state){0}, true, a);
    if (atomic_load(&l->seen) > 1)
        return answer_refuse(a, ERR_CORRUPT, "the segments of journal \"%.120s\" are gone", l->key);
    return create ? page_first(l, number, a) : ERR_NOT_FOUND;
}

enum err file_log_attach(struct file_log *l, bool create, struct store_answer *a)
{
    enum err e = ERR_OK;
    for (int tries = 0; !e && !l->page && tries < ATTACH_TRIES; tries++) {
        struct folder f;
        if (folder_settled(l, &f) != 0) return disk_refuse(a, "list", l->key);
        e = f.page ? page_use(l, &f, a) : page_missing(l, &f, create, a);
    }
    if (e || l->page) return e;
    return answer_refuse(a, ERR_UNAVAILABLE, "the pages of journal \"%.120s\" change too fast",
                         l->key);
}
