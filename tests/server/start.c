// SPDX-License-Identifier: Apache-2.0
// A node whose start fails, at each step in turn, while clients try to reach it. No client is
// served, and nothing of the node is used after its end.
#include "rig.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CLIENTS    4
#define TRIES      40 // connections of clients while a step of the start is held
#define TIMEOUT_MS 200

static const char request[] = "POST /v1/queues/tasks/messages HTTP/1.1\r\nHost: localhost\r\n"
                              "Content-Type: text/plain\r\nContent-Length: 1\r\n\r\nx";

static int socket_at(uint16_t port, struct sockaddr_in *at)
{
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *at = (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    return fd;
}

// A socket that has a port and does not listen yet.
static int reserve(uint16_t *port)
{
    struct sockaddr_in at;
    socklen_t len = sizeof at;
    int fd = socket_at(0, &at);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    *port = ntohs(at.sin_port);
    return fd;
}

// Clients that connect, send a message and read, one connection after the other.
struct clients_here {
    uint16_t port;
    pthread_t threads[CLIENTS];
    atomic_bool ends;
    atomic_int tries;
    atomic_int answers;
};

static void *run_client(void *arg)
{
    struct clients_here *c = arg;
    struct timeval patience = {.tv_usec = TIMEOUT_MS * 1000};
    while (!atomic_load(&c->ends)) {
        struct sockaddr_in at;
        char answer[64];
        int fd = socket_at(c->port, &at);
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience); // of connect
        if (connect(fd, (struct sockaddr *)&at, sizeof at) == 0 &&
            send(fd, request, sizeof request - 1, MSG_NOSIGNAL) > 0 &&
            recv(fd, answer, sizeof answer, 0) > 0)
            atomic_fetch_add(&c->answers, 1);
        (void)close(fd);
        atomic_fetch_add(&c->tries, 1);
    }
    return NULL;
}

static void clients_start(struct clients_here *c, uint16_t port)
{
    *c = (struct clients_here){.port = port};
    for (int i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_create(&c->threads[i], NULL, run_client, c), 0);
}

static void clients_stop(struct clients_here *c)
{
    atomic_store(&c->ends, true);
    for (int i = 0; i < CLIENTS; i++)
        (void)pthread_join(c->threads[i], NULL);
}

// A coordination service that holds the join of the node until the clients have tried to reach it.
// Then it refuses the node's credentials, or closes its connections.
struct service {
    int fd;
    uint16_t port;
    bool refuses;
    int listens_at; // a socket that begins to listen while the join is held; -1: none
    struct clients_here *clients;
    int tries_before; // the service was asked
    pthread_t thread;
    atomic_bool ends;
};

static bool enough_tries(void *ctx)
{
    const struct service *s = ctx;
    return atomic_load(&s->clients->tries) > s->tries_before + TRIES;
}

static void *run_service(void *arg)
{
    static const char refusal[] = "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n"
                                  "Connection: close\r\n\r\n";
    struct service *s = arg;
    for (bool first = true; !atomic_load(&s->ends); first = false) {
        char head[1024];
        int fd = accept(s->fd, NULL, NULL);
        if (fd < 0) break;
        s->tries_before = atomic_load(&s->clients->tries);
        if (first) await(enough_tries, s, "clients try to connect");
        if (s->listens_at >= 0) (void)listen(s->listens_at, 1);
        if (s->refuses && recv(fd, head, sizeof head, 0) > 0)
            (void)send(fd, refusal, sizeof refusal - 1, MSG_NOSIGNAL);
        (void)close(fd);
    }
    return NULL;
}

static void service_start(struct service *s, struct clients_here *clients, bool refuses,
                          int listens_at)
{
    *s = (struct service){.clients = clients, .refuses = refuses, .listens_at = listens_at};
    s->fd = reserve(&s->port);
    assert_int_equal(listen(s->fd, 64), 0);
    assert_int_equal(pthread_create(&s->thread, NULL, run_service, s), 0);
}

static void service_stop(struct service *s)
{
    atomic_store(&s->ends, true);
    (void)shutdown(s->fd, SHUT_RDWR);
    (void)pthread_join(s->thread, NULL);
    (void)close(s->fd);
}

struct node_here {
    struct sluice *store;
    char dir[SCRATCH_MAX];
    char listen[40];
    struct clients_here clients;
    int reserved;
};

static void set_up(struct node_here *n)
{
    uint16_t port;
    struct sluice_error error = {.message = ""};
    *n = (struct node_here){.reserved = reserve(&port)};
    scratch_make(n->dir);
    (void)snprintf(n->listen, sizeof n->listen, "127.0.0.1:%u", port);
    if (sluice_open(n->dir, NULL, &n->store, &error)) fail_msg("%s", error.message);
    clients_start(&n->clients, port);
}

// The start must fail and name the field. No client may have an answer.
static void start_fails(struct node_here *n, struct server_config config, const char *field)
{
    struct server *node = NULL;
    struct sluice_error error = {.message = ""};
    if (!config.listen) config.listen = n->listen;
    assert_int_not_equal(server_start(&config, n->store, &node, &error), SLUICE_OK);
    if (strcmp(error.field, field) != 0) fail_msg("%s: %s", error.field, error.message);
    assert_null(node);
}

static void tear_down(struct node_here *n)
{
    (void)close(n->reserved); // it may listen, and clients wait for an answer there
    clients_stop(&n->clients);
    assert_int_equal(atomic_load(&n->clients.answers), 0);
    sluice_close(n->store);
    scratch_remove(n->dir);
}

static void a_setting_that_is_refused(void **state)
{
    (void)state;
    const struct {
        struct server_config config;
        const char *field;
    } cases[] = {
        {{.cert_file = "/nonexistent", .key_file = "/nonexistent"}, "tls"},
        {{.listen = "nowhere"}, "listen"},
        {{.advertise = "ftp://x"}, "advertise"},
        {{.coord = "store:", .bus = "ftp://x"}, "bus"},
        {{.coord = "store:", .capacity = 1000}, "capacity"},
        {{.coord = "zookeeper://x"}, "coord"},
    };
    struct node_here n;
    set_up(&n);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        start_fails(&n, cases[i].config, cases[i].field);
    tear_down(&n);
}

static void a_port_that_is_taken(void **state)
{
    (void)state;
    struct node_here n;
    uint16_t port;
    char taken[40];
    int fd = reserve(&port);
    assert_int_equal(listen(fd, 1), 0);
    (void)snprintf(taken, sizeof taken, "127.0.0.1:%u", port);
    set_up(&n);
    start_fails(&n, (struct server_config){.coord = "store:", .listen = taken}, "listen");
    (void)close(fd);
    tear_down(&n);
}

static void a_join_that_is_refused(void **state)
{
    (void)state;
    struct node_here n;
    struct service s;
    char coord[60];
    set_up(&n);
    service_start(&s, &n.clients, true, -1);
    (void)snprintf(coord, sizeof coord, "consul://127.0.0.1:%u", s.port);
    start_fails(&n, (struct server_config){.coord = coord}, "coord");
    service_stop(&s);
    tear_down(&n);
}

static void a_name_that_a_live_node_has(void **state)
{
    (void)state;
    struct node_here n;
    struct sluice *store = NULL;
    struct server *other = NULL;
    struct sluice_error error = {.message = ""};
    struct server_config config = {.listen = "127.0.0.1:0", .node = "one", .coord = "store:"};
    set_up(&n);
    if (sluice_open(n.dir, NULL, &store, &error)) fail_msg("%s", error.message);
    if (server_start(&config, store, &other, &error)) fail_msg("%s", error.message);
    start_fails(&n, (struct server_config){.node = "one", .coord = "store:"}, "coord");
    assert_true(server_stop(other, DEADLINE_MS));
    sluice_close(store);
    tear_down(&n);
}

// The service is away, so the node starts degraded. Then it learns that another process listens at
// its port.
static void a_port_that_is_taken_during_the_join(void **state)
{
    (void)state;
    struct node_here n;
    struct service s;
    char coord[60];
    set_up(&n);
    service_start(&s, &n.clients, false, n.reserved);
    (void)snprintf(coord, sizeof coord, "consul://127.0.0.1:%u", s.port);
    start_fails(&n, (struct server_config){.coord = coord}, "listen");
    service_stop(&s);
    tear_down(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_setting_that_is_refused),
        cmocka_unit_test(a_port_that_is_taken),
        cmocka_unit_test(a_join_that_is_refused),
        cmocka_unit_test(a_name_that_a_live_node_has),
        cmocka_unit_test(a_port_that_is_taken_during_the_join),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
