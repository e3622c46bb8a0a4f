// SPDX-License-Identifier: Apache-2.0
// Durable files from unreliable calls: temp file, sync, link or rename, sync of the directory.
#define _GNU_SOURCE // statx, O_NOATIME
#include "store/file/disk.h"

#include "os/entropy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

enum err disk_err(int code)
{
    switch (code) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return ERR_LIMIT;
    case EACCES:
    case EPERM:
    case EROFS:
        return ERR_DENIED;
    case ENAMETOOLONG:
        return ERR_INVALID;
    case ELOOP: // from disk_open
    case ENXIO:
        return ERR_CORRUPT;
    default:
        return ERR_UNAVAILABLE;
    }
}

enum err disk_refuse(struct store_answer *a, const char *doing, const char *path)
{
    int code = errno;
    struct rlimit files = {0};
    if (code == EMFILE && getrlimit(RLIMIT_NOFILE, &files) == 0)
        return answer_refuse(a, disk_err(code),
                             "cannot %s \"%.80s\": too many files are open: this process may have "
                             "%llu; raise the limit (ulimit -n, LimitNOFILE)",
                             doing, path, (unsigned long long)files.rlim_cur);
    if (code == ELOOP)
        return answer_refuse(a, disk_err(code),
                             "\"%.120s\" is a symbolic link or lies behind one; a store follows "
                             "no links: put the file itself there",
                             path);
    if (code == ENXIO)
        return answer_refuse(a, disk_err(code),
                             "\"%.120s\" is not a regular file; remove it, or put the file that "
                             "belongs there in its place",
                             path);
    return answer_refuse(a, disk_err(code), "cannot %s \"%.120s\": %m", doing, path);
}

enum err disk_refuse_open(struct store_answer *a, const char *path)
{
    if (errno == EISDIR) errno = ENXIO; // waiting does not help
    return disk_refuse(a, "open", path);
}

// A blocking flock cannot be cancelled. Commits take a fraction of a millisecond, so a few short
// pauses are enough when other processes are busy.
#define LOCK_NAP_MIN_NS 20000
#define LOCK_NAP_MAX_NS 200000

enum err disk_lock(int fd, const char *path, struct store_answer *a)
{
    int64_t give_up = clock_boot_ms() + LOCK_PATIENCE_MS;
    struct timespec nap = {.tv_nsec = LOCK_NAP_MIN_NS};
    while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR) return disk_refuse(a, "lock", path);
        if (clock_boot_ms() >= give_up)
            return answer_refuse(a, ERR_UNAVAILABLE,
                                 "another process has held \"%.120s\" for %d s: it was stopped in "
                                 "the middle of a write; let it go on or end it",
                                 path, LOCK_PATIENCE_MS / 1000);
        (void)nanosleep(&nap, NULL);
        if (nap.tv_nsec < LOCK_NAP_MAX_NS) nap.tv_nsec += nap.tv_nsec / 2;
    }
    return ERR_OK;
}

void disk_die(struct disk *d)
{
    int none = 0;
    (void)atomic_compare_exchange_strong(&d->dead, &none, errno ? errno : EIO);
}

// Some containers forbid statx.
static int identify_slowly(int dir, const char *path, int flags, struct disk_id *to)
{
    struct stat st;
    if (fstatat(dir, path, &st, flags) != 0) return -1;
    *to = (struct disk_id){st.st_dev, st.st_ino, st.st_mode, st.st_nlink};
    return 0;
}

int disk_identify(int dir, const char *path, int flags, struct disk_id *to)
{
    struct statx x;
    if (path[0] == 0) flags |= AT_EMPTY_PATH;
    if (statx(dir, path, flags, STATX_TYPE | STATX_INO | STATX_NLINK, &x) != 0)
        return errno == EPERM || errno == ENOSYS ? identify_slowly(dir, path, flags, to) : -1;
    dev_t device = makedev(x.stx_dev_major, x.stx_dev_minor);
    *to = (struct disk_id){device, x.stx_ino, x.stx_mode, x.stx_nlink};
    return 0;
}

bool disk_is_same(const struct disk_id *x, const struct disk_id *y)
{
    return x->device == y->device && x->inode == y->inode;
}

// A file that is open in a removed directory can still be written, but no process can read it
// again.
static bool is_removed(const struct disk *d)
{
    struct disk_id root;
    return disk_identify(d->root, "", 0, &root) == 0 && root.links == 0;
}

// A group, or all others, get access to new files only if the root was made for them. That is so if
// it is closed to others (0750, 0770), or if they may write to it (0775, 0777). The default mode
// 0755 of mkdir is no such sign.
static mode_t mode_below(mode_t root)
{
    mode_t mode = 0700;
    if ((root & 0007) == 0 || (root & 0020)) mode |= root & 0070;
    if (root & 0002) mode |= root & 0007;
    return mode;
}

void disk_learn(struct disk *d)
{
    struct stat root;
    d->links_counted = !is_removed(d); // some file systems report 0 for every directory
    d->mode = 0700;
    if (fstat(d->root, &root) != 0) return;
    d->mode = mode_below(root.st_mode);
    d->owner = root.st_uid;
    d->group = root.st_gid;
    if (disk_identify(d->root, "", 0, &d->id) != 0)
        d->id = (struct disk_id){.device = root.st_dev, .inode = root.st_ino};
}

// A check of the path is usually enough: the root that it leads to was not removed.
static enum err refuse_lost(struct disk *d, struct store_answer *a)
{
    struct disk_id at_path;
    bool found = d->path && disk_identify(AT_FDCWD, d->path, 0, &at_path) == 0;
    if (found && disk_is_same(&at_path, &d->id)) return ERR_OK;
    if (d->links_counted && is_removed(d))
        return answer_refuse(a, ERR_UNAVAILABLE,
                             "the directory of this store was removed: put it back, then open the "
                             "store again");
    if (!found || at_path.device == d->id.device) return ERR_OK;
    return answer_refuse(a, ERR_UNAVAILABLE,
                         "\"%.120s\" is on another file system than when this store was opened: "
                         "open the store again",
                         d->path);
}

enum err disk_alive(struct disk *d, struct store_answer *a)
{
    int code = atomic_load(&d->dead);
    if (code == 0) return refuse_lost(d, a);
    errno = code;
    return answer_refuse(a, ERR_DENIED,
                         "a sync of this store failed (%m), so nothing read through this handle "
                         "can be trusted: check the disk, then open the store again");
}

ssize_t disk_read(struct disk *d, int fd, void *to, size_t len, uint64_t at)
{
    size_t done = 0;
    while (done < len) {
        ssize_t n = d->sys->pread(fd, (char *)to + done, len - done, (off_t)(at + done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return -1;
        if (n == 0) break;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

int disk_write(struct disk *d, int fd, const void *from, size_t len, uint64_t at)
{
    size_t done = 0;
    while (done < len) {
        ssize_t n = d->sys->pwrite(fd, (const char *)from + done, len - done, (off_t)(at + done));
        if (n < 0 && errno == EINTR) continue;
        if (n == 0) errno = EIO;
        if (n <= 0) return -1;
        done += (size_t)n;
    }
    return 0;
}

int disk_zero(struct disk *d, int fd, uint64_t at, uint64_t len)
{
    static const char zeros[16384];
    while (len > 0) {
        size_t part = len < sizeof zeros ? (size_t)len : sizeof zeros;
        if (disk_write(d, fd, zeros, part, at) != 0) return -1;
        at += part;
        len -= part;
    }
    return 0;
}

int disk_close(int fd)
{
    int code = errno;
    if (fd >= 0) (void)close(fd);
    errno = code;
    return -1;
}

// The umask may have removed bits, and the store's owner must be able to use files of the
// superuser. If a file system without modes or owners refuses, the file keeps what it has.
static void settle_mode(struct disk *d, int fd, const struct stat *st, mode_t mode)
{
    bool shared = (mode & 0070) != 0;
    bool superuser = geteuid() == 0 && (st->st_uid != d->owner || st->st_gid != d->group);
    bool regroup = shared && st->st_gid != d->group;
    if (superuser) regroup = fchown(fd, d->owner, d->group) != 0 && regroup;
    if (regroup && fchown(fd, (uid_t)-1, d->group) != 0) mode &= ~(mode_t)0070; // another group
    if ((st->st_mode & 0777) != mode) (void)fchmod(fd, (st->st_mode & 07000) | mode);
}

static int check_regular(mode_t mode)
{
    if (S_ISREG(mode)) return 0;
    errno = S_ISDIR(mode) ? EISDIR : ENXIO;
    return -1;
}

static int open_any(struct disk *d, const char *path, int flags)
{
    return d->sys->open(d->root, path, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, d->mode & 0666);
}

int disk_open(struct disk *d, const char *path, int flags)
{
    struct disk_id id;
    struct stat st;
    if (!(flags & (O_DIRECTORY | O_CREAT))) return disk_open_known(d, path, flags, &id);
    int fd = open_any(d, path, flags);
    if (fd < 0 || (flags & O_DIRECTORY)) return fd;
    if (fstat(fd, &st) != 0 || check_regular(st.st_mode) != 0) return disk_close(fd);
    settle_mode(d, fd, &st, d->mode & 0666);
    return fd;
}

int disk_open_known(struct disk *d, const char *path, int flags, struct disk_id *to)
{
    int fd = open_any(d, path, flags);
    if (fd < 0) return -1;
    if (disk_identify(fd, "", 0, to) == 0 && check_regular(to->mode) == 0) return fd;
    return disk_close(fd);
}

int disk_open_quiet(struct disk *d, const char *path, int flags)
{
    int fd = disk_open(d, path, flags | O_NOATIME);
    return fd < 0 && errno == EPERM ? disk_open(d, path, flags) : fd;
}

static int open_dir(struct disk *d, const char *dir)
{
    return disk_open(d, dir[0] ? dir : ".", O_RDONLY | O_DIRECTORY);
}

int disk_mkdir(struct disk *d, const char *path)
{
    if (d->sys->mkdir(d->root, path, d->mode) != 0) return -1;
    struct stat st;
    int fd = open_dir(d, path);
    if (fd >= 0 && fstat(fd, &st) == 0) settle_mode(d, fd, &st, d->mode);
    (void)disk_close(fd);
    return 0;
}

int disk_sync_open(struct disk *d, int dir)
{
    int failed = d->sys->fsync(dir);
    if (failed != 0) disk_die(d);
    return failed;
}

int disk_sync_dir(struct disk *d, const char *dir)
{
    int fd = open_dir(d, dir);
    if (fd < 0) return -1;
    int failed = disk_sync_open(d, fd);
    (void)disk_close(fd);
    return failed;
}

static void parent_of(char parent[DISK_PATH_MAX], const char *path)
{
    const char *slash = strrchr(path, '/');
    (void)snprintf(parent, DISK_PATH_MAX, "%.*s", slash ? (int)(slash - path) : 0, path);
}

int disk_open_parent(struct disk *d, const char *path)
{
    char parent[DISK_PATH_MAX];
    parent_of(parent, path);
    return open_dir(d, parent);
}

static int disk_sync_parent(struct disk *d, const char *path)
{
    char parent[DISK_PATH_MAX];
    parent_of(parent, path);
    return disk_sync_dir(d, parent);
}

// Syncs even if the directory exists: the process that made it may not have synced it yet.
static int disk_make_parents(struct disk *d, const char *path)
{
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        char dir[DISK_PATH_MAX];
        (void)snprintf(dir, sizeof dir, "%.*s", (int)(slash - path), path);
        if (disk_mkdir(d, dir) != 0 && errno != EEXIST) return -1;
        if (disk_sync_parent(d, dir) != 0) return -1;
    }
    return 0;
}

static int write_temp(struct disk *d, const char *temp, struct bytes body, int64_t modified_ms)
{
    int fd = disk_open(d, temp, O_WRONLY | O_CREAT | O_EXCL);
    if (fd < 0) return -1;
    int failed = disk_write(d, fd, body.data, body.len, 0);
    if (failed == 0) failed = d->sys->touch(fd, modified_ms);
    if (failed == 0) failed = d->sys->fsync(fd);
    (void)disk_close(fd);
    return failed;
}

// Gives the synced temp file its name, and leaves it a second link.
static int name_temp(struct disk *d, const char *temp, const char *path, bool fresh)
{
    if (fresh) return d->sys->link(d->root, temp, path);
    char second[DISK_PATH_MAX];
    (void)snprintf(second, sizeof second, "%.*s+", DISK_PATH_MAX - 2, temp);
    if (d->sys->link(d->root, temp, second) != 0) return -1;
    int failed = d->sys->rename(d->root, second, path);
    int code = errno;
    if (failed != 0) (void)d->sys->unlink(d->root, second);
    errno = code;
    return failed;
}

// The name is taken. If it is an object, it is made durable, because the caller will rely on the
// conflict.
static enum err taken(struct disk *d, int folder, const char *path, struct store_answer *a)
{
    struct stat st;
    if (fstatat(d->root, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode))
        return answer_refuse(a, ERR_INVALID, "key \"%.150s\" is a folder of other keys", path);
    if (disk_sync_open(d, folder) == 0) return ERR_CONFLICT;
    return answer_refuse(a, ERR_UNAVAILABLE, "cannot sync the folder of \"%.120s\": %m", path);
}

static enum err refuse_folder(struct store_answer *a, const char *path)
{
    if (errno == ENOTDIR || errno == EISDIR)
        return answer_refuse(a, ERR_INVALID, "key \"%.150s\" is a folder, or inside an object",
                             path);
    return disk_refuse(a, "create", path);
}

static enum err put_in(struct disk *d, int folder, const char *temp, const char *path, bool fresh,
                       struct store_answer *a)
{
    int failed = name_temp(d, temp, path, fresh);
    if (failed != 0) {
        if (errno == EEXIST && fresh) return taken(d, folder, path, a);
        if (errno != EIO) return refuse_folder(a, path);
        disk_die(d);
    }
    if (failed == 0 && disk_sync_open(d, folder) == 0) return ERR_OK;
    return answer_refuse(a, ERR_UNKNOWN, "cannot make \"%.120s\" durable: %m", path);
}

// The folder is opened before the file gets its name. After that only a disk failure can keep the
// name from becoming durable.
static enum err put_named(struct disk *d, const char *temp, const char *path, bool fresh,
                          struct store_answer *a)
{
    int folder = disk_open_parent(d, path);
    if (folder < 0 && errno == ENOENT) { // most folders exist: they are made only when missing
        if (disk_make_parents(d, path) != 0 && errno != ENOTDIR)
            return disk_refuse(a, "make the folder of", path);
        folder = disk_open_parent(d, path);
    }
    if (folder < 0) return refuse_folder(a, path);
    enum err e = put_in(d, folder, temp, path, fresh, a);
    (void)disk_close(folder);
    return e;
}

static enum err put_once(struct disk *d, const char *path, struct bytes body, int64_t modified_ms,
                         bool fresh, struct store_answer *a)
{
    char temp[DISK_PATH_MAX];
    (void)snprintf(temp, sizeof temp, DISK_TEMP "/%016llx", (unsigned long long)entropy_u64());
    enum err e = write_temp(d, temp, body, modified_ms) == 0 ? put_named(d, temp, path, fresh, a)
                                                             : disk_refuse(a, "write", path);
    int code = errno;
    (void)d->sys->unlink(d->root, temp); // a leftover only uses space until the next sweep
    errno = code;
    return e;
}

enum err disk_put(struct disk *d, const char *path, struct bytes body, int64_t modified_ms,
                  bool fresh, struct store_answer *a)
{
    enum err e = put_once(d, path, body, modified_ms, fresh, a);
    while (e == ERR_LIMIT && disk_spend(d, body.len))
        e = put_once(d, path, body, modified_ms, fresh, a);
    return e;
}

enum err disk_settle(struct disk *d, const char *path, const struct stat *st,
                     struct store_answer *a)
{
    if (st->st_nlink < 2 || disk_sync_parent(d, path) == 0) return ERR_OK;
    if (errno == ENOENT) return ERR_OK; // deleted meanwhile, with its folder: the read came before
    return disk_refuse(a, "sync the folder of", path);
}
