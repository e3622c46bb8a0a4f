// SPDX-License-Identifier: Apache-2.0
// The lock of a log, and the checks before a page is trusted. The page's state is compared with the
// segments: in full at the first use, and at the mark before each append.
#include "os/lock.h"
#include "store/file/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#define HOLD_TRIES      16
#define LOOK_TRIES      16
#define NAP_MIN_NS      20000 // a commit takes a fraction of a millisecond
#define NAP_MAX_NS      200000
#define STEP_MS_MAX     50 // after a longer gap between two checks, this process itself was stopped
#define STALLS_MAX      4  // the patience doubles with each takeover that led to no append
#define DISK_FACTOR     6  // times the patience, for a holder that waits for the disk
#define GIVE_UP_QUARTER 4  // a call waits a quarter longer than the patience

// Counts the time in which this process saw the same turn of the same holder.
static enum log_page_kind watch_step(struct file_log *l, struct log_look *look)
{
    struct log_watch *w = &l->watch;
    enum log_page_kind kind = log_page_look(l->page, look);
    int64_t now = clock_boot_ms(), step = now - w->looked_ms;
    bool same =
        w->number == l->page->number && w->turn == look->turn && w->sequence == look->sequence;
    if (!same)
        *w = (struct log_watch){
            .number = l->page->number, .turn = look->turn, .sequence = look->sequence};
    else
        w->waited_ms += step < STEP_MS_MAX ? step : STEP_MS_MAX;
    w->looked_ms = now;
    return kind;
}

// A thread in an uninterruptible sleep waits for the disk: it was not stopped. A thread of another
// pid namespace, or a new thread with the same id, can be mistaken for it. Only the patience
// depends on that.
static bool waits_for_disk(uint64_t thread)
{
    char path[64], stat[512];
    (void)snprintf(path, sizeof path, "/proc/%" PRIu64 "/stat", thread);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, stat, sizeof stat - 1);
    (void)disk_close(fd);
    if (n <= 0) return false;
    stat[n] = 0;
    const char *name_end = strrchr(stat, ')'); // "pid (name) state ..."
    return name_end && name_end[1] == ' ' && name_end[2] == 'D';
}

static bool is_stalled(const struct file_log *l, const struct log_look *look)
{
    uint64_t stalls = look->state.stalls < STALLS_MAX ? look->state.stalls : STALLS_MAX;
    int64_t patience_ms = l->disk->patience_ms << stalls, waited_ms = l->watch.waited_ms;
    if (waited_ms < patience_ms) return false;
    return waited_ms >= patience_ms * DISK_FACTOR || !waits_for_disk(look->thread);
}

static enum err refuse_held(struct file_log *l, const struct log_look *look, int64_t waited_ms,
                            struct store_answer *a)
{
    return answer_refuse(a, ERR_UNAVAILABLE,
                         "process %" PRIu64 " has held the lock of journal \"%.100s\" for %" PRId64
                         " ms: it was stopped in the middle of a write, or the disk is slow",
                         look->holder, l->key, waited_ms);
}

// The holder still has the lock. *moved: the log continues with another page.
static enum err wait_step(struct file_log *l, int64_t waited_ms, bool *moved,
                          struct store_answer *a)
{
    struct log_look look;
    enum log_page_kind kind = watch_step(l, &look);
    if (kind == LOG_PAGE_FAILED) return disk_refuse(a, "read the page of", l->key);
    *moved = look.fenced;
    if (*moved) return ERR_OK;
    int64_t patience_ms = l->disk->patience_ms;
    if (is_stalled(l, &look)) {
        *moved = true;
        return file_log_take_over(l, look.state.stalls, a);
    }
    if (waited_ms < patience_ms + patience_ms / GIVE_UP_QUARTER) return ERR_OK;
    return refuse_held(l, &look, waited_ms, a);
}

// A blocking flock cannot be cancelled.
static enum err lock_wait(struct file_log *l, bool *moved, struct store_answer *a)
{
    int64_t began = clock_boot_ms();
    struct timespec nap = {.tv_nsec = NAP_MIN_NS};
    while (flock(l->lock_fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR) return disk_refuse(a, "lock", l->key);
        enum err e = wait_step(l, clock_boot_ms() - began, moved, a);
        if (e || *moved) return e;
        (void)nanosleep(&nap, NULL);
        if (nap.tv_nsec < NAP_MAX_NS) nap.tv_nsec += nap.tv_nsec / 2;
    }
    return ERR_OK;
}

// The file is opened for each turn. A child of fork would inherit a lasting descriptor. If the
// parent was then killed in its turn, the child would keep the parent's lock.
static enum err lock_take(struct file_log *l, bool *moved, struct store_answer *a)
{
    char name[LOG_NAME_MAX], path[DISK_PATH_MAX];
    file_log_page_name(l->page->number, name);
    file_log_path(l, name, path);
    struct disk_id id;
    l->lock_fd = disk_open_known(l->disk, path, O_RDWR, &id);
    *moved = l->lock_fd < 0 && errno == ENOENT;
    if (*moved) return ERR_OK;
    if (l->lock_fd < 0) return disk_refuse(a, "open", path);
    *moved = !disk_is_same(&id, &l->page->id);
    return *moved ? ERR_OK : lock_wait(l, moved, a);
}

static void lock_drop(struct file_log *l)
{
    if (l->lock_fd >= 0) (void)flock(l->lock_fd, LOCK_UN); // also if a child has inherited it
    l->lock_fd = disk_close(l->lock_fd);
}

void file_log_release(struct file_log *l)
{
    lock_drop(l);
    (void)pthread_mutex_unlock(&l->lock);
}

void file_log_saw(struct file_log *l, uint64_t next)
{
    uint64_t seen = atomic_load(&l->seen);
    while (seen < next && !atomic_compare_exchange_weak(&l->seen, &seen, next))
        ;
}

int file_log_note_held(struct file_log *l)
{
    return log_page_write(l->page, &l->state, &l->sequence);
}

enum err file_log_publish_held(struct file_log *l, struct store_answer *a)
{
    if (file_log_note_held(l) != 0) return disk_refuse(a, "write the page of", l->key);
    log_page_wake(l->page);
    return ERR_OK;
}

void file_log_poison_held(struct file_log *l)
{
    int code = errno;
    l->state.poisoned = 1;
    l->state.busy_end = 0;
    // If that fails, the page still says busy, and the next holder repairs it.
    (void)file_log_note_held(l);
    errno = code;
    disk_die(l->disk);
}

static enum err rebuild_held(struct file_log *l, enum log_page_kind kind, struct store_answer *a)
{
    uint64_t boot[2], proved = atomic_load(&l->seen);
    if (!l->disk->sys->boot_id((uint8_t *)boot))
        return answer_refuse(a, ERR_UNAVAILABLE, "cannot read the id of this boot");
    bool good = kind == LOG_PAGE_GOOD;
    bool ours = good && (l->state.file == 0 || l->state.file == l->page->file);
    // A page is written after its record is durable. So segments that have less lost something,
    // also if both were copied: the copy lacks the end.
    if (good && l->state.tail.next > proved) proved = l->state.tail.next;
    // After a boot there is no former holder that could still write to the segment.
    bool booted = good && memcmp(l->state.boot, boot, sizeof boot) != 0;
    struct log_state s = {.fresh = !booted};
    memcpy(s.boot, boot, sizeof boot);
    enum err e = file_log_survey(l, proved, booted, &s.tail, a);
    if (e) return e;
    s.marked = log_page_mark(l->page);
    bool right = ours && memcmp(&s.tail, &l->state.tail, sizeof s.tail) == 0;
    if (right && !booted) s.fresh = l->state.fresh; // the page was right: only its mark is missing
    l->state = s;
    bool ends = true;
    if (!s.fresh) e = file_log_ends_held(l, &ends, a);
    if (e) return e;
    if (!ends) l->state.fresh = 1;
    if (log_page_repair(l->page) != 0) return disk_refuse(a, "repair the page of", l->key);
    return file_log_publish_held(l, a);
}

// Checks the page alone: it is of this boot, this file and this life of the page cache, and is not
// behind what this process saw before.
static bool believable(struct file_log *l, enum log_page_kind kind)
{
    const struct log_state *s = &l->state;
    uint64_t boot[2];
    return kind == LOG_PAGE_GOOD && l->disk->sys->boot_id((uint8_t *)boot) &&
           memcmp(s->boot, boot, sizeof boot) == 0 && (s->file == 0 || s->file == l->page->file) &&
           (!s->marked || log_page_marked(l->page)) && s->tail.next >= atomic_load(&l->seen);
}

static enum err settle_held(struct file_log *l, enum log_page_kind kind, struct store_answer *a)
{
    struct log_page *p = l->page;
    bool verified = atomic_load(&p->verified);
    bool good = verified ? kind == LOG_PAGE_GOOD && l->state.tail.next >= atomic_load(&l->seen)
                         : believable(l, kind);
    // A write in progress from an earlier life of the page cache may consist of acknowledged
    // records. Without the mark on the page, only the segments can decide.
    if (!verified && !l->state.marked && l->state.busy_end) good = false;
    enum err e = good && !verified ? file_log_agrees_held(l, &good, a) : ERR_OK;
    if (!e && good) e = file_log_mend_held(l, &good, a);
    if (!e && good) e = file_log_ends_held(l, &good, a);
    if (!e && !good) e = rebuild_held(l, kind, a);
    if (!e && !l->state.marked && !verified && log_page_mark(p)) {
        l->state.marked = 1;
        e = file_log_publish_held(l, a);
    }
    if (e) return e;
    atomic_store(&p->verified, true);
    return ERR_OK;
}

// *moved: the page is not the log's page any more.
static enum err settle(struct file_log *l, bool *moved, struct store_answer *a)
{
    struct log_look look;
    enum log_page_kind kind = log_page_look(l->page, &look);
    if (kind == LOG_PAGE_FAILED) return disk_refuse(a, "read the page of", l->key);
    *moved = look.fenced; // a later fence is detected after a publish
    if (*moved) return ERR_OK;
    l->state = look.state;
    l->sequence = look.sequence;
    atomic_store(&l->alone, look.turn == l->turn);
    l->turn = look.turn + 1;
    if (log_page_sign(l->page, l->turn) != 0) return disk_refuse(a, "write the page of", l->key);
    return settle_held(l, kind, a);
}

static enum err hold(struct file_log *l, struct store_answer *a)
{
    for (int tries = 0; tries < HOLD_TRIES; tries++) {
        bool moved = false;
        enum err e = file_log_attach(l, true, a);
        if (!e) e = lock_take(l, &moved, a);
        if (!e && !moved) e = settle(l, &moved, a);
        if (e || !moved) return e;
        lock_drop(l);
        file_log_detach(l);
    }
    return answer_refuse(a, ERR_UNAVAILABLE, "the pages of journal \"%.120s\" change too fast",
                         l->key);
}

enum err file_log_hold(struct file_log *l, struct store_answer *a)
{
    (void)pthread_mutex_lock(&l->lock);
    enum err e = hold(l, a);
    if (e) file_log_release(l);
    return e;
}

static struct log_page *page_keep(struct file_log *l)
{
    LOCKED(&l->page_lock);
    struct log_page *p = l->page;
    if (p) log_page_keep(p);
    return p;
}

// GOOD: the page is the log's page, and its state can be trusted.
static enum log_page_kind look_at(struct file_log *l, struct log_page *p, struct log_look *look)
{
    if (!atomic_load(&p->verified)) return LOG_PAGE_DAMAGED;
    enum log_page_kind kind = log_page_look(p, look);
    if (kind != LOG_PAGE_GOOD) return kind;
    if (look->state.tail.next < atomic_load(&l->seen)) return LOG_PAGE_DAMAGED;
    if (!file_log_owned(l, p)) return LOG_PAGE_DAMAGED;
    file_log_saw(l, look->state.tail.next);
    return LOG_PAGE_GOOD;
}

static enum err look_page(struct file_log *l, struct log_page **out, struct log_look *look,
                          struct store_answer *a)
{
    for (int tries = 0; tries < LOOK_TRIES; tries++) {
        struct log_page *p = page_keep(l);
        enum log_page_kind kind = p ? look_at(l, p, look) : LOG_PAGE_DAMAGED;
        if (kind == LOG_PAGE_GOOD) {
            *out = p;
            return ERR_OK;
        }
        log_page_drop(p);
        if (kind == LOG_PAGE_FAILED) return disk_refuse(a, "read the page of", l->key);
        enum err e = file_log_hold(l, a);
        if (e) return e;
        file_log_release(l);
    }
    return answer_refuse(a, ERR_UNAVAILABLE, "journal \"%.120s\" is changing too fast", l->key);
}

bool file_log_may_have(struct file_log *l, uint64_t slot)
{
    if (slot < atomic_load(&l->seen)) return true;
    if (atomic_load(&l->alone)) return false;
    struct log_look look;
    struct log_page *p = page_keep(l);
    bool there = p && log_page_look(p, &look) == LOG_PAGE_GOOD && slot < look.state.tail.next;
    log_page_drop(p);
    return there;
}

enum err file_log_look(struct file_log *l, struct log_tail *t, struct store_answer *a)
{
    struct log_page *p;
    struct log_look look;
    enum err e = look_page(l, &p, &look, a);
    if (e) return e;
    *t = look.state.tail;
    log_page_drop(p);
    return ERR_OK;
}

#define WAIT_MS_MAX 5000 // of one sleep; then the page may be another

enum err file_log_wait(struct file_log *l, uint64_t slot, int64_t wait_ms, struct store_answer *a)
{
    int64_t end = clock_boot_ms() + wait_ms;
    for (;;) {
        struct log_page *p;
        struct log_look look;
        enum err e = look_page(l, &p, &look, a);
        if (e) return e;
        int64_t left = end - clock_boot_ms();
        bool there = slot < look.state.tail.next;
        if (!there && left > 0)
            log_page_wait(p, look.wake, left < WAIT_MS_MAX ? left : WAIT_MS_MAX);
        log_page_drop(p);
        if (there) return ERR_OK;
        if (left <= 0) return ERR_NOT_FOUND;
    }
}
