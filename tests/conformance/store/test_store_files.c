// SPDX-License-Identifier: Apache-2.0
// The files of a store: their modes and owners, and what is refused in their place.
#define _GNU_SOURCE // nftw
#include "support.h"

#include <errno.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define LOG      "q/log"
#define OTHER_ID 65534
#define PATH_LEN 256

static const struct file_options small = {.segment_bytes = 2000, .step_bytes = 1000};

static char scratch[SCRATCH_MAX];

// The store is a folder of the scratch directory: what lies beside it goes with that.
static int files_setup(void **state)
{
    static char dir[SCRATCH_MAX + 16];
    scratch_make(scratch);
    scratch_path(dir, sizeof dir, scratch, "store");
    NEED(mkdir(dir, 0700) == 0);
    *state = dir;
    return 0;
}

static int files_teardown(void **state)
{
    (void)state;
    (void)umask(022);
    scratch_remove(scratch);
    return 0;
}

// Every kind of file that a store has: objects new and replaced, a lock, several segments, a folder
// under a folder, a segment that was dropped.
static void use_store(const char *dir)
{
    struct store *s = file_open(dir, &small);
    struct store_answer a;
    store_answer_init(&a);
    struct bytes body = body_make(1, 500);
    ANSWERS(ERR_OK, &a, store_put_new(s, "a/b/c/object", body, &a));
    ANSWERS(ERR_OK, &a, store_put(s, "a/replaced", body, &a));
    ANSWERS(ERR_OK, &a, store_put(s, "a/replaced", body, &a));
    for (uint64_t slot = 1; slot <= 20; slot++)
        ANSWERS(ERR_OK, &a, store_append(s, LOG, slot, body, &a));
    ANSWERS(ERR_OK, &a, store_drop(s, LOG, 1, 10, &a));
    bytes_free(body);
    store_answer_done(&a);
    store_free(s);
}

static struct {
    mode_t folders, files;
    uid_t owner;
    gid_t group;
    size_t seen;
} want;

static int has_mode(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    if (at->level == 0) return 0; // the root keeps its own
    mode_t mode = kind == FTW_D ? want.folders : want.files;
    if ((st->st_mode & 0777) != mode)
        (void)printf("# %s has mode %04o\n", path, (unsigned)(st->st_mode & 0777));
    NEED((st->st_mode & 0777) == mode);
    NEED(st->st_uid == want.owner && st->st_gid == want.group);
    want.seen++;
    return 0;
}

static void all_have(const char *dir, mode_t folders, mode_t files)
{
    struct stat root;
    NEED(stat(dir, &root) == 0);
    want.folders = folders;
    want.files = files;
    want.owner = root.st_uid;
    want.group = root.st_gid;
    want.seen = 0;
    NEED(nftw(dir, has_mode, 16, FTW_PHYS) == 0);
    NEED(want.seen >= 12);
}

static void a_store_is_its_owners_alone_whatever_the_umask_is(void **state)
{
    static const mode_t masks[] = {0000, 0022, 0077, 0177};
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
        char dir[PATH_LEN];
        struct stat root;
        (void)snprintf(dir, sizeof dir, "%s/%zu", (const char *)*state, i);
        (void)umask(masks[i]);
        use_store(dir);
        NEED(stat(dir, &root) == 0 && (root.st_mode & 0777) == 0700);
        all_have(dir, 0700, 0600);
    }
}

static void files_have_the_mode_of_a_root_that_was_made_for_others(void **state)
{
    static const struct {
        mode_t root, folders, files;
    } cases[] = {
        {0770, 0770, 0660}, {0750, 0750, 0640}, {0775, 0770, 0660},
        {0777, 0777, 0666}, {0755, 0700, 0600}, // as mkdir makes it
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char dir[PATH_LEN];
        (void)snprintf(dir, sizeof dir, "%s/%zu", (const char *)*state, i);
        NEED(mkdir(dir, 0700) == 0 && chmod(dir, cases[i].root) == 0);
        (void)umask(0027);
        use_store(dir);
        all_have(dir, cases[i].folders, cases[i].files);
    }
}

static void a_group_that_shares_the_root_gets_its_files(void **state)
{
    if (geteuid() != 0) {
        (void)printf("# skipped: only root can choose a group\n");
        return;
    }
    NEED(chown(*state, 0, OTHER_ID) == 0 && chmod(*state, 0770) == 0);
    use_store(*state);
    all_have(*state, 0770, 0660);
}

static void what_the_superuser_creates_belongs_to_the_owner_of_the_store(void **state)
{
    if (geteuid() != 0) {
        (void)printf("# skipped: this is about root\n");
        return;
    }
    NEED(chown(*state, OTHER_ID, OTHER_ID) == 0);
    use_store(*state);
    all_have(*state, 0700, 0600);
}

static bool is_exposed(const char *dir, char why[static STORE_WHY_MAX])
{
    struct store *s = file_open(dir, &small);
    bool exposed = store_concern(s, STORE_EXPOSED, why);
    store_free(s);
    return exposed;
}

static void a_store_that_others_can_read_is_told_by_name(void **state)
{
    char why[STORE_WHY_MAX], path[PATH_LEN];
    use_store(*state);
    NEED(!is_exposed(*state, why));
    NEED(chmod(*state, 0755) == 0);
    NEED(!is_exposed(*state, why)); // its folders are closed
    static const char *const open_folders[] = {"a", "a/b", "a/b/c"};
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", (const char *)*state, open_folders[i]);
        NEED(chmod(path, 0755) == 0);
        NEED(!is_exposed(*state, why)); // its files are closed
    }
    (void)snprintf(path, sizeof path, "%s/a/b/c/object", (const char *)*state);
    NEED(chmod(path, 0644) == 0);
    NEED(is_exposed(*state, why));
    NEED(strstr(why, "\"a/b/c/object\"") && strstr(why, "chmod -R o-rwx"));
    NEED(chmod(*state, 0700) == 0);
    NEED(!is_exposed(*state, why));
}

static void a_store_with_open_modes_goes_on_working(void **state)
{
    char command[PATH_LEN + 32];
    use_store(*state);
    (void)snprintf(command, sizeof command, "chmod -R a+rX '%s'", (const char *)*state);
    NEED(system(command) == 0);
    struct store *s = file_open(*state, &small);
    struct store_answer a;
    store_answer_init(&a);
    ANSWERS(ERR_OK, &a, store_append(s, LOG, 21, bytes_str("more"), &a));
    ANSWERS(ERR_OK, &a, store_get(s, "a/replaced", 0, SIZE_MAX, &a));
    store_answer_done(&a);
    store_free(s);
}

enum { LINK, LINK_TO_FIFO, FIFO, KINDS, FOLDER = KINDS };

static void plant(const char *dir, const char *name, int kind)
{
    char path[PATH_LEN], target[PATH_LEN];
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    (void)snprintf(target, sizeof target, "%s-%s", dir, kind == LINK ? "victim" : "fifo");
    (void)unlink(path);
    if (kind == FIFO || kind == FOLDER) {
        NEED((kind == FIFO ? mkfifo(path, 0600) : mkdir(path, 0700)) == 0);
        return;
    }
    if (kind == LINK_TO_FIFO) NEED(mkfifo(target, 0600) == 0 || errno == EEXIST);
    NEED(symlink(target, path) == 0);
}

static void victim_make(const char *dir)
{
    char path[PATH_LEN];
    (void)snprintf(path, sizeof path, "%s-victim", dir);
    FILE *f = fopen(path, "w");
    NEED(f && fputs("untouched", f) >= 0 && fclose(f) == 0);
}

static void victim_is_untouched(const char *dir)
{
    char path[PATH_LEN], text[32] = "";
    (void)snprintf(path, sizeof path, "%s-victim", dir);
    FILE *f = fopen(path, "r");
    NEED(f && fgets(text, sizeof text, f) && fclose(f) == 0);
    NEED(strcmp(text, "untouched") == 0);
}

static void refused_for(enum err e, const struct store_answer *a, int kind)
{
    answers_at(ERR_CORRUPT, e, a->why, __FILE__, __LINE__);
    NEED(strstr(a->why, kind >= FIFO ? "is not a regular file" : "symbolic link") != NULL);
}

static void read_all(void *arg)
{
    const char *dir = arg;
    char why[STORE_WHY_MAX] = "";
    for (int kind = 0; kind < KINDS; kind++) {
        struct store_answer a;
        store_answer_init(&a);
        struct store *s = file_open(dir, &small);
        plant(dir, "a/replaced", kind);
        refused_for(store_get(s, "a/replaced", 0, SIZE_MAX, &a), &a, kind);
        plant(dir, "q/log/@lock", kind);
        store_free(s);
        s = file_open(dir, &small);
        refused_for(store_read_log(s, LOG, 20, 1, &a), &a, kind);
        refused_for(store_append(s, LOG, 21, bytes_str("x"), &a), &a, kind);
        store_free(s);
        plant(dir, "@clock", kind);
        enum err e = store_file_open(dir, &small, &s, why, sizeof why);
        answers_at(ERR_CORRUPT, e, why, __FILE__, __LINE__);
        NEED(strstr(why, "@clock") != NULL);
        char path[PATH_LEN];
        (void)snprintf(path, sizeof path, "%s/@clock", dir);
        NEED(unlink(path) == 0);
        store_answer_done(&a);
        victim_is_untouched(dir);
    }
}

// In a child, which a command that waits for a FIFO's other end would keep past the deadline.
static void a_link_or_a_fifo_in_place_of_a_file_is_refused_at_once(void **state)
{
    use_store(*state);
    victim_make(*state);
    child_ends_well(child_start(read_all, *state));
}

static void segments_are_refused(void *arg)
{
    const char *dir = arg;
    for (int kind = 0; kind <= FOLDER; kind++) {
        struct store_answer a;
        store_answer_init(&a);
        struct store *s = file_open(dir, &small);
        ANSWERS(ERR_OK, &a, store_extents(s, LOG, 1, 1, &a));
        uint64_t first = a.rows[0].first;
        char name[PATH_LEN];
        (void)snprintf(name, sizeof name, "q/log/@%020llu.1", (unsigned long long)first);
        plant(dir, name, kind);
        store_free(s);
        s = file_open(dir, &small);
        refused_for(store_read_log(s, LOG, first, 1, &a), &a, kind);
        store_free(s);
        store_answer_done(&a);
        victim_is_untouched(dir);
        scratch_remove(dir);
        use_store(dir);
    }
}

static void a_link_a_fifo_or_a_folder_in_place_of_a_segment_is_refused(void **state)
{
    use_store(*state);
    victim_make(*state);
    child_ends_well(child_start(segments_are_refused, *state));
}

static void a_leftover_that_is_a_link_is_not_written_through(void **state)
{
    use_store(*state);
    victim_make(*state);
    struct store_answer a;
    store_answer_init(&a);
    for (int kind = 0; kind < KINDS; kind++) {
        struct store *s = file_open(*state, &small);
        plant(*state, "q/log/@new", kind);
        ANSWERS(ERR_OK, &a, store_seal(s, LOG, &a));
        ANSWERS(ERR_OK, &a, store_append(s, LOG, 21 + (uint64_t)kind, bytes_str("x"), &a));
        store_free(s);
        victim_is_untouched(*state);
    }
    store_answer_done(&a);
}

static void a_folder_that_is_a_link_leads_nowhere(void **state)
{
    char outside[PATH_LEN], inside[PATH_LEN], file[PATH_LEN + 16];
    struct store_answer a;
    store_answer_init(&a);
    struct store *s = file_open(*state, &small);
    (void)snprintf(outside, sizeof outside, "%s/@outside", (const char *)*state);
    (void)snprintf(inside, sizeof inside, "%s/a", (const char *)*state);
    (void)snprintf(file, sizeof file, "%s/file", outside);
    NEED(mkdir(outside, 0700) == 0 && symlink(outside, inside) == 0);
    FILE *f = fopen(file, "w");
    NEED(f && fclose(f) == 0);
    const char *key = "a/file";
    refused_for(store_get(s, key, 0, 1, &a), &a, LINK);
    refused_for(store_put_new(s, "a/new", BYTES_EMPTY, &a), &a, LINK);
    refused_for(store_put(s, "a/deep/new", BYTES_EMPTY, &a), &a, LINK);
    refused_for(store_append(s, "a/log", 1, BYTES_EMPTY, &a), &a, LINK);
    refused_for(store_delete(s, &key, 1, &a), &a, LINK);
    NEED(access(file, F_OK) == 0);
    (void)snprintf(file, sizeof file, "%s/deep", outside);
    NEED(access(file, F_OK) != 0);
    store_answer_done(&a);
    store_free(s);
}

static void a_root_that_is_a_link_is_followed(void **state)
{
    char real[PATH_LEN], named[PATH_LEN];
    (void)snprintf(real, sizeof real, "%s/real", (const char *)*state);
    (void)snprintf(named, sizeof named, "%s/named", (const char *)*state);
    NEED(mkdir(real, 0700) == 0 && symlink("real", named) == 0);
    use_store(named);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, files_setup, files_teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_store_is_its_owners_alone_whatever_the_umask_is),
        TEST(files_have_the_mode_of_a_root_that_was_made_for_others),
        TEST(a_group_that_shares_the_root_gets_its_files),
        TEST(what_the_superuser_creates_belongs_to_the_owner_of_the_store),
        TEST(a_store_that_others_can_read_is_told_by_name),
        TEST(a_store_with_open_modes_goes_on_working),
        TEST(a_link_or_a_fifo_in_place_of_a_file_is_refused_at_once),
        TEST(a_link_a_fifo_or_a_folder_in_place_of_a_segment_is_refused),
        TEST(a_leftover_that_is_a_link_is_not_written_through),
        TEST(a_folder_that_is_a_link_leads_nowhere),
        TEST(a_root_that_is_a_link_is_followed),
    };
    return cmocka_run_group_tests_name("files of a store", tests, NULL, NULL);
}
