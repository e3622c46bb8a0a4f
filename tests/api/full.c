// SPDX-License-Identifier: Apache-2.0
// A disk that the queues themselves have filled: new messages are refused, and everything that
// takes messages out goes on. On small file systems of their own, in a child that alone sees them.
#define _GNU_SOURCE // unshare, fallocate
#include "../conformance/store/support.h"
#include "../unit/unit.h"
#include "api/handle.h"
#include "os/clock.h"
#include "queues/queues.h"
#include "store/file/file.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#define CANNOT_MOUNT 77
#define BATCH        50
#define SENDS_MAX    4000 // batches: far more than fit
#define BODY_LEN     4000
#define LARGE_LEN    ((size_t)1 << 20)

// A child has no test to fail: need_at says what is wrong, and ends it.
#define FINE(call)                                                                                 \
    do {                                                                                           \
        struct sluice_error error = {.message = ""};                                               \
        enum sluice_code code = (call);                                                            \
        if (code) (void)printf("# %s: %s\n", #call, error.message);                                \
        NEED(code == SLUICE_OK);                                                                   \
    } while (0)

static const char *mount_kind;
static char mountpoint[SCRATCH_MAX];

static bool mount_ext4(void)
{
    char command[4 * SCRATCH_MAX + 128];
    (void)snprintf(command, sizeof command,
                   "truncate -s 24M %s.img && mkfs.ext4 -q -F %s.img >/dev/null 2>&1 && "
                   "mount -o loop %s.img %s >/dev/null 2>&1",
                   mountpoint, mountpoint, mountpoint, mountpoint);
    return system(command) == 0;
}

static bool mount_small(void)
{
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        return false;
    if (strcmp(mount_kind, "ext4") == 0) return mount_ext4();
    return mount("sluice-test", mountpoint, "tmpfs", 0, "size=16m") == 0;
}

// Another program takes what is left, to the last block.
static void take_the_rest(void)
{
    char path[SCRATCH_MAX + 16];
    scratch_path(path, sizeof path, mountpoint, "ballast");
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    NEED(fd >= 0);
    off_t len = 0;
    for (off_t size = 1 << 24; size >= 4096;)
        if (fallocate(fd, 0, len, size) == 0)
            len += size;
        else
            size /= 2;
    NEED(close(fd) == 0);
}

// A second instead of minutes.
static const struct journal_rules quick = {.session_ttl_ms = 86400000,
                                           .sessions_max = 4096,
                                           .digest_every = 256,
                                           .verify_ms = 300,
                                           .retain_ms = 3600000,
                                           .retain_tight_ms = 400,
                                           .floor_every_ms = 1000,
                                           .floor_lag_ms = 3600000,
                                           .snapshot_every = 1024,
                                           .sweep_every_ms = 3600000,
                                           .orphan_ms = 7200000};

static struct sluice *open_handle(void)
{
    struct store *store = NULL;
    struct sluice *s = NULL;
    struct sluice_error error;
    char dir[SCRATCH_MAX + 16], why[STORE_WHY_MAX] = "";
    scratch_path(dir, sizeof dir, mountpoint, "store");
    enum err err = store_file_open(dir, NULL, &store, why, sizeof why);
    answers_at(ERR_OK, err, why, __FILE__, __LINE__);
    NEED(handle_open_take(store, dir, NULL, &s, &error) == SLUICE_OK);
    return s;
}

static enum sluice_code send_batch(struct sluice *s, const char *queue, struct sluice_error *error)
{
    static char body[BODY_LEN];
    struct sluice_send messages[BATCH];
    for (size_t i = 0; i < BATCH; i++)
        messages[i] = (struct sluice_send){.body = body, .body_len = sizeof body};
    return sluice_send(s, queue, messages, BATCH, NULL, NULL, error);
}

static size_t fill_with(struct sluice *s, const char *queue)
{
    struct sluice_error error = {.message = ""};
    enum sluice_code code = SLUICE_OK;
    size_t batches = 0;
    while (batches < SENDS_MAX && (code = send_batch(s, queue, &error)) == SLUICE_OK)
        batches++;
    if (code != SLUICE_LIMIT) (void)printf("# %s\n", error.message);
    NEED(code == SLUICE_LIMIT);
    NEED(strstr(error.message, "nearly full") != NULL);
    return batches * BATCH;
}

static size_t take_batch(struct sluice *s, const char *queue)
{
    struct sluice_batch *b = NULL;
    struct sluice_receive ask = {.worker = "w", .max = BATCH};
    const char *tokens[BATCH];
    FINE(sluice_receive(s, queue, &ask, &b, &error));
    size_t len = b->len;
    for (size_t i = 0; i < len; i++)
        tokens[i] = b->messages[i].token;
    if (len > 0) FINE(sluice_ack(s, queue, tokens, len, NULL, &error));
    sluice_batch_free(b);
    return len;
}

static size_t drain(struct sluice *s, const char *queue)
{
    size_t taken = 0;
    for (size_t len; (len = take_batch(s, queue)) > 0;)
        taken += len;
    return taken;
}

static void large_is_refused(struct sluice *s, const char *queue)
{
    struct sluice_error error;
    char *body = calloc(1, LARGE_LEN);
    struct sluice_send message = {.body = body, .body_len = LARGE_LEN};
    NEED(sluice_send(s, queue, &message, 1, NULL, NULL, &error) == SLUICE_LIMIT);
    NEED(strstr(error.message, "nearly full") != NULL);
    free(body);
}

static void drain_a_full_disk(void)
{
    struct sluice *s = open_handle();
    struct sluice_error refused;
    char why[STORE_WHY_MAX];
    FINE(sluice_queue_create(s, "work", NULL, 0, &error));
    FINE(sluice_queue_create(s, "rest", NULL, 0, &error));
    NEED(!store_concern(s->engine->store, STORE_NEARLY_FULL, why));
    FINE(send_batch(s, "rest", &error));
    size_t sent = fill_with(s, "work");
    NEED(sent > 1000);
    take_the_rest();
    NEED(store_concern(s->engine->store, STORE_NEARLY_FULL, why));
    NEED(strstr(why, "nearly full") != NULL);
    large_is_refused(s, "work");
    NEED(drain(s, "work") == sent);
    NEED(send_batch(s, "work", &refused) == SLUICE_LIMIT); // nothing came back yet
    FINE(sluice_queue_purge(s, "rest", 0, NULL, &error));
    FINE(sluice_queue_delete(s, "rest", &error));
    sluice_close(s);
}

static void gets_space_back(void (*take_out)(struct sluice *s, size_t sent))
{
    struct sluice *s = open_handle();
    s->engine->rules = quick;
    FINE(sluice_queue_create(s, "work", NULL, 0, &error));
    FINE(sluice_queue_create(s, "other", NULL, 0, &error));
    size_t sent = fill_with(s, "work");
    take_the_rest();
    take_out(s, sent);
    int64_t give_up = clock_boot_ms() + DEADLINE_MS;
    struct sluice_error refused = {.message = ""};
    while (send_batch(s, "other", &refused) != SLUICE_OK) {
        if (clock_boot_ms() > give_up) (void)printf("# %s\n", refused.message);
        NEED(clock_boot_ms() <= give_up);
    }
    NEED(fill_with(s, "other") > sent / 2);
    sluice_close(s);
}

static void process_all(struct sluice *s, size_t sent)
{
    NEED(drain(s, "work") == sent);
}

static void purge_all(struct sluice *s, size_t sent)
{
    uint64_t purged = 0;
    FINE(sluice_queue_purge(s, "work", 0, &purged, &error));
    NEED(purged == sent);
}

static void process_and_send_again(void)
{
    gets_space_back(process_all);
}

static void purge_and_send_again(void)
{
    gets_space_back(purge_all);
}

static void in_a_child(void (*work)(void))
{
    scratch_make(mountpoint);
    pid_t child = fork();
    if (child == 0) {
        if (!mount_small()) _exit(CANNOT_MOUNT);
        work();
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    char image[SCRATCH_MAX + 8];
    (void)snprintf(image, sizeof image, "%s.img", mountpoint);
    (void)unlink(image);
    scratch_remove(mountpoint);
    if (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT_MOUNT) skip();
    assert_int_equal(status, 0);
}

static void a_disk_that_the_queues_have_filled_can_be_drained(void **state)
{
    (void)state;
    in_a_child(drain_a_full_disk);
}

static void processing_gives_space_back_soon(void **state)
{
    (void)state;
    in_a_child(process_and_send_again);
}

static void purging_gives_space_back_soon(void **state)
{
    (void)state;
    in_a_child(purge_and_send_again);
}

int main(int argc, char **argv)
{
    mount_kind = argc > 1 ? argv[1] : "tmpfs";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_disk_that_the_queues_have_filled_can_be_drained),
        cmocka_unit_test(processing_gives_space_back_soon),
        cmocka_unit_test(purging_gives_space_back_soon),
    };
    return cmocka_run_group_tests_name("full disk", tests, NULL, NULL);
}
