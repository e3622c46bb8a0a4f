// SPDX-License-Identifier: Apache-2.0
// The store's directory: paths relative to it, whole reads and writes, files that appear complete
// or not at all.
#pragma once

#include "store/backend.h"
#include "store/file/sys.h"

#include <fcntl.h>
#include <stdatomic.h>

#define DISK_PATH_MAX (STORE_KEY_MAX + 64)

// Names with '@' cannot be keys: the store keeps its own files under them.
#define DISK_TEMP     "@tmp"
#define DISK_CLOCK    "@clock"
#define DISK_LOCK     "@lock"
#define DISK_FRESH    "@new"
#define DISK_RESERVE  "@reserve"

// Space that is kept for all writes but sends (reserve.c).
struct reserve {
    uint64_t bytes;            // 0: as the file system's size says
    _Atomic bool tight;        // the disk is nearly full
    _Atomic int64_t looked_ms; // when that was last looked at
};

// Which file it is. The question names no time: where the kernel keeps fine times, a file whose
// time was asked for gets a new one at its next write, and so a dirty inode. ext4 without a journal
// then writes the inode at the next sync of any file whose inode lies in the same block.
struct disk_id {
    dev_t device;
    ino_t inode;
    mode_t mode;
    nlink_t links;
};

struct disk {
    const struct file_sys *sys;
    int root;
    char *path;             // of the root, absolute; NULL: it is not known
    struct disk_id id;      // of the root
    uint64_t segment_bytes; // a journal segment this long is followed by a new one
    uint64_t step_bytes;    // preallocated in it at a time
    int64_t patience_ms;    // how long a holder of a log's lock may make no progress
    bool links_counted;     // the file system tells of a directory whether it was removed
    mode_t mode;            // of the folders made here; files have it without the x bits
    uid_t owner;            // of the root: files made by the superuser are given to it
    gid_t group;            // of the root
    struct reserve reserve;
    _Atomic int dead; // the errno of the sync that failed: nothing may be believed after it
};

// Whether the disk has room for `bytes` of new messages beside the reserve, which is allocated, or
// made whole again, on the way. ERR_OK or ERR_LIMIT.
enum err disk_room(struct disk *d, uint64_t bytes, struct store_answer *a);
// After a call failed: if errno says that the disk is full, gives up part of the reserve. True: it
// did, call again. Keeps errno.
bool disk_spend(struct disk *d, uint64_t need);
// Whether the disk is nearly full: what is not needed should go soon. Looks once a second.
bool disk_is_tight(struct disk *d, int64_t now_ms);
// Whether new messages are refused, and the sentence that says so.
bool disk_is_nearly_full(struct disk *d, char why[static STORE_WHY_MAX]);

// An errno as one of the answers of the contract, for a call that certainly did nothing.
enum err disk_err(int code);
// "cannot <doing> <path>: <errno>", what to do about it where that is known, and disk_err of the
// errno.
enum err disk_refuse(struct store_answer *a, const char *doing, const char *path);
// Locks the file for this process. Whoever holds it for long was stopped in the middle of a write:
// after LOCK_PATIENCE_MS the answer is ERR_UNAVAILABLE.
#define LOCK_PATIENCE_MS 5000
enum err disk_lock(int fd, const char *path, struct store_answer *a);

// Right after the root was opened: whether its removal could be noticed, its device, and the mode,
// owner and group of what is created in it.
void disk_learn(struct disk *d);
// Makes a folder with disk.mode, whatever the umask is. -1 and errno, EEXIST included.
int disk_mkdir(struct disk *d, const char *path);
// Whether users other than the owner and the group can read a file (exposure.c). True: its path.
bool disk_is_exposed(struct disk *d, char path[static DISK_PATH_MAX]);

// Opens a regular file of the store, or a folder (O_DIRECTORY). Never follows a symbolic link and
// never waits for the other end of a FIFO. -1 and errno: ELOOP for a link, ENXIO for a FIFO, a
// socket or a device, EISDIR for a folder. A file that O_CREAT creates gets disk.mode.
int disk_open(struct disk *d, const char *path, int flags);
// The file at the path, or with the path "" the open file `dir`. Flags: AT_SYMLINK_NOFOLLOW or 0.
int disk_identify(int dir, const char *path, int flags, struct disk_id *to); // -1: errno
bool disk_is_same(const struct disk_id *x, const struct disk_id *y);
// Opens a regular file that exists, as disk_open does, and tells which one it is.
int disk_open_known(struct disk *d, const char *path, int flags, struct disk_id *to);
// As disk_open, for what a commit reads from: a read does not change the inode's access time. Only
// the owner of a file may have that; for other users the file is opened without it.
int disk_open_quiet(struct disk *d, const char *path, int flags);
// A sync failed: the handle is dead from now on.
void disk_die(struct disk *d);
// Also refuses when the path of the root leads to another file system by now. The old one may be
// gone; what is still in memory of it must not be told.
enum err disk_alive(struct disk *d, struct store_answer *a);

// All or -1 and errno; a signal interrupts none of them. disk_read stops early at the end of the
// file.
ssize_t disk_read(struct disk *d, int fd, void *to, size_t len, uint64_t at);
int disk_write(struct disk *d, int fd, const void *from, size_t len, uint64_t at);
int disk_zero(struct disk *d, int fd, uint64_t at, uint64_t len);
int disk_close(int fd); // keeps errno; -1 is fine; returns -1

// A sync that fails kills the handle; a directory that cannot be opened (too many files are open)
// was not synced, and that is all. Who has to sync what it is about to do opens it before.
int disk_sync_dir(struct disk *d, const char *dir); // "" is the root
int disk_sync_parent(struct disk *d, const char *path);
int disk_open_parent(struct disk *d, const char *path);
int disk_sync_open(struct disk *d, int dir);
int disk_make_parents(struct disk *d, const char *path); // durable

// Writes a file that appears whole: created (fresh, ERR_CONFLICT when there is one) or replaced.
// Until the name is durable the file has a second link, so that a reader who comes early can tell
// (disk_settle).
enum err disk_put(struct disk *d, const char *path, struct bytes body, int64_t modified_ms,
                  bool fresh, struct store_answer *a);
// Makes sure that a file somebody has just read will still be there after a power failure.
enum err disk_settle(struct disk *d, const char *path, const struct stat *st,
                     struct store_answer *a);
