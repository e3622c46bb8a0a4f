// SPDX-License-Identifier: Apache-2.0
// The reserve: a file of allocated, unused space. While it is not complete, new messages are
// refused. All other writes (claims and outcomes, snapshots and floors) may use it up when the disk
// is full, so that the store can be drained. It grows again when there is space.
#include "store/file/disk.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define RESERVE_SHARE 16 // one part in this many of the file system
#define RESERVE_MAX   ((uint64_t)64 << 20)
#define RESERVE_LEAST ((uint64_t)128 << 10)
#define SPEND_SHARE   16  // one part in this many is freed at a time
#define MARGIN_SHARE  256 // space for the file system itself, and for racing writers
#define MARGIN_MAX    ((uint64_t)4 << 20)
#define LOOK_EVERY_MS 1000

struct space {
    uint64_t total;
    uint64_t free;
};

static bool space_of(struct disk *d, struct space *to)
{
    struct statfs fs;
    if (d->sys->fstatfs(d->root, &fs) != 0 || fs.f_blocks == 0) return false;
    uint64_t block = (uint64_t)fs.f_bsize;
    *to = (struct space){.total = fs.f_blocks * block, .free = fs.f_bavail * block};
    return true;
}

static uint64_t clamp(uint64_t value, uint64_t least, uint64_t most)
{
    return value < least ? least : value > most ? most : value;
}

static uint64_t wanted(const struct disk *d, const struct space *s)
{
    if (d->reserve.bytes > 0) return d->reserve.bytes;
    return clamp(s->total / RESERVE_SHARE, RESERVE_LEAST, RESERVE_MAX) & ~(uint64_t)4095;
}

static uint64_t margin(const struct space *s)
{
    return clamp(s->total / MARGIN_SHARE, 0, MARGIN_MAX);
}

// A copy of the store may have a sparse file instead, which reserves nothing.
static uint64_t held(struct disk *d, bool *there)
{
    struct stat st;
    *there = fstatat(d->root, DISK_RESERVE, &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (!*there) return 0;
    uint64_t size = (uint64_t)st.st_size, blocks = (uint64_t)st.st_blocks * 512;
    return !S_ISREG(st.st_mode) ? 0 : size < blocks ? size : blocks;
}

// Several processes may do this at once.
static bool grow(struct disk *d, uint64_t have, uint64_t want)
{
    int fd = disk_open(d, DISK_RESERVE, O_RDWR | O_CREAT);
    if (fd < 0) return false;
    bool whole = d->sys->allocate(fd, 0, (off_t)want) == 0;
    if (!whole) (void)d->sys->truncate(fd, (off_t)have); // frees the last blocks that it got
    (void)disk_close(fd);
    return whole;
}

static void note(struct disk *d, const struct space *s, uint64_t want, uint64_t missing)
{
    atomic_store(&d->reserve.tight, missing > 0 || s->free < want + margin(s));
}

// makes: also creates a missing reserve. A store without a send needs none.
static enum err look(struct disk *d, uint64_t bytes, bool makes, struct store_answer *a)
{
    struct space s;
    bool there;
    if (!space_of(d, &s)) return ERR_OK; // then the write itself reports the error
    uint64_t want = wanted(d, &s), have = held(d, &there);
    uint64_t missing = want > have && (there || makes) ? want - have : 0;
    bool room = s.free >= missing + bytes + margin(&s);
    if (room && missing > 0) {
        room = grow(d, have, want);
        s.free -= missing;
        missing = room ? 0 : missing;
    }
    note(d, &s, want, missing);
    if (room) return ERR_OK;
    return answer_refuse(a, ERR_LIMIT,
                         "the disk of the store is nearly full (%llu KiB free): new messages are "
                         "refused, all else goes on; process, purge or delete, or add space",
                         (unsigned long long)(s.free >> 10));
}

enum err disk_room(struct disk *d, uint64_t bytes, struct store_answer *a)
{
    return look(d, bytes, true, a);
}

bool disk_spend(struct disk *d, uint64_t need)
{
    int code = errno;
    if (code != ENOSPC && code != EDQUOT) return false;
    struct space s;
    struct stat st;
    bool gave = false;
    int fd = disk_open(d, DISK_RESERVE, O_RDWR);
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0 && space_of(d, &s)) {
        uint64_t size = (uint64_t)st.st_size;
        uint64_t part = need + clamp(wanted(d, &s) / SPEND_SHARE, 4096, MARGIN_MAX);
        bool enough = s.free + size >= need; // else it would be freed in vain
        gave = enough && d->sys->truncate(fd, (off_t)(size > part ? size - part : 0)) == 0;
        if (gave) (void)d->sys->fsync(fd); // a file system frees blocks when it commits
        atomic_store(&d->reserve.tight, true);
    }
    (void)disk_close(fd);
    errno = code;
    return gave;
}

bool disk_is_tight(struct disk *d, int64_t now_ms)
{
    int64_t looked = atomic_load(&d->reserve.looked_ms);
    bool due = now_ms < looked || now_ms - looked >= LOOK_EVERY_MS;
    if (due && atomic_compare_exchange_strong(&d->reserve.looked_ms, &looked, now_ms)) {
        char why[STORE_WHY_MAX];
        (void)disk_is_nearly_full(d, why);
    }
    return atomic_load(&d->reserve.tight);
}

bool disk_is_nearly_full(struct disk *d, char why[static STORE_WHY_MAX])
{
    LOCAL(store_answer, a);
    bool full = look(d, 0, false, &a) != ERR_OK;
    memcpy(why, a.why, STORE_WHY_MAX);
    return full;
}
