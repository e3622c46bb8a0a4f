// SPDX-License-Identifier: Apache-2.0
// A disk that is full, read-only, remote or broken: the file store says what happened and never
// what did not.
#define _GNU_SOURCE // unshare
#include "support.h"

#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define LOG  "q/log"
#define HOUR ((int64_t)3600 * 1000)

static const struct file_options faulty = {
    .sys = &sys_faulty, .segment_bytes = 2000, .step_bytes = 1000};

static int disk_setup(void **state)
{
    static char dir[SCRATCH_MAX];
    sys_reset();
    scratch_make(dir);
    *state = dir;
    return 0;
}

static int disk_teardown(void **state)
{
    sys_reset();
    scratch_remove(*state);
    return 0;
}

// The store must not open, with this answer and a sentence that has these words and names the path.
static void refused(const char *dir, enum err want, const char *words)
{
    struct store *s = NULL;
    char why[STORE_WHY_MAX] = "";
    enum err e = store_file_open(dir, &faulty, &s, why, sizeof why);
    answers_at(want, e, why, __FILE__, __LINE__);
    NEED(strstr(why, words) != NULL);
    NEED(strstr(why, dir) != NULL);
}

static void network_file_systems_are_refused_by_name(void **state)
{
    static const struct {
        uint32_t magic;
        const char *name;
    } systems[] = {{0x6969, "NFS"},       {0xff534d42, "CIFS"}, {0xfe534d42, "SMB"},
                   {0x01021997, "9P"},    {0x65735546, "FUSE"}, {0x00c36400, "Ceph"},
                   {0x0bd00bd0, "Lustre"}};
    for (size_t i = 0; i < sizeof systems / sizeof *systems; i++) {
        sys_set_magic(systems[i].magic);
        refused(*state, ERR_INVALID, systems[i].name);
        refused(*state, ERR_INVALID, "use a directory on a local disk");
    }
    sys_set_magic(0xef53); // ext4
    store_free(file_open(*state, &faulty));
}

static void what_is_not_a_directory_is_refused(void **state)
{
    char path[SCRATCH_MAX + 16];
    scratch_path(path, sizeof path, *state, "file");
    FILE *f = fopen(path, "w");
    NEED(f && fclose(f) == 0);
    refused(path, ERR_INVALID, "is not a directory");
    scratch_path(path, sizeof path, *state, "none/none");
    refused(path, ERR_INVALID, "does not exist");
}

static void a_directory_that_does_not_exist_is_made(void **state)
{
    char path[SCRATCH_MAX + 16];
    scratch_path(path, sizeof path, *state, "new");
    store_free(file_open(path, &faulty));
}

static void open_as_other_user(void *arg)
{
    NEED(setgid(65534) == 0 && setuid(65534) == 0);
    refused(arg, ERR_DENIED, "may not write");
}

static void a_directory_without_permission_is_refused(void **state)
{
    const char *dir = *state;
    NEED(chmod(dir, 0555) == 0);
    if (geteuid() == 0)
        child_ends_well(child_start(open_as_other_user, *state));
    else
        refused(dir, ERR_DENIED, "may not write");
    NEED(chmod(dir, 0777) == 0);
    if (geteuid() != 0) return;
    sys_arm(SYS_NAME, 2, EACCES, false); // the mkdir of a store's own folder
    refused(dir, ERR_DENIED, "change its owner or mode");
    NEED(sys_disarm());
}

static void mount_scratch(const char *dir, const char *how)
{
    NEED(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
    NEED(mount("sluice-test", dir, "tmpfs", 0, how) == 0);
}

static void try_a_mount(void *arg)
{
    (void)arg;
    bool can = unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
    _exit(can ? 0 : 1);
}

// Only root may, and not even root in some containers.
static bool skipped_without_mounts(void)
{
    int status = 0;
    pid_t child = child_start(try_a_mount, NULL);
    NEED(waitpid(child, &status, 0) == child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return false;
    (void)printf("# skipped: mounting is not allowed here\n");
    return true;
}

static void use_read_only(void *arg)
{
    const char *dir = arg;
    NEED(unshare(CLONE_NEWNS) == 0);
    mount_scratch(dir, "size=8m");
    store_free(file_open(dir, &faulty));
    NEED(mount(NULL, dir, NULL, MS_REMOUNT | MS_RDONLY, NULL) == 0);
    refused(dir, ERR_DENIED, "read-only");
}

static void a_read_only_file_system_is_refused(void **state)
{
    if (skipped_without_mounts()) return;
    child_ends_well(child_start(use_read_only, *state));
}

static void fill_up(void *arg)
{
    const char *dir = arg;
    NEED(unshare(CLONE_NEWNS) == 0);
    mount_scratch(dir, "size=2m");
    struct store *s = file_open(dir, NULL); // its steps of 4 MiB do not even fit
    struct store_answer a;
    store_answer_init(&a);
    struct bytes ballast = body_make(0, 700000);
    ANSWERS(ERR_OK, &a, store_put_new(s, "ballast", ballast, &a));
    uint64_t slot = 1;
    enum err e = ERR_OK;
    for (; slot < 10000 && !e; slot++) {
        struct bytes body = body_make(slot, 5000);
        e = store_append(s, LOG, slot, body, &a);
        bytes_free(body);
    }
    ANSWERS(ERR_LIMIT, &a, e);
    NEED(strstr(a.why, "No space left") != NULL);
    slot--; // the one that was refused
    NEED(slot > 50);
    ANSWERS(ERR_LIMIT, &a, store_put_new(s, "object", ballast, &a));
    ANSWERS(ERR_NOT_FOUND, &a, store_get(s, "object", 0, 1, &a));
    ANSWERS(ERR_NOT_FOUND, &a, store_read_log(s, LOG, slot, 1, &a));
    static const char *const key = "ballast";
    ANSWERS(ERR_OK, &a, store_delete(s, &key, 1, &a));
    ANSWERS(ERR_OK, &a, store_append(s, LOG, slot, bytes_str("there is room again"), &a));
    for (uint64_t k = 1; k < slot; k++) {
        ANSWERS(ERR_OK, &a, store_read_log(s, LOG, k, 1, &a));
        NEED(body_is(store_row_bytes(&a, 0), k, 5000));
    }
    bytes_free(ballast);
    store_answer_done(&a);
    store_free(s);
}

static void a_full_disk_refuses_and_keeps_what_it_acknowledged(void **state)
{
    if (skipped_without_mounts()) return;
    child_ends_well(child_start(fill_up, *state));
}

static void use_replaced(void *arg)
{
    const char *dir = arg;
    NEED(unshare(CLONE_NEWNS) == 0);
    mount_scratch(dir, "size=8m");
    struct store *s = file_open(dir, NULL);
    struct store_answer a;
    char why[STORE_WHY_MAX];
    store_answer_init(&a);
    ANSWERS(ERR_OK, &a, store_append(s, LOG, 1, bytes_str("x"), &a));
    NEED(umount2(dir, MNT_DETACH) == 0);
    mount_scratch(dir, "size=8m");
    ANSWERS(ERR_UNAVAILABLE, &a, store_read_log(s, LOG, 1, 1, &a));
    NEED(strstr(a.why, "another file system") != NULL);
    ANSWERS(ERR_UNAVAILABLE, &a, store_read_log(s, LOG, 2, 1, &a));
    ANSWERS(ERR_UNAVAILABLE, &a, store_wait(s, LOG, 2, 0, &a));
    ANSWERS(ERR_UNAVAILABLE, &a, store_append(s, LOG, 2, bytes_str("x"), &a));
    NEED(store_is_dead(s, why));
    store_answer_done(&a);
    store_free(s);
}

static void a_handle_whose_file_system_was_replaced_says_so(void **state)
{
    if (skipped_without_mounts()) return;
    child_ends_well(child_start(use_replaced, *state));
}

static void append_n(struct store *s, uint64_t first, uint64_t last)
{
    struct store_answer a;
    store_answer_init(&a);
    for (uint64_t slot = first; slot <= last; slot++) {
        struct bytes body = body_make(slot, 100);
        ANSWERS(ERR_OK, &a, store_append(s, LOG, slot, body, &a));
        bytes_free(body);
    }
    store_answer_done(&a);
}

static void holds_n(struct store *s, uint64_t last)
{
    struct store_answer a;
    store_answer_init(&a);
    for (uint64_t slot = 1; slot <= last; slot++) {
        ANSWERS(ERR_OK, &a, store_read_log(s, LOG, slot, 1, &a));
        NEED(body_is(store_row_bytes(&a, 0), slot, 100));
    }
    store_answer_done(&a);
}

static void a_failed_sync_is_unknown_and_kills_the_handle(void **state)
{
    struct store *s = file_open(*state, &faulty), *other = file_open(*state, &faulty);
    struct store_answer a;
    store_answer_init(&a);
    append_n(s, 1, 5);
    holds_n(other, 5);
    sys_arm(SYS_SYNC, 1, EIO, false);
    ANSWERS(ERR_UNKNOWN, &a, store_append(s, LOG, 6, bytes_str("lost?"), &a));
    NEED(sys_disarm());
    ANSWERS(ERR_DENIED, &a, store_append(s, LOG, 6, bytes_str("again"), &a));
    NEED(strstr(a.why, "open the store again") != NULL);
    ANSWERS(ERR_DENIED, &a, store_read_log(s, LOG, 1, 1, &a));
    ANSWERS(ERR_DENIED, &a, store_put_new(s, "k", BYTES_EMPTY, &a));
    ANSWERS(ERR_DENIED, &a, store_get(s, "k", 0, 1, &a));

    // Another handle moves to a copy; what was not synced is not there, and slot 6 is free.
    ANSWERS(ERR_NOT_FOUND, &a, store_read_log(other, LOG, 6, 1, &a));
    append_n(other, 6, 20);
    holds_n(other, 20);
    store_free(s);
    s = file_open(*state, &faulty);
    holds_n(s, 20);
    store_answer_done(&a);
    store_free(s);
    store_free(other);
}

static void after_a_failed_sync_and_a_reboot_the_newer_copy_counts(void **state)
{
    struct store *s = file_open(*state, &faulty);
    struct store_answer a;
    store_answer_init(&a);
    append_n(s, 1, 3);
    sys_arm(SYS_SYNC, 1, EIO, false);
    ANSWERS(ERR_UNKNOWN, &a, store_append(s, LOG, 4, bytes_str("lost?"), &a));
    store_free(s);
    s = file_open(*state, &faulty);
    sys_arm(SYS_NAME, 4, EIO, false); // the removal of the old copy, after three for the new one
    append_n(s, 4, 6);
    NEED(sys_disarm());
    store_free(s);
    sys_reboot();
    s = file_open(*state, &faulty);
    holds_n(s, 6);
    append_n(s, 7, 9);
    holds_n(s, 9);
    store_answer_done(&a);
    store_free(s);
}

struct deed {
    const char *name;
    enum err (*act)(struct store *s, struct store_answer *a);
    enum err (*look)(struct store *s, struct store_answer *a); // ERR_OK: it is there
    uint64_t slots;                                            // appended before
};

static enum err act_append(struct store *s, struct store_answer *a)
{
    struct bytes body = body_make(99, 700);
    enum err e = ERR_CONFLICT;
    for (uint64_t slot = 1; e == ERR_CONFLICT; slot++)
        e = store_append(s, LOG, slot, body, a);
    bytes_free(body);
    return e;
}

static enum err look_append(struct store *s, struct store_answer *a)
{
    for (uint64_t slot = 1;; slot++) {
        enum err e = store_read_log(s, LOG, slot, 1, a);
        if (e) return e;
        if (body_is(store_row_bytes(a, 0), 99, 700)) return ERR_OK;
    }
}

static enum err act_put_new(struct store *s, struct store_answer *a)
{
    return store_put_new(s, "some/new/key", bytes_str("body"), a);
}

static enum err act_put(struct store *s, struct store_answer *a)
{
    return store_put(s, "some/new/key", bytes_str("body"), a);
}

static enum err look_object(struct store *s, struct store_answer *a)
{
    enum err e = store_get(s, "some/new/key", 0, SIZE_MAX, a);
    if (e) return e;
    NEED(bytes_equal(buf_bytes(&a->body), bytes_str("body"))); // whole, or not there
    return ERR_OK;
}

static const struct deed deeds[] = {
    {"first append", act_append, look_append, 0},
    {"append", act_append, look_append, 3},
    {"append into a new segment", act_append, look_append, 15},
    {"put_new", act_put_new, look_object, 0},
    {"put", act_put, look_object, 0},
};

static bool honest(enum err said, enum err there)
{
    if (said == ERR_OK) return there == ERR_OK;
    if (said == ERR_UNKNOWN) return there == ERR_OK || there == ERR_NOT_FOUND;
    return (said == ERR_UNAVAILABLE || said == ERR_LIMIT || said == ERR_DENIED) &&
           there == ERR_NOT_FOUND;
}

// One deed with the strike-th call failing. False when it made fewer calls than that.
static bool torture(const char *dir, const struct deed *d, unsigned kinds, long strike, int code,
                    bool sticky, bool reboot)
{
    struct store_answer a;
    store_answer_init(&a);
    struct store *s = file_open(dir, &faulty);
    if (d->slots > 0) append_n(s, 1, d->slots);
    sys_arm(kinds, strike, code, sticky);
    enum err said = d->act(s, &a);
    bool struck = sys_disarm();
    if (reboot) sys_reboot();
    struct store *fresh = file_open(dir, &faulty);
    enum err there = d->look(fresh, &a);
    bool fair = honest(said, there) && (struck || said == ERR_OK);
    if (!fair)
        (void)fprintf(stderr, "# %s, call %ld fails with %d: said %s, found %s\n", d->name, strike,
                      code, err_name(said), err_name(there));
    NEED(fair);
    // Life goes on.
    enum err later = d->act(fresh, &a);
    NEED(later == ERR_OK || (later == ERR_CONFLICT && there == ERR_OK));
    ANSWERS(ERR_OK, &a, d->look(fresh, &a));
    store_free(s);
    store_free(fresh);
    fresh = file_open(dir, &faulty);
    ANSWERS(ERR_OK, &a, d->look(fresh, &a));
    holds_n(fresh, d->slots);
    store_free(fresh);
    store_answer_done(&a);
    return struck;
}

static void every_call_that_fails_gets_an_honest_answer(void **state)
{
    static const struct {
        int code;
        bool sticky, reboot;
    } hows[] = {{EIO, false, false}, {EIO, true, false},     {EIO, false, true},
                {EIO, true, true},   {ENOSPC, false, false}, {ENOSPC, true, true}};
    (void)state;
    long runs = 0;
    for (size_t i = 0; i < sizeof deeds / sizeof *deeds; i++) {
        for (size_t h = 0; h < sizeof hows / sizeof *hows; h++) {
            bool struck = true;
            for (long strike = 1; struck; strike++) {
                char dir[SCRATCH_MAX];
                unsigned kinds = SYS_ALL | (hows[h].sticky ? (unsigned)SYS_SHORT : 0);
                scratch_make_quick(dir);
                struck = torture(dir, &deeds[i], kinds, strike, hows[h].code, hows[h].sticky,
                                 hows[h].reboot);
                scratch_remove(dir);
                runs++;
                NEED(strike < 100);
            }
        }
    }
    NEED(runs > 200);
}

// One deed while calls fail that say nothing against the disk: the same handle gets over it. False
// when it made fewer such calls than that.
static bool scarcity(const struct deed *d, unsigned kinds, long strike, int code)
{
    char dir[SCRATCH_MAX], why[STORE_WHY_MAX];
    struct store_answer a;
    store_answer_init(&a);
    scratch_make_quick(dir);
    struct store *s = file_open(dir, &faulty);
    if (d->slots > 0) append_n(s, 1, d->slots);
    sys_arm(kinds, strike, code, true);
    enum err said = d->act(s, &a);
    bool struck = sys_disarm();
    NEED(struck || said == ERR_OK);
    if (said && code == EMFILE) ANSWERS(ERR_UNAVAILABLE, &a, said);
    if (said && code == EMFILE) NEED(strstr(a.why, "too many files are open") != NULL);
    NEED(!store_is_dead(s, why));
    enum err there = d->look(s, &a);
    NEED(honest(said, there));
    enum err later = there ? d->act(s, &a) : ERR_OK;
    NEED(later == ERR_OK || (later == ERR_CONFLICT && said == ERR_UNKNOWN));
    ANSWERS(ERR_OK, &a, d->look(s, &a));
    holds_n(s, d->slots);
    store_free(s);
    scratch_remove(dir);
    store_answer_done(&a);
    return struck;
}

static void a_handle_gets_over_what_was_scarce(void **state)
{
    static const struct {
        unsigned kinds;
        int code;
    } hows[] = {{SYS_OPEN, EMFILE},
                {SYS_OPEN, ENFILE},
                {SYS_OPEN, ENOMEM},
                {SYS_ALLOCATE, ENOSPC},
                {SYS_WRITE | SYS_ALLOCATE, ENOSPC},
                {SYS_WRITE | SYS_SHORT | SYS_ALLOCATE, ENOSPC}};
    (void)state;
    for (size_t i = 0; i < sizeof deeds / sizeof *deeds; i++)
        for (size_t h = 0; h < sizeof hows / sizeof *hows; h++)
            for (long strike = 1; scarcity(&deeds[i], hows[h].kinds, strike, hows[h].code);
                 strike++)
                NEED(strike < 100);
}

static void an_object_is_done_only_when_its_bytes_and_its_name_are_synced(void **state)
{
    struct store *s = file_open(*state, &faulty);
    struct store_answer a;
    store_answer_init(&a);
    ANSWERS(ERR_OK, &a, store_put(s, "folder/other", bytes_str("x"), &a));
    sys_arm(SYS_SYNC, 1, EIO, false); // its bytes: nothing has happened yet
    ANSWERS(ERR_UNAVAILABLE, &a, store_put_new(s, "folder/key", bytes_str("x"), &a));
    NEED(sys_disarm());
    ANSWERS(ERR_NOT_FOUND, &a, store_get(s, "folder/key", 0, 1, &a));
    sys_arm(SYS_SYNC, 2, EIO, false); // its name: it is there, but for how long
    ANSWERS(ERR_UNKNOWN, &a, store_put_new(s, "folder/key", bytes_str("x"), &a));
    NEED(sys_disarm());
    ANSWERS(ERR_DENIED, &a, store_get(s, "folder/key", 0, 1, &a));
    store_answer_done(&a);
    store_free(s);
}

// A write cut short is undone: the bytes of the failed record must not come back as a record.
static void a_write_that_stops_halfway_leaves_nothing(void **state)
{
    struct store *s = file_open(*state, &faulty);
    struct store_answer a;
    store_answer_init(&a);
    append_n(s, 1, 2);
    static const uint8_t
        zeros[900]; // its first half is all there is to it: the disk has zeros anyway
    sys_arm(SYS_WRITE | SYS_SHORT, 1, ENOSPC, false);
    ANSWERS(ERR_LIMIT, &a, store_append(s, LOG, 3, bytes_of(zeros, sizeof zeros), &a));
    NEED(sys_disarm());
    store_free(s);
    sys_reboot();
    s = file_open(*state, &faulty);
    ANSWERS(ERR_NOT_FOUND, &a, store_read_log(s, LOG, 3, 1, &a));
    append_n(s, 3, 4);
    holds_n(s, 4);
    store_answer_done(&a);
    store_free(s);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, disk_setup, disk_teardown)
    const struct CMUnitTest tests[] = {
        TEST(network_file_systems_are_refused_by_name),
        TEST(what_is_not_a_directory_is_refused),
        TEST(a_directory_that_does_not_exist_is_made),
        TEST(a_directory_without_permission_is_refused),
        TEST(a_read_only_file_system_is_refused),
        TEST(a_full_disk_refuses_and_keeps_what_it_acknowledged),
        TEST(a_handle_whose_file_system_was_replaced_says_so),
        TEST(a_failed_sync_is_unknown_and_kills_the_handle),
        TEST(after_a_failed_sync_and_a_reboot_the_newer_copy_counts),
        TEST(every_call_that_fails_gets_an_honest_answer),
        TEST(a_handle_gets_over_what_was_scarce),
        TEST(an_object_is_done_only_when_its_bytes_and_its_name_are_synced),
        TEST(a_write_that_stops_halfway_leaves_nothing),
    };
    return cmocka_run_group_tests_name("file store and its disk", tests, NULL, NULL);
}
