// SPDX-License-Identifier: Apache-2.0
// A disk that fills up, or becomes read-only, under a ledger: ops are refused or in doubt, never
// lost, and go on when the disk is well again.
#define _GNU_SOURCE // unshare
#include "../unit/unit.h"
#include "os/entropy.h"
#include "places.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>

#define MORE_ADDS 10

#define NEED(fact)                                                                                 \
    do {                                                                                           \
        if (!(fact)) {                                                                             \
            (void)fprintf(stderr, "line %d: %s\n", __LINE__, #fact);                               \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

#define CHILD_CANNOT_MOUNT 77

static enum err add(struct ledger *l, int64_t *value)
{
    uint8_t id[16];
    entropy_fill(id, sizeof id);
    return ledger_add(l, "n", 1, id, value);
}

// Takes all space but keep bytes.
static void fill(const char *path, off_t size, off_t keep)
{
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    NEED(fd >= 0);
    off_t len = 0;
    while (size > 4096) {
        if (posix_fallocate(fd, len, size) == 0) {
            len += size;
        } else {
            size /= 2;
        }
    }
    NEED(len > keep);
    NEED(ftruncate(fd, len - keep) == 0);
    NEED(close(fd) == 0);
}

static int64_t add_until_refused(struct ledger *l, enum err *err)
{
    int64_t added = 0;
    while (added < 100000 && !(*err = add(l, NULL)))
        added++;
    return added;
}

// With the same options: how long a request id is remembered is a rule of the fold.
static int64_t value_seen_by_a_newcomer(const char *dir, const struct file_options *files,
                                        const struct ledger_options *options)
{
    struct store *store;
    struct ledger *ledger;
    char why[STORE_WHY_MAX] = "";
    int64_t value = 0;
    NEED(store_file_open(dir, files, &store, why, sizeof why) == ERR_OK);
    NEED(ledger_open(store, "test", options, &ledger) == ERR_OK);
    NEED(ledger_read(ledger, "n", &value) == ERR_OK);
    ledger_close(ledger);
    store_free(store);
    return value;
}

static void use_small_disk(const char *mountpoint)
{
    char dir[SCRATCH_PATH_MAX + 16], ballast[SCRATCH_PATH_MAX + 16];
    (void)snprintf(dir, sizeof dir, "%s/store", mountpoint);
    (void)snprintf(ballast, sizeof ballast, "%s/ballast", mountpoint);
    struct file_options files = {.segment_bytes = 64 << 10, .step_bytes = 16 << 10};
    struct ledger_options options = {.memory_ms = 50, .patience_ms = 5000};
    struct store *store;
    struct ledger *ledger;
    char why[STORE_WHY_MAX] = "";
    NEED(store_file_open(dir, &files, &store, why, sizeof why) == ERR_OK);
    NEED(ledger_open(store, "test", &options, &ledger) == ERR_OK);
    enum err err;
    int64_t total = 0, value = 0;
    for (int round = 0; round < 3; round++) {
        NEED(add(ledger, &value) == ERR_OK);
        NEED(value == ++total);
        fill(ballast, 16 << 20, (round + 1) * 20000);
        total += add_until_refused(ledger, &err);
        NEED(err == ERR_LIMIT || err == ERR_UNAVAILABLE);
        NEED(unlink(ballast) == 0);
    }
    for (int i = 0; i < MORE_ADDS; i++) {
        NEED(add(ledger, &value) == ERR_OK);
        NEED(value == ++total); // what was refused did not happen, then or later
    }
    ledger_close(ledger);
    store_free(store);
    NEED(value_seen_by_a_newcomer(dir, &files, &options) == total);
}

static void full_disk_refuses_and_loses_nothing(void **state)
{
    (void)state;
    struct scratch scratch;
    assert_true(scratch_make(&scratch, NULL));
    pid_t child = fork();
    if (child == 0) {
        bool mounted = unshare(CLONE_NEWNS) == 0 &&
                       mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
                       mount("sluice-test", scratch.path, "tmpfs", 0, "size=1m") == 0;
        if (!mounted) _exit(CHILD_CANNOT_MOUNT);
        use_small_disk(scratch.path);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    scratch_remove(&scratch);
    if (WIFEXITED(status) && WEXITSTATUS(status) == CHILD_CANNOT_MOUNT) {
        (void)printf("# skipped: mounting is not allowed here\n");
        return;
    }
    assert_int_equal(status, 0);
}

static _Atomic bool read_only;

static int refused(void)
{
    errno = EROFS;
    return -1;
}

static ssize_t ro_pwrite(int fd, const void *from, size_t len, off_t at)
{
    return atomic_load(&read_only) ? refused() : file_sys_linux.pwrite(fd, from, len, at);
}

static int ro_allocate(int fd, off_t at, off_t len)
{
    return atomic_load(&read_only) ? refused() : file_sys_linux.allocate(fd, at, len);
}

static int ro_open(int dir, const char *path, int flags, mode_t mode)
{
    bool writes = (flags & (O_CREAT | O_TRUNC)) != 0;
    return atomic_load(&read_only) && writes ? refused()
                                             : file_sys_linux.open(dir, path, flags, mode);
}

static void read_only_disk_refuses_and_loses_nothing(void **state)
{
    (void)state;
    struct file_sys sys = file_sys_linux;
    sys.pwrite = ro_pwrite;
    sys.allocate = ro_allocate;
    sys.open = ro_open;
    struct place place;
    struct handle h, hasty;
    place_open(&place, "file");
    place.files.sys = &sys;
    handle_open(&h, &place);
    int64_t acknowledged = 0, unknown = 0;
    for (int i = 0; i < MORE_ADDS; i++) {
        assert_int_equal(handle_add(&h, "n", NULL), ERR_OK);
        acknowledged++;
    }
    place.options.patience_ms = 3000; // nothing will come of waiting longer
    handle_open(&hasty, &place);
    place.options.patience_ms = 0;
    atomic_store(&read_only, true);
    for (int i = 0; i < 2; i++) {
        enum err err = handle_add(&hasty, "n", NULL);
        assert_true(err == ERR_UNKNOWN || err == ERR_UNAVAILABLE || err == ERR_DENIED);
        unknown += err == ERR_UNKNOWN;
    }
    atomic_store(&read_only, false);
    handle_close(&hasty);
    handle_close(&h);
    handle_open(&h, &place); // a handle whose write could not be undone is dead: a new one goes on
    int64_t value = handle_value(&h, "n");
    assert_in_range(value, acknowledged, acknowledged + unknown);
    int64_t next = 0;
    assert_int_equal(handle_add(&h, "n", &next), ERR_OK);
    assert_int_equal(next, value + 1);
    handle_close(&h);
    place_close(&place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_disk_refuses_and_loses_nothing),
        cmocka_unit_test(read_only_disk_refuses_and_loses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
