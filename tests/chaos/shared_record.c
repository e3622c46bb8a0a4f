// SPDX-License-Identifier: Apache-2.0
// The shared file, and chance from a seed.
#include "shared_record.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const char *const lane_names[LANES] = {"plain", "strict", "hybrid"};

struct shared_record *shared_record_open(const char *path, bool create)
{
    int fd = open(path, O_RDWR | O_CLOEXEC | (create ? O_CREAT : 0), 0600);
    if (fd < 0) return NULL;
    void *page = MAP_FAILED;
    if (!create || ftruncate(fd, sizeof(struct shared_record)) == 0)
        page = mmap(NULL, sizeof(struct shared_record), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    return page == MAP_FAILED ? NULL : page;
}

void shared_record_fault(struct shared_record *s, const char *format, ...)
{
    if (atomic_fetch_add(&s->faults, 1) > 0) return;
    va_list list;
    va_start(list, format);
    (void)vsnprintf(s->fault, sizeof s->fault, format, list);
    va_end(list);
}

// A process may be killed at any step of this. The id is written to a place that no other process
// has, and is noted by the one step that says where: half an id is never found, and keeps no one
// from noting it.
void shared_record_id(struct shared_record *s, uint64_t number, const char *id)
{
    _Atomic uint32_t *place = &s->rows[number].id;
    uint32_t had = atomic_load(place);
    if (had == 0) {
        uint32_t mine = atomic_fetch_add(&s->ids_len, 1) + 1;
        if (mine >= SHARED_RECORD_IDS_MAX) {
            shared_record_fault(s, "there is no place for the id of message %llu",
                                (unsigned long long)number);
            return;
        }
        (void)snprintf(s->ids[mine], sizeof s->ids[mine], "%s", id);
        if (atomic_compare_exchange_strong(place, &had, mine)) return;
    }
    if (strcmp(s->ids[had], id) != 0)
        shared_record_fault(s, "message %llu is %s and %s", (unsigned long long)number, s->ids[had],
                            id);
}

const char *shared_record_id_of(const struct shared_record *s, uint64_t number)
{
    uint32_t place = atomic_load(&s->rows[number].id);
    return place > 0 ? s->ids[place] : NULL;
}

uint64_t chance_next(struct chance *c) // splitmix64
{
    uint64_t z = c->state += 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

uint64_t chance_under(struct chance *c, uint64_t limit)
{
    return chance_next(c) % limit;
}

bool chance_percent(struct chance *c, uint64_t percent)
{
    return chance_under(c, 100) < percent;
}
