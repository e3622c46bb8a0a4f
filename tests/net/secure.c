// SPDX-License-Identifier: Apache-2.0
// TLS and HTTP/2 against real servers: openssl's and nghttp2's. The certificate is made for the
// run.
#include "../unit/unit.h"
#include "net/http.h"
#include "os/clock.h"
#include "scratch.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#define PATIENCE_MS   20000 // nothing takes so long unless it hangs
#define FILE_PATH_MAX (SCRATCH_PATH_MAX + 32)
#define MANY          32

static struct {
    char openssl[FILE_PATH_MAX];
    char nghttpd[FILE_PATH_MAX];
    struct scratch scratch;
    char key[FILE_PATH_MAX];
    char certificate[FILE_PATH_MAX];
} world;

// Where a program is; "" when it is not installed.
static void find(const char *name, char path[FILE_PATH_MAX])
{
    const char *folders = getenv("PATH");
    char all[4096];
    (void)snprintf(all, sizeof all, "%s:/usr/sbin", folders ? folders : "/usr/bin");
    char *rest = NULL;
    for (char *folder = strtok_r(all, ":", &rest); folder; folder = strtok_r(NULL, ":", &rest)) {
        (void)snprintf(path, FILE_PATH_MAX, "%.480s/%s", folder, name);
        if (access(path, X_OK) == 0) return;
    }
    path[0] = 0;
}

static void needs(const char *program)
{
    if (program[0]) return;
    assert_null(getenv("CI")); // there everything runs
    skip();
}

// The child dies with us, however we end.
static pid_t start(const char *const *arguments)
{
    pid_t parent = getpid();
    pid_t child = fork();
    assert_true(child >= 0);
    if (child > 0) return child;
    int nowhere = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; fd++)
        (void)dup2(nowhere, fd);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent) (void)execv(arguments[0], (char *const *)(uintptr_t)arguments);
    _exit(127);
}

static void stop(pid_t child)
{
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static int make_certificate(void **state)
{
    (void)state;
    find("openssl", world.openssl);
    find("nghttpd", world.nghttpd);
    if (!world.openssl[0]) return 0;
    if (!scratch_make(&world.scratch, NULL)) return -1;
    (void)snprintf(world.key, sizeof world.key, "%s/key", world.scratch.path);
    (void)snprintf(world.certificate, sizeof world.certificate, "%s/certificate",
                   world.scratch.path);
    const char *arguments[] = {world.openssl,
                               "req",
                               "-x509",
                               "-newkey",
                               "ec",
                               "-pkeyopt",
                               "ec_paramgen_curve:P-256",
                               "-nodes",
                               "-days",
                               "2",
                               "-subj",
                               "/CN=sluice test",
                               "-addext",
                               "subjectAltName=IP:127.0.0.1",
                               "-keyout",
                               world.key,
                               "-out",
                               world.certificate,
                               NULL};
    int status = -1;
    return waitpid(start(arguments), &status, 0) > 0 && status == 0 ? 0 : -1;
}

static int remove_all(void **state)
{
    (void)state;
    scratch_remove(&world.scratch);
    return 0;
}

static int free_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    assert_int_equal(close(fd), 0);
    return ntohs(at.sin_port);
}

static bool listens(void *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port = htons((uint16_t) * (int *)port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    bool connected = connect(fd, (struct sockaddr *)&at, sizeof at) == 0;
    (void)close(fd);
    return connected;
}

static pid_t start_openssl(int *port)
{
    *port = free_port();
    char place[32];
    (void)snprintf(place, sizeof place, "127.0.0.1:%d", *port);
    const char *arguments[] = {world.openssl, "s_server", "-www",  "-accept",         place,
                               "-key",        world.key,  "-cert", world.certificate, NULL};
    pid_t child = start(arguments);
    assert_true(eventually(listens, port, PATIENCE_MS));
    return child;
}

static pid_t start_nghttpd(int *port)
{
    *port = free_port();
    char number[16];
    (void)snprintf(number, sizeof number, "%d", *port);
    const char *arguments[] = {
        world.nghttpd, "-a",      "127.0.0.1",       "-d", world.scratch.path, "--echo-upload",
        number,        world.key, world.certificate, NULL};
    pid_t child = start(arguments);
    assert_true(eventually(listens, port, PATIENCE_MS));
    return child;
}

static void ask(const struct http_config *config, const char *host, int port, struct http_call *c)
{
    char url[128];
    (void)snprintf(url, sizeof url, "https://%s:%d/", host, port);
    struct http *h = http_new(config);
    http_call_init(c, "GET", url);
    c->timeout_ms = PATIENCE_MS;
    http_do(h, c);
    http_free(h);
}

static void a_certificate_is_accepted_only_with_its_authority_and_for_its_name(void **state)
{
    (void)state;
    needs(world.openssl);
    int port = 0;
    pid_t child = start_openssl(&port);
    struct http_config trusting = {.ca_file = world.certificate};
    struct http_config lost = {.ca_file = "/nonexistent/authority"};
    CLEANUP(http_call_done) struct http_call good;
    CLEANUP(http_call_done) struct http_call unknown;
    CLEANUP(http_call_done) struct http_call misnamed;
    CLEANUP(http_call_done) struct http_call without;
    ask(&trusting, "127.0.0.1", port, &good);
    ask(NULL, "127.0.0.1", port, &unknown);
    ask(&trusting, "localhost", port, &misnamed);
    ask(&lost, "127.0.0.1", port, &without);
    stop(child);

    assert_string_equal(good.why, "");
    assert_int_equal(good.end, HTTP_ANSWERED);
    assert_int_equal(good.status, 200);
    assert_int_equal(unknown.end, HTTP_NOT_SENT);
    assert_int_equal(unknown.sends, 0);
    assert_non_null(strstr(unknown.why, "securely: SSL certificate problem: self-signed"));
    assert_int_equal(misnamed.end, HTTP_NOT_SENT);
    assert_non_null(strstr(misnamed.why, "target host name 'localhost'"));
    assert_int_equal(without.end, HTTP_NOT_SENT);
    assert_non_null(strstr(without.why, "/nonexistent/authority"));
}

static void plain_words_to_a_secure_port_are_lost(void **state)
{
    (void)state;
    needs(world.openssl);
    int port = 0;
    pid_t child = start_openssl(&port);
    char url[64];
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%d/", port);
    struct http *h = http_new(NULL);
    CLEANUP(http_call_done) struct http_call c;
    http_call_init(&c, "GET", url);
    http_do(h, &c);
    assert_int_equal(c.end, HTTP_LOST);
    http_free(h);
    stop(child);
}

static void assert_http2(const struct http_call *c, const char *body)
{
    assert_string_equal(c->why, "");
    assert_int_equal(c->end, HTTP_ANSWERED);
    assert_int_equal(c->status, 200);
    assert_int_equal(c->sends, 1);
    assert_true(c->head.len > 7 && memcmp(c->head.data, "HTTP/2 ", 7) == 0);
    if (body) assert_true(bytes_equal(buf_bytes(&c->body_in), bytes_str(body)));
}

static void http2_is_spoken_where_it_is_offered(void **state)
{
    (void)state;
    needs(world.openssl);
    needs(world.nghttpd);
    int port = 0;
    pid_t child = start_nghttpd(&port);
    char url[64];
    (void)snprintf(url, sizeof url, "https://127.0.0.1:%d/certificate", port);
    struct http *h = http_new(&(struct http_config){.ca_file = world.certificate});
    struct http_call calls[MANY];
    struct http_call *all[MANY];
    for (int i = 0; i < MANY; i++) {
        http_call_init(&calls[i], i % 2 ? "POST" : "GET", url);
        if (i % 2) calls[i].body = bytes_str("carried there and back");
        all[i] = &calls[i];
    }
    for (int i = 0; i < 6; i++) {
        http_do(h, all[i]);
        assert_http2(all[i], i % 2 ? "carried there and back" : NULL);
    }
    for (int round = 0; round < 3; round++) {
        http_do_all(h, all, MANY, MANY);
        for (int i = 0; i < MANY; i++)
            assert_http2(all[i], i % 2 ? "carried there and back" : NULL);
    }
    stop(child);
    http_do(h, all[0]); // the kept connection is dead: found out before or after sending
    assert_int_equal(all[0]->end, all[0]->sends == 0 ? HTTP_NOT_SENT : HTTP_LOST);
    for (int i = 0; i < MANY; i++)
        http_call_done(&calls[i]);
    http_free(h);
}

int main(void)
{
    static const char *const proxies[] = {"http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy",
                                          "ALL_PROXY"};
    for (size_t i = 0; i < sizeof proxies / sizeof *proxies; i++)
        (void)unsetenv(proxies[i]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_certificate_is_accepted_only_with_its_authority_and_for_its_name),
        cmocka_unit_test(plain_words_to_a_secure_port_are_lost),
        cmocka_unit_test(http2_is_spoken_where_it_is_offered),
    };
    return cmocka_run_group_tests_name("net secure", tests, make_certificate, remove_all);
}
