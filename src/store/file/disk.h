// SPDX-License-Identifier: Apache-2.0
// The store's directory: paths relative to it, complete reads and writes, and files that appear
// complete or not at all.
#pragma once

#include "store/backend.h"
#include "store/file/sys.h"

#include <fcntl.h>
#include <stdatomic.h>

#define DISK_PATH_MAX (STORE_KEY_MAX + 64)

// Names with '@' cannot be keys: the store uses them for its own files.
#define DISK_TEMP     "@tmp"
#define DISK_CLOCK    "@clock"
#define DISK_LOCK     "@lock"
#define DISK_FRESH    "@new"
#define DISK_RESERVE  "@reserve"

// Space that is reserved for all writes except sends (reserve.c).
struct reserve {
    uint64_t bytes;            // 0: a share of the file system's size
    _Atomic bool tight;        // the disk is nearly full
    _Atomic int64_t looked_ms; // when that was last checked
};

// The identity of a file. The query reads no time, for this reason: where the kernel keeps fine
// times, a file whose time was read gets a new time at its next write, and so a dirty inode. ext4
// without a journal then writes the inode at the next sync of any file whose inode lies in the same
// block.
struct disk_id {
    dev_t device;
    ino_t inode;
    mode_t mode;
    nlink_t links;
};

struct disk {
    const struct file_sys *sys;
    int root;
    char *path;             // of the root, absolute; NULL: not known
    struct disk_id id;      // of the root
    uint64_t segment_bytes; // limit of a journal segment's length
    uint64_t step_bytes;    // preallocated in a segment at a time
    int64_t patience_ms;    // how long a holder of a log's lock may make no progress
    bool links_counted;     // the file system reports a link count of 0 for a removed directory
    mode_t mode;            // of new folders; new files have it without the x bits
    uid_t owner;            // of the root: files of the superuser get this owner
    gid_t group;            // of the root
    struct reserve reserve;
    _Atomic int dead; // errno of the sync that failed: after it no read can be trusted
};

// Returns whether the disk has space for `bytes` of new messages in addition to the reserve. It
// allocates or refills the reserve. ERR_OK or ERR_LIMIT.
enum err disk_room(struct disk *d, uint64_t bytes, struct store_answer *a);
// Called after a call failed. If errno says that the disk is full, it frees a part of the reserve
// and returns true: repeat the call. Keeps errno.
bool disk_spend(struct disk *d, uint64_t need);
// Returns whether the disk is nearly full, so that unneeded data should be deleted soon. It checks
// once a second.
bool disk_is_tight(struct disk *d, int64_t now_ms);
// Returns whether new messages are refused; why then has the sentence.
bool disk_is_nearly_full(struct disk *d, char why[static STORE_WHY_MAX]);

// Maps an errno to an error of the contract, for a call that certainly had no effect.
enum err disk_err(int code);
// Sets why to "cannot <doing> <path>: <errno>", with a remedy if one is known, and returns disk_err
// of the errno.
enum err disk_refuse(struct store_answer *a, const char *doing, const char *path);
// For a file of a journal that must be there. A folder in its place is ERR_CORRUPT.
enum err disk_refuse_open(struct store_answer *a, const char *path);
// Locks the file for this process. A process that holds the lock for long was stopped during a
// write. After LOCK_PATIENCE_MS the result is ERR_UNAVAILABLE.
#define LOCK_PATIENCE_MS 5000
enum err disk_lock(int fd, const char *path, struct store_answer *a);

// Called right after the root was opened. Finds out whether a removal of the root can be detected,
// its device, and the mode, owner and group of new files.
void disk_learn(struct disk *d);
// Makes a folder with disk.mode, independent of the umask. Returns -1 with errno, also for EEXIST.
int disk_mkdir(struct disk *d, const char *path);
// Returns whether users other than the owner and the group can read a file (exposure.c), and its
// path.
bool disk_is_exposed(struct disk *d, char path[static DISK_PATH_MAX]);

// Opens a regular file of the store, or a folder (O_DIRECTORY). It never follows a symbolic link
// and never blocks on a FIFO. Returns -1 with errno: ELOOP for a link, ENXIO for a FIFO, a socket
// or a device, EISDIR for a folder. A file that O_CREAT creates gets disk.mode.
int disk_open(struct disk *d, const char *path, int flags);
// The file at the path; with the path "" the open file `dir`. Flags: AT_SYMLINK_NOFOLLOW or 0.
int disk_identify(int dir, const char *path, int flags, struct disk_id *to); // -1: errno
bool disk_is_same(const struct disk_id *x, const struct disk_id *y);
// Opens an existing regular file, as disk_open does, and returns its identity.
int disk_open_known(struct disk *d, const char *path, int flags, struct disk_id *to);
// As disk_open, for files that a commit reads. A read through it does not change the inode's access
// time. Only the owner of a file may open it so; for other users the flag is omitted.
int disk_open_quiet(struct disk *d, const char *path, int flags);
// A sync failed: from now on the handle is dead.
void disk_die(struct disk *d);
// Refuses a dead handle. Also refuses if the path of the root now leads to another file system: the
// old one may be unmounted, and its cached data must not be returned.
enum err disk_alive(struct disk *d, struct store_answer *a);

// Return all bytes, or -1 with errno. They continue after signals. disk_read stops early at the end
// of the file.
ssize_t disk_read(struct disk *d, int fd, void *to, size_t len, uint64_t at);
int disk_write(struct disk *d, int fd, const void *from, size_t len, uint64_t at);
int disk_zero(struct disk *d, int fd, uint64_t at, uint64_t len);
int disk_close(int fd); // keeps errno; accepts -1; returns -1

// If a sync fails, the handle is dead. If a directory cannot be opened (too many open files), it
// was not synced, and the handle stays usable. A caller that must sync its next change opens the
// directory first.
int disk_sync_dir(struct disk *d, const char *dir); // "" is the root
int disk_open_parent(struct disk *d, const char *path);
int disk_sync_open(struct disk *d, int dir);

// Writes a file that appears complete. fresh: creates it, and returns ERR_CONFLICT if it exists;
// else replaces it. Until the name is durable the file has a second link, which an early reader can
// detect (disk_settle).
enum err disk_put(struct disk *d, const char *path, struct bytes body, int64_t modified_ms,
                  bool fresh, struct store_answer *a);
// Makes sure that a file that was just read survives a power failure.
enum err disk_settle(struct disk *d, const char *path, const struct stat *st,
                     struct store_answer *a);
