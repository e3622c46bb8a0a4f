// SPDX-License-Identifier: Apache-2.0
// A list of connections, and a table of the addresses that they come from. To end a connection,
// this file shuts it down and does not close it, because its owner owns the descriptor.
#include "net/connections.h"

#include "base/bytes.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/memory.h"
#include "os/clock.h"
#include "os/entropy.h"
#include "os/lock.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>

#define SHARE    3    // one address may have this many times the free connections
#define AT_ONCE  16   // connections that one connections_make_space shuts down
#define GRACE_MS 1000 // a distant client needs a while for a handshake and a head
#define PREFIX   8    // bytes of an IPv6 address

struct address_key {
    uint8_t family; // 4, 6, or 0 for a socket without an IP address
    uint8_t bytes[PREFIX];
};

struct address {
    struct address *next;
    struct address_key key;
    size_t open;
    struct list headless; // those without a whole head, the oldest first
};

static struct address_key key_of(const struct sockaddr *from)
{
    struct address_key k = {0};
    if (from->sa_family == AF_INET) {
        const struct sockaddr_in *four = (const struct sockaddr_in *)(const void *)from;
        k.family = 4;
        memcpy(k.bytes, &four->sin_addr, 4);
    } else if (from->sa_family == AF_INET6) {
        const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)(const void *)from;
        bool mapped = IN6_IS_ADDR_V4MAPPED(&six->sin6_addr);
        k.family = mapped ? 4 : 6;
        memcpy(k.bytes, six->sin6_addr.s6_addr + (mapped ? 12 : 0), mapped ? 4 : PREFIX);
    }
    return k;
}

static void print_address(const struct sockaddr *from, char to[CONNECTION_PEER_MAX])
{
    socklen_t len =
        from->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    *to = '\0';
    (void)getnameinfo(from, len, to, CONNECTION_PEER_MAX, NULL, 0, NI_NUMERICHOST);
}

static void name_ends(struct connection *line, const struct sockaddr *from)
{
    struct address_key k = key_of(from);
    print_address(from, line->peer);
    (void)snprintf(line->client, sizeof line->client, "%s", line->peer);
    if (k.family != 6) return;
    struct sockaddr_in6 net = {.sin6_family = AF_INET6};
    char text[CONNECTION_PEER_MAX];
    memcpy(net.sin6_addr.s6_addr, k.bytes, PREFIX);
    print_address((const struct sockaddr *)&net, text);
    (void)snprintf(line->client, sizeof line->client, "%s/%d", text, PREFIX * 8);
}

static struct address **bucket_of(struct connections *l, const struct address_key *k)
{
    return &l->addresses[hash64_of(bytes_of(k, sizeof *k), l->seed) % LINES_BUCKETS];
}

static struct address *address_of(struct connections *l, const struct sockaddr *from)
{
    struct address_key k = key_of(from);
    struct address **bucket = bucket_of(l, &k), *a = *bucket;
    while (a && memcmp(&a->key, &k, sizeof k) != 0)
        a = a->next;
    if (a) return a;
    a = NEW(struct address);
    a->key = k;
    a->next = *bucket;
    *bucket = a;
    return a;
}

static void address_less(struct connections *l, struct address *a)
{
    CHECK(a->open > 0 && l->open > 0);
    l->open--;
    if (--a->open > 0) return;
    CHECK(!a->headless.first);
    struct address **at = bucket_of(l, &a->key);
    while (*at != a)
        at = &(*at)->next;
    *at = a->next;
    memory_free(a);
}

static void headless_add(struct connection *line)
{
    struct address *a = line->address;
    line->headless = true;
    list_add(&a->headless, &line->headless_link);
}

static void headless_remove(struct connection *line)
{
    struct address *a = line->address;
    if (!line->headless) return;
    line->headless = false;
    list_remove(&a->headless, &line->headless_link);
}

// The connection stops counting before its owner finds it closed.
static void uncount(struct connections *l, struct connection *line)
{
    if (!line->address) return;
    headless_remove(line);
    address_less(l, line->address);
    line->address = NULL;
}

static void cut(struct connections *l, struct connection *line)
{
    (void)shutdown(line->fd, SHUT_RDWR);
    uncount(l, line);
}

// The oldest one.
static struct connection *first_headless(const struct address *a)
{
    return LIST_FIRST(&a->headless, struct connection, headless_link);
}

static struct connection *oldest_headless(const struct connections *l)
{
    struct connection *oldest = NULL;
    for (size_t i = 0; i < LINES_BUCKETS; i++)
        for (const struct address *a = l->addresses[i]; a; a = a->next) {
            struct connection *line = first_headless(a);
            if (line && (!oldest || line->since_ms < oldest->since_ms)) oldest = line;
        }
    return oldest;
}

void connections_init(struct connections *l, const struct connections_config *config)
{
    *l = (struct connections){.config = *config, .seed = entropy_u64()};
    (void)pthread_mutex_init(&l->lock, NULL);
}

void connections_done(struct connections *l)
{
    CHECK(!l->all.first);
    (void)pthread_mutex_destroy(&l->lock);
}

static size_t most_of_one(const struct connections *l)
{
    if (l->config.per_address_max > 0) return l->config.per_address_max;
    size_t max = l->config.connections_max;
    return l->open < max ? SHARE * (max - l->open) : 1;
}

bool connections_admit(struct connections *l, const struct sockaddr *from)
{
    LOCKED(&l->lock);
    struct address *a = address_of(l, from);
    bool fits = a->open < most_of_one(l);
    a->open++; // before the cut, which frees an address without connections
    l->open++;
    struct connection *line = first_headless(a);
    bool admitted = fits || line;
    if (!admitted)
        address_less(l, a);
    else if (!fits)
        cut(l, line);
    return admitted;
}

void connections_unadmit(struct connections *l, const struct sockaddr *from)
{
    LOCKED(&l->lock);
    address_less(l, address_of(l, from));
}

void connections_make_space(struct connections *l)
{
    LOCKED(&l->lock);
    int64_t late = clock_boot_ms() - GRACE_MS;
    struct connection *line;
    for (int i = 0; i < AT_ONCE && (line = oldest_headless(l)) && line->since_ms <= late; i++)
        cut(l, line);
}

struct connection *connection_new(struct connections *l, int fd, const struct sockaddr *from,
                                  int64_t within_ms)
{
    struct connection *line = NEW(struct connection);
    int on = 1;
    line->fd = fd;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); // no delay for small answers
    name_ends(line, from);
    connection_expect(line, within_ms);
    LOCKED(&l->lock);
    line->since_ms = clock_boot_ms();
    list_add_first(&l->all, &line->link);
    line->address = address_of(l, from); // connections_admit counted it
    CHECK(line->address->open > 0);
    headless_add(line);
    return line;
}

void connection_free(struct connections *l, struct connection *line)
{
    (void)pthread_mutex_lock(&l->lock);
    list_remove(&l->all, &line->link);
    uncount(l, line);
    (void)pthread_mutex_unlock(&l->lock);
    memory_free(line);
}

void connection_heard(struct connections *l, struct connection *line)
{
    if (line->has_head) return;
    line->has_head = true;
    LOCKED(&l->lock);
    if (line->address) headless_remove(line);
}

void connection_expect(struct connection *line, int64_t within_ms)
{
    atomic_store(&line->deadline, within_ms > 0 ? clock_boot_ms() + within_ms : 0);
}

void connections_cut_late(struct connections *l)
{
    int64_t now = clock_boot_ms();
    LOCKED(&l->lock);
    LIST_EACH(line, &l->all, struct connection, link) {
        int64_t deadline = atomic_load(&line->deadline);
        if (deadline != 0 && deadline < now) (void)shutdown(line->fd, SHUT_RDWR);
    }
}
