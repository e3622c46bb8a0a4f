// SPDX-License-Identifier: Apache-2.0
// Reading and writing the mapped page, one atomic word at a time.
#include "store/file/page.h"

#include "base/check.h"
#include "base/hash.h"
#include "os/futex.h"

#include <assert.h>
#include <string.h>

#define LOG_PAGE_VERSION 1

static_assert(sizeof(struct log_page) <= LOG_PAGE_LEN, "it is one page");
static_assert(sizeof(struct log_tail) == 40, "five words");

static void tail_load(struct log_page *p, uint64_t which, uint64_t word[5])
{
    for (size_t i = 0; i < 5; i++)
        word[i] = atomic_load(&p->tails[which].word[i]);
}

struct log_tail log_page_tail(struct log_page *p)
{
    struct log_tail t;
    uint64_t word[5], turn;
    do { // the writer touches this copy only after turn has moved on
        turn = atomic_load(&p->turn);
        tail_load(p, turn % 2, word);
    } while (atomic_load(&p->turn) != turn);
    memcpy(&t, word, sizeof t);
    return t;
}

static uint64_t tail_check(const uint64_t word[5])
{
    return hash64_of(bytes_of(word, 5 * sizeof *word), LOG_PAGE_VERSION);
}

void log_page_publish(struct log_page *p, const struct log_tail *t)
{
    uint64_t word[5];
    memcpy(word, t, sizeof word);
    uint64_t turn = atomic_load(&p->turn) + 1;
    for (size_t i = 0; i < 5; i++)
        atomic_store(&p->tails[turn % 2].word[i], word[i]);
    atomic_store(&p->tails[turn % 2].check, tail_check(word));
    atomic_store(&p->turn, turn);
    atomic_fetch_add(&p->wake, 1);
    futex_wake_all(&p->wake);
}

uint64_t log_page_next_proved(struct log_page *p)
{
    uint64_t next = 0;
    for (uint64_t i = 0; i < 2; i++) {
        uint64_t word[5];
        tail_load(p, i, word);
        if (atomic_load(&p->tails[i].check) == tail_check(word) && word[0] > next) next = word[0];
    }
    return next;
}

static void boot_words(const uint8_t boot[BOOT_ID_LEN], uint64_t word[2])
{
    static_assert(BOOT_ID_LEN == 16, "two words");
    memcpy(word, boot, BOOT_ID_LEN);
}

bool log_page_current(struct log_page *p, const uint8_t boot[BOOT_ID_LEN])
{
    uint64_t word[2];
    boot_words(boot, word);
    return atomic_load(&p->version) == LOG_PAGE_VERSION && atomic_load(&p->boot[0]) == word[0] &&
           atomic_load(&p->boot[1]) == word[1];
}

void log_page_start(struct log_page *p, const uint8_t boot[BOOT_ID_LEN])
{
    uint64_t word[2];
    boot_words(boot, word);
    atomic_store(&p->busy_end, 0);
    atomic_store(&p->poisoned, 0);
    atomic_store(&p->version, LOG_PAGE_VERSION);
    atomic_store(&p->boot[1], word[1]);
    atomic_store(&p->boot[0], word[0]);
}
