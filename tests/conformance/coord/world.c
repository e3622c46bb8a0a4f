// SPDX-License-Identifier: Apache-2.0
// The backends, and what the tests of coordination share.
#include "world.h"

#include "base/memory.h"
#include "mem_coord.h"
#include "os/clock.h"
#include "os/entropy.h"
#include "store/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

struct backend {
    const char *name;
    const char *url;                        // NULL: the server's
    struct store *(*open)(const char *dir); // the store of `store:`
};

// Stands for the backend in memory, which no URL opens.
#define IN_MEMORY "mem:"

static struct store *open_nothing(const char *dir)
{
    (void)dir;
    return NULL;
}

static struct store *open_mem(const char *dir)
{
    (void)dir;
    return store_mem_new();
}

static struct store *open_file(const char *dir)
{
    return file_open(dir, NULL);
}

static struct store *open_s3(const char *dir)
{
    (void)dir;
    char prefix[S3_PREFIX_LEN];
    s3_prefix(prefix);
    return s3_open_at(prefix);
}

static const struct backend backends[] = {
    {"mem", IN_MEMORY, open_nothing},       {"store on mem", "store:", open_mem},
    {"store on file", "store:", open_file}, {"store on s3", "store:", open_s3},
    {"server", NULL, open_nothing},
};
#define BACKENDS (sizeof backends / sizeof *backends)

bool in_memory(const struct world *w)
{
    return strcmp(w->url, IN_MEMORY) == 0;
}

const char *server_url(void)
{
    const char *url = getenv("SLUICE_TEST_COORD");
    return url && url[0] ? url : NULL;
}

size_t server_count(void)
{
    const char *text = getenv("SLUICE_TEST_COORD_NODES");
    return text ? (size_t)strtoul(text, NULL, 10) : 0;
}

int control(const char *format, ...)
{
    char text[80];
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    va_list values;
    va_start(values, format);
    (void)vsnprintf(text, sizeof text, format, values);
    va_end(values);
    (void)snprintf(to.sun_path, sizeof to.sun_path, "%s", getenv("SLUICE_TEST_COORD_SOCKET"));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    NEED(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
    NEED(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    ssize_t n = read(fd, text, sizeof text - 1);
    (void)close(fd);
    NEED(n > 0);
    text[n] = 0;
    bool number = text[0] >= '0' && text[0] <= '9';
    if (!number && strcmp(text, "ok") != 0) (void)fprintf(stderr, "# control: %s\n", text);
    NEED(number || strcmp(text, "ok") == 0);
    return number ? (int)strtol(text, NULL, 10) : 0;
}

int world_setup(void **state)
{
    struct world *w = NEW(struct world);
    w->backend = *state;
    w->lease_ms = LONG_MS;
    w->timeout_ms = 5000;
    scratch_make_quick(w->dir);
    // A prefix of its own for each test on the server.
    (void)snprintf(w->url, sizeof w->url, "%s", w->backend->url ? w->backend->url : server_url());
    if (!w->backend->url)
        (void)snprintf(w->url + strlen(w->url), sizeof w->url - strlen(w->url), "/t-%016llx",
                       (unsigned long long)entropy_u64());
    w->store = w->backend->open(w->dir);
    coord_answer_init(&w->a);
    *state = w;
    return 0;
}

int world_teardown(void **state)
{
    struct world *w = *state;
    for (size_t i = 0; i < w->handles_len; i++)
        coord_free(w->handles[i]);
    coord_answer_done(&w->a);
    store_free(w->store);
    scratch_remove(w->dir);
    if (server_url()) (void)control("mend"); // the test may have failed in the middle
    memory_free(w);
    return 0;
}

struct coord *node_open(struct world *w)
{
    struct coord *c = NULL;
    char why[COORD_WHY_MAX] = "";
    struct coord_config config = {.lease_ms = w->lease_ms,
                                  .timeout_ms = w->timeout_ms,
                                  .lone_ms = w->lease_ms / 2,
                                  .store = w->store,
                                  .user = getenv("SLUICE_TEST_COORD_USER"),
                                  .password = getenv("SLUICE_TEST_COORD_PASSWORD"),
                                  .token = getenv("SLUICE_TEST_COORD_TOKEN"),
                                  .ca_file = getenv("SLUICE_TEST_COORD_CA")};
    NEED(w->handles_len < HANDLES_MAX);
    if (in_memory(w))
        c = w->handles_len ? coord_mem_again(w->handles[0]) : coord_mem_new(&config);
    else
        answers_at(ERR_OK, coord_open(w->url, &config, &c, why), why, __FILE__, __LINE__);
    w->handles[w->handles_len++] = c;
    return c;
}

struct coord_member member_of(const char *name, const char *incarnation)
{
    struct coord_member m = {.capacity = 7, .rules_lo = 1, .rules_hi = 2};
    (void)snprintf(m.name, sizeof m.name, "%s", name);
    (void)snprintf(m.url, sizeof m.url, "http://%s:7333", name);
    (void)snprintf(m.version, sizeof m.version, "0.1.0");
    coord_incarnation(bytes_str(incarnation), m.incarnation);
    return m;
}

void joins(struct world *w, struct coord *c, const char *name)
{
    struct coord_member m = member_of(name, name);
    ANSWERS(ERR_OK, &w->a, coord_join(c, &m, false, &w->a));
    NEED(w->a.next_ms > 0 && w->a.until_ms > clock_boot_ms() - LONG_MS);
}

uint64_t claims(struct world *w, struct coord *c, const char *shard, uint64_t after)
{
    ANSWERS(ERR_OK, &w->a, coord_claim(c, shard, after, &w->a));
    NEED(w->a.token > after);
    NEED(w->a.holder.token == w->a.token);
    return w->a.token;
}

uint64_t leads(struct world *w, struct coord *c, uint64_t after)
{
    ANSWERS(ERR_OK, &w->a, coord_lead(c, after, &w->a));
    NEED(w->a.token > after);
    return w->a.token;
}

static void names_of(const struct coord_answer *a, char *to, size_t to_len)
{
    to[0] = 0;
    for (size_t i = 0; i < a->members_len; i++) {
        size_t len = strlen(to);
        (void)snprintf(to + len, to_len - len, "%s%s", i ? " " : "", a->members[i].name);
    }
}

void lists_members(struct world *w, struct coord *c, const char *want)
{
    char got[1024];
    ANSWERS(ERR_OK, &w->a, coord_list(c, &w->a));
    NEED(w->a.at != 0);
    names_of(&w->a, got, sizeof got);
    assert_string_equal(got, want);
}

void wait_until_gone(struct world *w, struct coord *other, const char *name)
{
    int64_t end = clock_boot_ms() + 10 * w->lease_ms + DEADLINE_MS;
    if (in_memory(w)) {
        coord_mem_pass(other, w->lease_ms / 2 + 10);
        ANSWERS(ERR_OK, &w->a, coord_heartbeat(other, &w->a));
        coord_mem_pass(other, w->lease_ms / 2);
    }
    for (;;) {
        bool there = false;
        ANSWERS(ERR_OK, &w->a, coord_heartbeat(other, &w->a));
        ANSWERS(ERR_OK, &w->a, coord_list(other, &w->a));
        for (size_t i = 0; i < w->a.members_len; i++)
            there = there || strcmp(w->a.members[i].name, name) == 0;
        if (!there) return;
        NEED(clock_boot_ms() < end);
        (void)nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    }
}

int coord_tests_run(const char *group, const struct coord_test *tests, size_t count)
{
    size_t total = 0;
    struct CMUnitTest *all = memory_zeroed(count * BACKENDS, sizeof *all);
    char(*names)[160] = memory_zeroed(count * BACKENDS, sizeof *names);
    for (size_t i = 0; i < count * BACKENDS; i++) {
        const struct backend *backend = &backends[i / count];
        if ((backend->url == NULL) != (server_url() != NULL)) continue;
        if ((backend->open == open_s3) != (s3_here() && !server_url())) continue;
        (void)snprintf(names[total], sizeof names[total], "%s: %s", backend->name,
                       tests[i % count].name);
        all[total] = (struct CMUnitTest){names[total], tests[i % count].run, world_setup,
                                         world_teardown, (void *)(uintptr_t)backend};
        total++;
    }
    // The macro takes the size of an array; this is what it stands for.
    int failures = _cmocka_run_group_tests(group, all, total, NULL, NULL);
    memory_free(all);
    memory_free(names);
    return failures;
}
