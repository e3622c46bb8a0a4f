// SPDX-License-Identifier: Apache-2.0
// The page's layout, and its reads and writes.
#define _GNU_SOURCE // gettid, statx, F_SET_RW_HINT
#include "store/file/page.h"

#include "base/hash.h"
#include "base/memory.h"
#include "os/futex.h"

#include <assert.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LOOK_TRIES  100 // a writer may replace both copies during a read
#define STATE_WORDS 14
#define LIFE_MARK   2 // RWH_WRITE_LIFE_SHORT

struct copy {
    uint64_t sequence;
    uint64_t word[STATE_WORDS];
    uint64_t check;
};

// The futex word lies between the copies, so one write covers it and either copy.
struct page_layout {
    uint64_t version;
    uint64_t fence; // written only by a process that takes over
    uint64_t thread;
    uint64_t holder;
    uint64_t turn;
    uint64_t reserved[11];
    struct copy first;
    uint64_t wake; // the low half is the futex
    struct copy second;
};

static_assert(sizeof(struct log_state) == STATE_WORDS * sizeof(uint64_t), "the words of a copy");
static_assert(offsetof(struct page_layout, first) == 128, "the layout is on disk");
static_assert(offsetof(struct page_layout, wake) == 256, "the layout is on disk");
static_assert(offsetof(struct page_layout, second) == 264, "the layout is on disk");
static_assert(sizeof(struct page_layout) <= LOG_PAGE_LEN, "it is one page");

static uint64_t copy_check(const struct copy *c)
{
    return hash64_of(bytes_of(c, offsetof(struct copy, check)), LOG_PAGE_VERSION);
}

static struct copy copy_of(const struct log_state *s, uint64_t sequence)
{
    struct copy c = {.sequence = sequence};
    memcpy(c.word, s, sizeof c.word);
    c.check = copy_check(&c);
    return c;
}

// A copied file has another inode or another time of birth.
static uint64_t file_of(int fd, ino_t inode)
{
    struct statx x;
    if (statx(fd, "", AT_EMPTY_PATH, STATX_BTIME, &x) != 0 || !(x.stx_mask & STATX_BTIME))
        return hash64_mix(inode, 0);
    return hash64_mix(inode, (uint64_t)x.stx_btime.tv_sec * 1000000000 + x.stx_btime.tv_nsec);
}

struct log_page *log_page_new(struct disk *d, int fd, uint64_t number)
{
    struct disk_id id;
    bool known = disk_identify(fd, "", 0, &id) == 0;
    void *map = known ? mmap(NULL, LOG_PAGE_LEN, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (map == MAP_FAILED) {
        (void)disk_close(fd);
        return NULL;
    }
    struct log_page *p = NEW(struct log_page);
    p->disk = d;
    p->fd = fd;
    p->map = map;
    p->id = id;
    p->number = number;
    p->file = file_of(fd, id.inode);
    atomic_init(&p->refs, 1);
    return p;
}

void log_page_keep(struct log_page *p)
{
    atomic_fetch_add(&p->refs, 1);
}

void log_page_drop(struct log_page *p)
{
    if (!p || atomic_fetch_sub(&p->refs, 1) > 1) return;
    (void)munmap(p->map, LOG_PAGE_LEN);
    (void)disk_close(p->fd);
    memory_free(p);
}

static bool look_once(const struct page_layout *page, struct log_look *to)
{
    const struct copy *best = NULL;
    const struct copy *copies[] = {&page->first, &page->second};
    for (size_t i = 0; i < 2; i++) {
        bool intact = copies[i]->check == copy_check(copies[i]);
        if (intact && (!best || copies[i]->sequence > best->sequence)) best = copies[i];
    }
    if (!best) return false;
    memcpy(&to->state, best->word, sizeof to->state);
    to->sequence = best->sequence;
    return true;
}

enum log_page_kind log_page_look(struct log_page *p, struct log_look *to)
{
    for (int tries = 0; tries < LOOK_TRIES; tries++) {
        struct page_layout page;
        memset(to, 0, sizeof *to);
        ssize_t n = disk_read(p->disk, p->fd, &page, sizeof page, 0);
        if (n < 0) return LOG_PAGE_FAILED;
        if ((size_t)n < sizeof page) return LOG_PAGE_DAMAGED;
        to->fenced = page.fence != 0;
        to->wake = (uint32_t)page.wake;
        to->holder = page.holder;
        to->thread = page.thread;
        to->turn = page.turn;
        if (look_once(&page, to) && page.version == LOG_PAGE_VERSION) return LOG_PAGE_GOOD;
        if (page.first.sequence == 0 && page.second.sequence == 0) break; // no writer is at work
    }
    return LOG_PAGE_DAMAGED;
}

void log_page_image(const struct log_state *s, uint8_t image[LOG_PAGE_LEN])
{
    struct page_layout page = {.version = LOG_PAGE_VERSION, .second = copy_of(s, 1), .wake = 1};
    memset(image, 0, LOG_PAGE_LEN);
    memcpy(image, &page, sizeof page);
}

void log_page_image_fence(uint8_t image[LOG_PAGE_LEN])
{
    uint64_t fence = 1;
    memcpy(image + offsetof(struct page_layout, fence), &fence, sizeof fence);
}

int log_page_write(struct log_page *p, const struct log_state *s, uint64_t *sequence)
{
    struct page_layout page = {.version = LOG_PAGE_VERSION};
    struct log_state bound = *s;
    bound.file = p->file;
    page.wake = ++*sequence;
    bool first = *sequence % 2 == 0;
    struct copy *to = first ? &page.first : &page.second;
    *to = copy_of(&bound, *sequence);
    const uint8_t *from = first ? (uint8_t *)&page.first : (uint8_t *)&page.wake;
    size_t at = first ? offsetof(struct page_layout, first) : offsetof(struct page_layout, wake);
    return disk_write(p->disk, p->fd, from, sizeof page.first + sizeof page.wake, at);
}

static _Atomic uint32_t *futex_of(struct log_page *p)
{
    return (_Atomic uint32_t *)((char *)p->map + offsetof(struct page_layout, wake));
}

void log_page_wake(struct log_page *p)
{
    futex_wake_all(futex_of(p));
}

int log_page_repair(struct log_page *p)
{
    uint64_t version = LOG_PAGE_VERSION;
    if (disk_write(p->disk, p->fd, &version, sizeof version, 0) != 0) return -1;
    struct stat st;
    if (fstat(p->fd, &st) != 0) return -1;
    return st.st_size == LOG_PAGE_LEN ? 0 : p->disk->sys->truncate(p->fd, LOG_PAGE_LEN);
}

int log_page_sign(struct log_page *p, uint64_t turn)
{
    uint64_t words[3] = {(uint64_t)gettid(), (uint64_t)getpid(), turn};
    return disk_write(p->disk, p->fd, words, sizeof words, offsetof(struct page_layout, thread));
}

int log_page_fence(struct log_page *p)
{
    uint64_t fence = 1;
    int failed =
        disk_write(p->disk, p->fd, &fence, sizeof fence, offsetof(struct page_layout, fence));
    if (failed == 0) log_page_wake(p);
    atomic_thread_fence(memory_order_seq_cst);
    return failed;
}

bool log_page_fenced(struct log_page *p)
{
    uint64_t fence = 0;
    atomic_thread_fence(memory_order_seq_cst);
    ssize_t n =
        disk_read(p->disk, p->fd, &fence, sizeof fence, offsetof(struct page_layout, fence));
    return n < (ssize_t)sizeof fence || fence != 0; // unreadable: not known to be ours
}

void log_page_wait(struct log_page *p, uint32_t seen, int64_t wait_ms)
{
    futex_wait(futex_of(p), seen, wait_ms);
}

bool log_page_mark(struct log_page *p)
{
    uint64_t hint = LIFE_MARK;
    return fcntl(p->fd, F_SET_RW_HINT, &hint) == 0 && log_page_marked(p);
}

bool log_page_marked(struct log_page *p)
{
    uint64_t hint = 0;
    return fcntl(p->fd, F_GET_RW_HINT, &hint) == 0 && hint == LIFE_MARK;
}
