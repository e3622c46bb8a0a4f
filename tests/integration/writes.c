// SPDX-License-Identifier: Apache-2.0
// How many blocks a commit writes, counted by a loop device: no more than a bare loop of pwrite and
// fdatasync. On ext4 without a journal a sync also writes the block of the file's inode if any
// inode in it is dirty. So a commit must not touch the inodes of the log's other files each time.
// Both loops dirty inodes once per tick of the kernel's clock: they take turns, and are compared.
// Needs root, and is skipped without it.
#include "image.h"
#include "store/file/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define TITLE       "a commit writes as many blocks as a bare loop"
#define TURNS       20
#define COMMITS     100 // of a turn
#define RECORD_LEN  224
#define BODY_LEN    192
#define BARE_BYTES  ((off_t)2 << 20)
#define WRITES_STAT 5 // the fifth number of a block device's statistics

static long writes_of(const struct image *i)
{
    struct stat st;
    char path[64];
    long value = 0;
    NEED(stat(i->mounted, &st) == 0);
    (void)snprintf(path, sizeof path, "/sys/dev/block/%u:%u/stat", major(st.st_dev),
                   minor(st.st_dev));
    FILE *f = fopen(path, "re");
    NEED(f);
    for (int n = 0; n < WRITES_STAT; n++)
        NEED(fscanf(f, "%ld", &value) == 1); // NOLINT(cert-err34-c)
    (void)fclose(f);
    return value;
}

static int bare_open(const struct image *i)
{
    char path[SCRATCH_PATH_MAX + 32];
    (void)snprintf(path, sizeof path, "%s/bare", i->mounted);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    NEED(fd >= 0 && posix_fallocate(fd, 0, BARE_BYTES) == 0 && fsync(fd) == 0);
    return fd;
}

static void bare_turn(int fd, int turn)
{
    char record[RECORD_LEN] = {1};
    for (int n = 0; n < COMMITS; n++) {
        off_t at = (off_t)(turn * COMMITS + n) * RECORD_LEN;
        NEED(pwrite(fd, record, sizeof record, at) == (ssize_t)sizeof record);
        NEED(fdatasync(fd) == 0);
    }
}

static struct store *open_store(const struct image *i)
{
    struct store *s = NULL;
    char why[STORE_WHY_MAX], dir[SCRATCH_PATH_MAX + 32];
    struct file_options options = {.step_bytes = BARE_BYTES};
    (void)snprintf(dir, sizeof dir, "%s/store", i->mounted);
    NEED(store_file_open(dir, &options, &s, why, sizeof why) == ERR_OK);
    return s;
}

static void store_turn(struct store *s, int turn)
{
    uint8_t body[BODY_LEN] = {1};
    struct store_answer a;
    store_answer_init(&a);
    for (int n = 0; n < COMMITS; n++) {
        uint64_t slot = (uint64_t)(turn * COMMITS + n + 1);
        NEED(store_append(s, "q/log", slot, bytes_of(body, sizeof body), &a) == ERR_OK);
    }
    store_answer_done(&a);
}

static void compare(const struct image *i)
{
    int fd = bare_open(i);
    struct store *s = open_store(i);
    long bare = 0, store = 0, at = 0;
    for (int turn = 0; turn < TURNS; turn++) {
        at = writes_of(i);
        bare_turn(fd, turn);
        bare += writes_of(i) - at;
        at = writes_of(i);
        store_turn(s, turn);
        store += writes_of(i) - at;
    }
    store_free(s);
    (void)close(fd);
    (void)printf("# %d commits: %ld writes of the bare loop, %ld of the store\n", TURNS * COMMITS,
                 bare, store);
    bool few = store < bare + TURNS * COMMITS / 2; // segments that are begun and grow write as well
    (void)printf("%s 1 - " TITLE "\n", few ? "ok" : "not ok");
}

int main(void)
{
    struct image i = {0};
    const char *memory = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : NULL; // fast: few ticks
    (void)printf("1..1\n");
    if (image_make(&i, memory, "-O ^has_journal"))
        compare(&i);
    else
        (void)printf("ok 1 - " TITLE " # SKIP ext4 cannot be mounted\n");
    image_done(&i);
    return 0;
}
