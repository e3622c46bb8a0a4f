// SPDX-License-Identifier: Apache-2.0
// The handle of a file store: the checks of an open, the open logs, and the calls of the port.
#include "store/file/file.h"

#include "base/array.h"
#include "base/memory.h"
#include "os/lock.h"
#include "store/file/log.h"
#include "store/file/object.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define SEGMENT_BYTES ((uint64_t)64 << 20)
#define STEP_BYTES    ((uint64_t)4 << 20)
#define LOGS_SHARE    8 // one in this many of the files that may be open
#define LOGS_LEAST    16
#define CLOCK_OFF_MS  5000                   // a larger difference from the wall clock is a concern
#define TEMP_MS_MAX   ((int64_t)3600 * 1000) // an older temp file has lost its writer

struct file_store {
    struct store base;
    struct disk disk;
    struct file_clock clock;
    char *path;             // absolute: where the directory was opened; NULL: not known
    pthread_mutex_t lock;   // guards the fields below
    struct file_log **logs; // by key
    size_t logs_len;
    size_t logs_cap;
    size_t logs_max;  // 0: from the system's limit
    size_t logs_next; // where the search for a log to close continues
};

static struct file_store *file_of(struct store *s)
{
    return (struct file_store *)s;
}

static enum err file_enter(struct file_store *f, struct store_answer *a)
{
    enum err e = disk_alive(&f->disk, a);
    if (e) return e;
    int64_t now = file_clock_now(&f->clock);
    a->time = (struct interval){now, now};
    a->tight = disk_is_tight(&f->disk, now);
    return ERR_OK;
}

static enum err file_put_new(struct store *s, const char *key, struct bytes body,
                             struct store_answer *a)
{
    enum err e = file_enter(file_of(s), a);
    return e ? e : disk_put(&file_of(s)->disk, key, body, a->time.lo, true, a);
}

static enum err file_put(struct store *s, const char *key, struct bytes body,
                         struct store_answer *a)
{
    enum err e = file_enter(file_of(s), a);
    return e ? e : disk_put(&file_of(s)->disk, key, body, a->time.lo, false, a);
}

static enum err file_get(struct store *s, const char *key, size_t from, size_t len,
                         struct store_answer *a)
{
    enum err e = file_enter(file_of(s), a);
    return e ? e : file_object_get(&file_of(s)->disk, key, from, len, a);
}

static enum err file_list(struct store *s, const char *prefix, const char *after, size_t limit,
                          struct store_answer *a)
{
    enum err e = file_enter(file_of(s), a);
    return e ? e : file_object_list(&file_of(s)->disk, prefix, after, limit, a);
}

static enum err file_delete(struct store *s, const char *const *keys, size_t count,
                            struct store_answer *a)
{
    enum err e = file_enter(file_of(s), a);
    return e ? e : file_object_delete(&file_of(s)->disk, keys, count, a);
}

static size_t logs_find(const struct file_store *f, const char *key)
{
    size_t lo = 0, hi = f->logs_len;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (strcmp(f->logs[mid]->key, key) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

// The limit of open logs. Each log uses one or two files, and sockets need files too. The system's
// limit is read each time, because it can be raised while the store is open.
static size_t logs_max(const struct file_store *f)
{
    struct rlimit files;
    if (f->logs_max > 0) return f->logs_max;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0) return LOGS_LEAST;
    size_t share = (size_t)files.rlim_cur / LOGS_SHARE;
    return share > LOGS_LEAST ? share : LOGS_LEAST;
}

static struct file_log *logs_remove(struct file_store *f, size_t at)
{
    struct file_log *l = f->logs[at];
    f->logs_len--;
    memmove(f->logs + at, f->logs + at + 1, (f->logs_len - at) * sizeof(struct file_log *));
    return l;
}

// Closes a log that no call uses and that was not used recently. The search goes round, and each
// log that it passes stops being recent.
static void logs_shed(struct file_store *f)
{
    for (size_t tries = 0; tries < 2 * f->logs_len; tries++) {
        if (f->logs_next >= f->logs_len) f->logs_next = 0;
        struct file_log *l = f->logs[f->logs_next];
        if (l->users == 0 && !l->recent) {
            file_log_free(logs_remove(f, f->logs_next));
            return;
        }
        l->recent = false;
        f->logs_next++;
    }
}

static enum err logs_find_or_open(struct file_store *f, const char *key, bool create,
                                  struct file_log **out, struct store_answer *a)
{
    size_t at = logs_find(f, key);
    if (at < f->logs_len && strcmp(f->logs[at]->key, key) == 0) {
        *out = f->logs[at];
        return ERR_OK;
    }
    if (f->logs_len >= logs_max(f)) {
        logs_shed(f);
        at = logs_find(f, key);
    }
    enum err e = file_log_open(&f->disk, &f->clock, key, create, out, a);
    if (e) return e;
    *ARRAY_INSERT(f->logs, f->logs_len, f->logs_cap, at) = *out;
    return ERR_OK;
}

// For one call, which ends with log_leave.
static enum err log_enter(struct file_store *f, const char *key, bool create, struct file_log **out,
                          struct store_answer *a)
{
    enum err e = file_enter(f, a);
    if (e) return e;
    LOCKED(&f->lock);
    e = logs_find_or_open(f, key, create, out, a);
    if (!e) {
        (*out)->users++;
        (*out)->recent = true;
    }
    return e;
}

static enum err log_leave(struct file_store *f, struct file_log *l, enum err e)
{
    LOCKED(&f->lock);
    l->users--;
    return e;
}

static enum err file_append(struct store *s, const char *log, uint64_t slot, struct bytes body,
                            struct store_answer *a)
{
    struct file_log *l;
    enum err e = log_enter(file_of(s), log, true, &l, a);
    return e ? e : log_leave(file_of(s), l, file_log_append(l, slot, body, a));
}

static enum err file_read_log(struct store *s, const char *log, uint64_t slot, size_t bytes_max,
                              struct store_answer *a)
{
    struct file_log *l;
    enum err e = log_enter(file_of(s), log, false, &l, a);
    return e ? e : log_leave(file_of(s), l, file_log_read(l, slot, bytes_max, a));
}

static enum err file_extents(struct store *s, const char *log, uint64_t from, size_t limit,
                             struct store_answer *a)
{
    struct file_log *l;
    enum err e = log_enter(file_of(s), log, false, &l, a);
    if (e == ERR_NOT_FOUND) return ERR_OK;
    return e ? e : log_leave(file_of(s), l, file_log_extents(l, from, limit, a));
}

static enum err file_drop(struct store *s, const char *log, uint64_t first, uint64_t last,
                          struct store_answer *a)
{
    struct file_log *l;
    enum err e = log_enter(file_of(s), log, false, &l, a);
    if (e == ERR_NOT_FOUND) return ERR_OK;
    return e ? e : log_leave(file_of(s), l, file_log_drop(l, first, last, a));
}

static enum err file_seal(struct store *s, const char *log, struct store_answer *a)
{
    struct file_log *l;
    enum err e = log_enter(file_of(s), log, false, &l, a);
    if (e == ERR_NOT_FOUND) return ERR_OK;
    return e ? e : log_leave(file_of(s), l, file_log_seal(l, a));
}

// Creates the log if it does not exist: only an existing page can wake this process.
static enum err file_wait(struct store *s, const char *log, uint64_t slot, int64_t wait_ms,
                          struct store_answer *a)
{
    struct file_log *l;
    enum err e = log_enter(file_of(s), log, true, &l, a);
    return e ? e : log_leave(file_of(s), l, file_log_wait(l, slot, wait_ms, a));
}

static void file_rest(struct store *s, const char *log)
{
    struct file_store *f = file_of(s);
    LOCKED(&f->lock);
    size_t at = logs_find(f, log);
    bool there = at < f->logs_len && strcmp(f->logs[at]->key, log) == 0;
    if (there && f->logs[at]->users == 0) file_log_free(logs_remove(f, at));
}

static bool file_is_dead(struct store *s, char why[static STORE_WHY_MAX])
{
    LOCAL(store_answer, a);
    bool dead = disk_alive(&file_of(s)->disk, &a) != ERR_OK;
    (void)snprintf(why, STORE_WHY_MAX, "%s", a.why);
    return dead;
}

static bool is_exposed(struct disk *d, char why[static STORE_WHY_MAX])
{
    char path[DISK_PATH_MAX];
    if (!disk_is_exposed(d, path)) return false;
    (void)snprintf(why, STORE_WHY_MAX,
                   "every user of this machine can read \"%.80s\" and learn messages and the "
                   "node's secret: run chmod -R o-rwx on the store's directory",
                   path);
    return true;
}

// The open directory may have been renamed, or hidden by a mount or another directory.
static enum err file_moved(struct store *s, struct store_answer *a)
{
    struct file_store *f = file_of(s);
    struct stat named, open;
    enum err e = file_enter(f, a);
    if (e || !f->path) return e;
    bool missing = stat(f->path, &named) != 0;
    if (missing && errno != ENOENT && errno != ENOTDIR) return disk_refuse(a, "look at", f->path);
    if (fstat(f->disk.root, &open) != 0) return disk_refuse(a, "look at", f->path);
    if (!missing && named.st_dev == open.st_dev && named.st_ino == open.st_ino) return ERR_OK;
    return answer_refuse(a, ERR_CORRUPT,
                         "the directory of this store was moved or replaced while it was in use: "
                         "\"%.100s\" is %s; open the store again",
                         f->path, missing ? "missing" : "another directory now");
}

static bool is_off(struct file_clock *c, char why[static STORE_WHY_MAX])
{
    int64_t ahead = file_clock_ahead_ms(c), off = ahead < 0 ? -ahead : ahead;
    if (off <= CLOCK_OFF_MS) return false;
    const char *remedy = ahead < 0 ? "; to set it at once, stop every process that uses the store "
                                     "and remove the file \"@clock\""
                                   : ", and cannot be set back: messages carry its time";
    (void)snprintf(why, STORE_WHY_MAX,
                   "the store's clock is %lld s %s this machine's: it follows by %d ms a second%s",
                   (long long)(off / 1000), ahead < 0 ? "behind" : "ahead of",
                   1000 / CLOCK_FOLLOW_SHARE, remedy);
    return true;
}

static bool file_concern(struct store *s, enum store_concern what, char why[static STORE_WHY_MAX])
{
    switch (what) {
    case STORE_EXPOSED:
        return is_exposed(&file_of(s)->disk, why);
    case STORE_CLOCK_OFF:
        return is_off(&file_of(s)->clock, why);
    case STORE_NEARLY_FULL:
        return disk_is_nearly_full(&file_of(s)->disk, why);
    default:
        return false;
    }
}

static bool file_read_clock(struct store *s, int64_t *now_ms)
{
    *now_ms = file_clock_now(&file_of(s)->clock);
    return true;
}

static enum err file_check_space(struct store *s, uint64_t bytes, struct store_answer *a)
{
    enum err e = file_enter(file_of(s), a);
    return e ? e : disk_room(&file_of(s)->disk, bytes, a);
}

static void file_free(struct store *s)
{
    struct file_store *f = file_of(s);
    for (size_t i = 0; i < f->logs_len; i++)
        file_log_free(f->logs[i]);
    memory_free(f->logs);
    free(f->path);
    file_clock_done(&f->clock);
    (void)disk_close(f->disk.root);
    free(f->disk.path); // realpath allocated it
    (void)pthread_mutex_destroy(&f->lock);
    memory_free(f);
}

static const struct store_ops file_ops = {
    .put_new = file_put_new,
    .put = file_put,
    .get = file_get,
    .list = file_list,
    .delete = file_delete,
    .append = file_append,
    .read_log = file_read_log,
    .extents = file_extents,
    .drop = file_drop,
    .seal = file_seal,
    .wait = file_wait,
    .free = file_free,
    .rest = file_rest,
    .is_dead = file_is_dead,
    .concern = file_concern,
    .moved = file_moved,
    .check_space = file_check_space,
    .read_clock = file_read_clock,
};

// File systems that several machines write, or whose locks, mappings and syncs another machine
// performs.
static const struct {
    uint32_t magic;
    const char *name;
} remote_systems[] = {
    {0x00006969, "NFS"},  {0x0000517b, "SMB"},    {0xff534d42, "CIFS"},   {0xfe534d42, "SMB"},
    {0x01021997, "9P"},   {0x65735546, "FUSE"},   {0x00c36400, "Ceph"},   {0x5346414f, "AFS"},
    {0x73757245, "Coda"}, {0x01161970, "GFS2"},   {0x7461636f, "OCFS2"},  {0x0bd00bd0, "Lustre"},
    {0x47504653, "GPFS"}, {0x786f4256, "VBoxSF"}, {0xbacbacbc, "VMHGFS"},
};

static enum err refuse_remote(struct disk *d, const char *dir, struct store_answer *a)
{
    struct statfs fs;
    if (d->sys->fstatfs(d->root, &fs) != 0) return disk_refuse(a, "look at", dir);
    for (size_t i = 0; i < sizeof remote_systems / sizeof *remote_systems; i++)
        if ((uint32_t)fs.f_type == remote_systems[i].magic)
            return answer_refuse(a, ERR_INVALID,
                                 "\"%.100s\" is on %s, whose locks and syncs cannot be trusted "
                                 "here; use a directory on a local disk, or an s3:// store",
                                 dir, remote_systems[i].name);
    return ERR_OK;
}

static enum err refuse_path(const char *dir, struct store_answer *a)
{
    switch (errno) {
    case ENOTDIR:
    case EEXIST:
        return answer_refuse(a, ERR_INVALID, "\"%.120s\" is not a directory; name one", dir);
    case ENOENT:
        return answer_refuse(a, ERR_INVALID,
                             "the parent of \"%.120s\" does not exist; create it first", dir);
    case EACCES:
    case EPERM:
        return answer_refuse(a, ERR_DENIED,
                             "this user may not write in \"%.120s\"; change its owner or mode, or "
                             "name another directory",
                             dir);
    case EROFS:
        return answer_refuse(a, ERR_DENIED,
                             "\"%.120s\" is on a read-only file system; remount it or name another "
                             "directory",
                             dir);
    default:
        return disk_refuse(a, "use directory", dir);
    }
}

static enum err try_write(struct disk *d, const char *dir, struct store_answer *a)
{
    static const char probe[] = DISK_TEMP "/write-check";
    if (disk_mkdir(d, DISK_TEMP) != 0 && errno != EEXIST) return refuse_path(dir, a);
    if (faccessat(d->root, ".", W_OK | X_OK, AT_EACCESS) != 0) return refuse_path(dir, a);
    int fd = disk_open(d, probe, O_WRONLY | O_CREAT);
    if (fd < 0 && disk_err(errno) == ERR_CORRUPT) return disk_refuse(a, "open", probe);
    if (fd < 0 && disk_err(errno) == ERR_LIMIT) return ERR_OK; // full: it can still be drained
    if (fd < 0) return refuse_path(dir, a);
    (void)disk_close(fd);
    (void)d->sys->unlink(d->root, probe);
    return ERR_OK;
}

// Temp files of dead processes do no harm except for their space.
static void sweep_temp(struct disk *d)
{
    int fd = disk_open(d, DISK_TEMP, O_RDONLY | O_DIRECTORY);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        (void)disk_close(fd);
        return;
    }
    for (struct dirent *row = readdir(dir); row; row = readdir(dir)) {
        struct stat st;
        if (row->d_name[0] == '.') continue;
        if (fstatat(fd, row->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0) continue;
        int64_t changed_ms = (int64_t)st.st_ctim.tv_sec * 1000;
        if (d->sys->realtime_ms() - changed_ms > TEMP_MS_MAX) (void)unlinkat(fd, row->d_name, 0);
    }
    (void)closedir(dir);
}

static enum err open_dir(struct disk *d, const char *dir, struct store_answer *a)
{
    bool made = d->sys->mkdir(AT_FDCWD, dir, 0700) == 0;
    if (!made && errno != EEXIST && errno != EROFS) return refuse_path(dir, a);
    // The user gives this path. It may be a link, as /var/lib/x often is.
    d->root = d->sys->open(AT_FDCWD, dir, O_RDONLY | O_DIRECTORY, 0);
    if (d->root < 0) return refuse_path(dir, a);
    if (made) (void)fchmod(d->root, 0700); // independent of the umask
    disk_learn(d);
    d->path = realpath(dir, NULL);
    enum err e = refuse_remote(d, dir, a);
    return e ? e : try_write(d, dir, a);
}

static char *absolute(const char *dir)
{
    char path[2 * PATH_MAX];
    if (dir[0] == '/') return strdup(dir);
    if (!getcwd(path, PATH_MAX)) return NULL;
    size_t len = strlen(path);
    (void)snprintf(path + len, sizeof path - len, "/%s", dir);
    return strdup(path);
}

enum err store_file_open(const char *dir, const struct file_options *options, struct store **out,
                         char *why, size_t why_len)
{
    static const struct file_options defaults = {0};
    if (!options) options = &defaults;
    struct file_store *f = NEW(struct file_store);
    f->disk = (struct disk){
        .sys = options->sys ? options->sys : &file_sys_linux,
        .root = -1,
        .segment_bytes = options->segment_bytes ? options->segment_bytes : SEGMENT_BYTES,
        .step_bytes = options->step_bytes ? options->step_bytes : STEP_BYTES,
        .patience_ms = options->patience_ms ? options->patience_ms : LOCK_PATIENCE_MS,
        .reserve.bytes = options->reserve_bytes,
    };
    f->logs_max = options->logs_max;
    (void)pthread_mutex_init(&f->lock, NULL);
    store_init(&f->base, &file_ops);
    LOCAL(store_answer, a);
    enum err e = open_dir(&f->disk, dir, &a);
    if (!e) e = file_clock_open(&f->clock, &f->disk, &a);
    (void)snprintf(why, why_len, "%s", a.why);
    if (e) {
        store_free(&f->base);
        return e;
    }
    sweep_temp(&f->disk);
    f->path = absolute(dir);
    *out = &f->base;
    return ERR_OK;
}
