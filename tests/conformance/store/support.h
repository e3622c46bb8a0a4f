// SPDX-License-Identifier: Apache-2.0
// What the store tests share: a scratch directory, children that may be killed, a table of system
// calls that fail on command, and checks that name the answer they got. They work in children too,
// where they end the process.
#pragma once

#include "store/file/file.h"
#include "store/store.h"

#include <sys/types.h>

#define SCRATCH_MAX 64
#define DEADLINE_MS 20000 // nothing here takes so long unless it hangs

void need_at(bool fact, const char *text, const char *file, int line);
void answers_at(enum err want, enum err got, const char *why, const char *file, int line);

#define NEED(fact)                 need_at((fact), #fact, __FILE__, __LINE__)
#define ANSWERS(want, answer, got) answers_at((want), (got), (answer)->why, __FILE__, __LINE__)

void scratch_make(char path[SCRATCH_MAX]);
// In memory where the machine has a place for that: for tests that make hundreds of stores and a
// disk of their own.
void scratch_make_quick(char path[SCRATCH_MAX]);
void scratch_remove(const char *path);
void scratch_path(char *to, size_t to_len, const char *dir, const char *name);

// Runs work in a child; it ends with status 0 when work returns and 1 when a check fails.
pid_t child_start(void (*work)(void *arg), void *arg);
void child_ends_well(pid_t pid); // waits; fails when it did not end with status 0
void child_kill(pid_t pid);      // kill -9, and waits

// len bytes that depend on seed; the caller frees (bytes_free).
struct bytes body_make(uint64_t seed, size_t len);
bool body_is(struct bytes body, uint64_t seed, size_t len);

struct store *file_open(const char *dir, const struct file_options *options); // must succeed

#define S3_PREFIX_LEN 32

bool s3_here(void);
void s3_prefix(char to[S3_PREFIX_LEN]);       // a new one each time
struct store *s3_open_at(const char *prefix); // must succeed

// The server of tests/servers/with-redis. A prefix is made by s3_prefix.
bool redis_here(void);
void redis_url(char *to, size_t to_len, const char *prefix);
struct store *redis_open_at(const char *prefix); // must succeed

// While armed, the strike-th call from now on of a kind in `kinds` fails with `code`, and, when
// sticky, all after it.
enum sys_kind {
    SYS_OPEN = 1,
    SYS_NAME = 2, // mkdir, link, rename, unlink
    SYS_READ = 4,
    SYS_WRITE = 8,     // pwrite, touch, truncate
    SYS_SHORT = 16,    // with SYS_WRITE: writes half of it first
    SYS_ALLOCATE = 32, // fallocate
    SYS_SYNC = 64,     // fdatasync, fsync
    SYS_ALL = 127 - 16,
};

void sys_arm(unsigned kinds, long strike, int code, bool sticky);
bool sys_disarm(void);              // whether it struck
void sys_set_magic(uint32_t magic); // what statfs says; 0: the truth
void sys_step_wall(int64_t by_ms);  // steps the wall clock
void sys_pass(int64_t ms);          // time passes, by both clocks
void sys_reboot(void);              // another boot id, and a boot clock that starts over
void sys_reset(void);               // the truth again

extern const struct file_sys sys_faulty;
