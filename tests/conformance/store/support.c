// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE // nftw
#include "support.h"

#include "base/memory.h"
#include "base/rng.h"
#include "os/entropy.h"
#include "store/redis/redis.h"
#include "store/s3/s3.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static bool in_child; // the one thing a fork changes about a failed check

static void failed(const char *file, int line)
{
    if (in_child) _exit(1);
    _fail(file, line);
}

void need_at(bool fact, const char *text, const char *file, int line)
{
    if (fact) return;
    (void)fprintf(stderr, "# %s:%d: not true: %s\n", file, line, text);
    failed(file, line);
}

void answers_at(enum err want, enum err got, const char *why, const char *file, int line)
{
    if (want == got) return;
    (void)fprintf(stderr, "# %s:%d: answered %s, not %s (%s)\n", file, line, err_name(got),
                  err_name(want), why);
    failed(file, line);
}

static bool scratch_in(const char *base, char path[SCRATCH_MAX])
{
    (void)snprintf(path, SCRATCH_MAX, "%.40s/sluice-XXXXXX", base);
    return mkdtemp(path) != NULL;
}

void scratch_make(char path[SCRATCH_MAX])
{
    const char *base = getenv("TMPDIR");
    NEED(scratch_in(base && base[0] ? base : "/tmp", path));
}

void scratch_make_quick(char path[SCRATCH_MAX])
{
    if (!scratch_in("/dev/shm", path)) scratch_make(path);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    return remove(path);
}

void scratch_remove(const char *path)
{
    (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

void scratch_path(char *to, size_t to_len, const char *dir, const char *name)
{
    (void)snprintf(to, to_len, "%s/%s", dir, name);
}

pid_t child_start(void (*work)(void *arg), void *arg)
{
    (void)fflush(NULL);
    pid_t pid = fork();
    NEED(pid >= 0);
    if (pid > 0) return pid;
    in_child = true;
    (void)alarm(DEADLINE_MS / 1000 * 3); // for a test that forgets it
    work(arg);
    _exit(0);
}

void child_ends_well(pid_t pid)
{
    int status = 0;
    NEED(waitpid(pid, &status, 0) == pid);
    NEED(WIFEXITED(status));
    NEED(WEXITSTATUS(status) == 0);
}

void child_kill(pid_t pid)
{
    NEED(kill(pid, SIGKILL) == 0);
    NEED(waitpid(pid, NULL, 0) == pid);
}

static void body_fill(uint8_t *to, uint64_t seed, size_t len)
{
    struct rng rng;
    rng_init(&rng, seed);
    for (size_t i = 0; i < len; i++)
        to[i] = (uint8_t)rng_next(&rng);
}

struct bytes body_make(uint64_t seed, size_t len)
{
    uint8_t *to = memory_new(len);
    body_fill(to, seed, len);
    return bytes_of(to, len);
}

bool body_is(struct bytes body, uint64_t seed, size_t len)
{
    struct bytes want = body_make(seed, len);
    bool same = bytes_equal(body, want);
    bytes_free(want);
    return same;
}

struct store *file_open(const char *dir, const struct file_options *options)
{
    struct store *s = NULL;
    char why[STORE_WHY_MAX] = "";
    enum err e = store_file_open(dir, options, &s, why, sizeof why);
    answers_at(ERR_OK, e, why, __FILE__, __LINE__);
    return s;
}

bool s3_here(void)
{
    const char *bucket = getenv("SLUICE_TEST_S3");
    return bucket && bucket[0];
}

void s3_prefix(char to[S3_PREFIX_LEN])
{
    (void)snprintf(to, S3_PREFIX_LEN, "t-%016llx", (unsigned long long)entropy_u64());
}

struct store *s3_open_at(const char *prefix)
{
    char url[512], why[STORE_WHY_MAX] = "";
    (void)snprintf(url, sizeof url, "%s/%s", getenv("SLUICE_TEST_S3"), prefix);
    struct store *s = NULL;
    enum err e = store_s3_open(url, &s, why, sizeof why);
    answers_at(ERR_OK, e, why, __FILE__, __LINE__);
    return s;
}

#define REDIS_OPENS 20

bool redis_here(void)
{
    const char *url = getenv("SLUICE_TEST_REDIS");
    return url && url[0];
}

void redis_url(char *to, size_t to_len, const char *prefix)
{
    (void)snprintf(to, to_len, "%s&prefix=%s", getenv("SLUICE_TEST_REDIS"), prefix);
}

struct store *redis_open_at(const char *prefix)
{
    char url[512], why[STORE_WHY_MAX] = "";
    redis_url(url, sizeof url, prefix);
    struct store *s = NULL;
    enum err e = ERR_UNAVAILABLE;
    for (int i = 0; e == ERR_UNAVAILABLE && i < REDIS_OPENS; i++) // the way there may have faults
        e = store_redis_open(url, &s, why, sizeof why);
    answers_at(ERR_OK, e, why, __FILE__, __LINE__);
    return s;
}

static struct {
    _Atomic unsigned kinds;
    _Atomic long left; // calls until the strike; not armed: kinds is 0
    _Atomic int code;
    _Atomic bool sticky;
    _Atomic bool struck;
    _Atomic uint32_t magic;
    _Atomic int64_t wall_ms;
    _Atomic int64_t boot_base_ms;
    _Atomic uint64_t boots;
} sys;

void sys_arm(unsigned kinds, long strike, int code, bool sticky)
{
    sys.left = strike;
    sys.code = code;
    sys.sticky = sticky;
    sys.struck = false;
    sys.kinds = kinds;
}

bool sys_disarm(void)
{
    sys.kinds = 0;
    return sys.struck;
}

void sys_set_magic(uint32_t magic)
{
    sys.magic = magic;
}

void sys_step_wall(int64_t by_ms)
{
    sys.wall_ms += by_ms;
}

void sys_pass(int64_t ms)
{
    sys.wall_ms += ms;
    sys.boot_base_ms -= ms;
}

void sys_reboot(void)
{
    sys.boots++;
    sys.boot_base_ms = clock_boot_ms() - 1000;
}

void sys_reset(void)
{
    (void)sys_disarm();
    sys.magic = 0;
    sys.wall_ms = 0;
    sys.boots = 0;
    sys.boot_base_ms = 0;
}

static bool strike(unsigned kind)
{
    if (!(sys.kinds & kind)) return false;
    long left = atomic_fetch_sub(&sys.left, 1) - 1;
    if (left > 0 || (left < 0 && !sys.sticky)) return false;
    sys.struck = true;
    errno = sys.code;
    return true;
}

static int bad_open(int dir, const char *path, int flags, mode_t mode)
{
    return strike(SYS_OPEN) ? -1 : file_sys_linux.open(dir, path, flags, mode);
}

static int bad_mkdir(int dir, const char *path, mode_t mode)
{
    return strike(SYS_NAME) ? -1 : file_sys_linux.mkdir(dir, path, mode);
}

static int bad_link(int dir, const char *from, const char *to)
{
    return strike(SYS_NAME) ? -1 : file_sys_linux.link(dir, from, to);
}

static int bad_rename(int dir, const char *from, const char *to)
{
    return strike(SYS_NAME) ? -1 : file_sys_linux.rename(dir, from, to);
}

static int bad_unlink(int dir, const char *path)
{
    return strike(SYS_NAME) ? -1 : file_sys_linux.unlink(dir, path);
}

static ssize_t bad_pread(int fd, void *to, size_t len, off_t at)
{
    return strike(SYS_READ) ? -1 : file_sys_linux.pread(fd, to, len, at);
}

static ssize_t bad_pwrite(int fd, const void *from, size_t len, off_t at)
{
    if (!strike(SYS_WRITE)) return file_sys_linux.pwrite(fd, from, len, at);
    int code = errno;
    if (sys.kinds & SYS_SHORT) (void)!file_sys_linux.pwrite(fd, from, len / 2, at);
    errno = code;
    return -1;
}

static int bad_allocate(int fd, off_t at, off_t len)
{
    return strike(SYS_ALLOCATE) ? -1 : file_sys_linux.allocate(fd, at, len);
}

static int bad_truncate(int fd, off_t len)
{
    return strike(SYS_WRITE) ? -1 : file_sys_linux.truncate(fd, len);
}

static int bad_touch(int fd, int64_t ms)
{
    return strike(SYS_WRITE) ? -1 : file_sys_linux.touch(fd, ms);
}

static int bad_fdatasync(int fd)
{
    return strike(SYS_SYNC) ? -1 : file_sys_linux.fdatasync(fd);
}

static int bad_fsync(int fd)
{
    return strike(SYS_SYNC) ? -1 : file_sys_linux.fsync(fd);
}

static int bad_fstatfs(int fd, struct statfs *to)
{
    int failed_too = file_sys_linux.fstatfs(fd, to);
    if (sys.magic) to->f_type = (__typeof__(to->f_type))sys.magic;
    return failed_too;
}

static int64_t bad_boot_ms(void)
{
    return clock_boot_ms() - sys.boot_base_ms;
}

static int64_t bad_realtime_ms(void)
{
    return clock_realtime_ms() + sys.wall_ms;
}

static bool bad_boot_id(uint8_t id[BOOT_ID_LEN])
{
    if (!clock_boot_id(id)) return false;
    id[0] = (uint8_t)(id[0] + sys.boots);
    return true;
}

const struct file_sys sys_faulty = {
    .open = bad_open,
    .mkdir = bad_mkdir,
    .link = bad_link,
    .rename = bad_rename,
    .unlink = bad_unlink,
    .pread = bad_pread,
    .pwrite = bad_pwrite,
    .allocate = bad_allocate,
    .truncate = bad_truncate,
    .touch = bad_touch,
    .fdatasync = bad_fdatasync,
    .fsync = bad_fsync,
    .fstatfs = bad_fstatfs,
    .boot_ms = bad_boot_ms,
    .realtime_ms = bad_realtime_ms,
    .boot_id = bad_boot_id,
};
