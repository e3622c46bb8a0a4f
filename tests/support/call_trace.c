// SPDX-License-Identifier: Apache-2.0
// Loaded into a node (LD_PRELOAD) that was compiled with -finstrument-functions. It records each
// call of a function, and each return, in the file that CALL_TRACE names. The file is as large as
// its creator made it. Further calls are counted and not recorded. tools/count-crossings reads it.
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

// The program must find these names before those of the C library.
#define HOOK __attribute__((visibility("default"), no_instrument_function))
HOOK void __cyg_profile_func_enter(void *function, void *site);
HOOK void __cyg_profile_func_exit(void *function, void *site);

struct trace {
    _Atomic uint64_t on; // the reader sets it
    _Atomic uint64_t len;
    struct trace_row {
        uint64_t thread;
        uint64_t function;
        uint64_t site; // in the caller; 0: the function returns
    } rows[];
};

static struct trace *trace; // NULL: nothing is recorded
static uint64_t rows_max;
static _Atomic uint64_t threads;
static _Thread_local uint64_t thread;

__attribute__((constructor, no_instrument_function)) static void trace_open(void)
{
    const char *path = getenv("CALL_TRACE");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0) return;
    off_t size = lseek(fd, 0, SEEK_END);
    void *map = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (map == MAP_FAILED) return;
    rows_max = ((uint64_t)size - sizeof *trace) / sizeof *trace->rows;
    trace = map;
}

__attribute__((no_instrument_function)) static void note(void *function, void *site)
{
    if (!trace || !atomic_load(&trace->on)) return;
    if (thread == 0) thread = atomic_fetch_add(&threads, 1) + 1;
    uint64_t row = atomic_fetch_add(&trace->len, 1);
    if (row < rows_max)
        trace->rows[row] = (struct trace_row){thread, (uintptr_t)function, (uintptr_t)site};
}

void __cyg_profile_func_enter(void *function, void *site)
{
    note(function, site);
}

void __cyg_profile_func_exit(void *function, void *site)
{
    (void)site;
    note(function, NULL);
}
