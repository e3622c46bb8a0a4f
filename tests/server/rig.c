// SPDX-License-Identifier: Apache-2.0
// The rig of the server's tests.
#include "rig.h"

#include "os/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>

const char *rig_store = "mem";

static struct json *last;

int64_t now_ms(void)
{
    return clock_boot_ms();
}

void await(bool (*fact)(void *ctx), void *ctx, const char *what)
{
    int64_t give_up = now_ms() + DEADLINE_MS;
    while (!fact(ctx)) {
        if (now_ms() > give_up) fail_msg("%s: it did not come to that", what);
        (void)nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
}

void rig_start_with(struct rig *r, const struct server_config *config)
{
    struct sluice_error error = {.code = SLUICE_OK};
    bool file = strcmp(rig_store, "file") == 0;
    *r = (struct rig){.line = -1};
    if (file) scratch_make(r->dir);
    if (sluice_open(file ? r->dir : "mem:", NULL, &r->store, &error)) fail_msg("%s", error.message);
    struct server_config own = *config;
    if (!own.listen) own.listen = "127.0.0.1:0";
    if (server_start(&own, r->store, &r->server, &error)) fail_msg("%s", error.message);
    r->port = (uint16_t)atoi(strrchr(server_address(r->server), ':') + 1);
    assert_int_equal(call(r, "PUT", "/v1/queues/tasks", "{}"), 201);
}

void rig_start(struct rig *r)
{
    rig_start_with(r, &(struct server_config){0});
}

void rig_stop(struct rig *r)
{
    if (r->line >= 0) (void)close(r->line);
    if (r->server) assert_true(server_stop(r->server, DEADLINE_MS));
    sluice_close(r->store);
    if (strcmp(rig_store, "file") == 0) scratch_remove(r->dir);
    json_free(last);
    last = NULL;
}

int dial(const struct rig *r)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons(r->port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

static void say_bytes(int fd, const void *data, size_t len)
{
    const char *at = data;
    while (len > 0) {
        ssize_t n = send(fd, at, len, MSG_NOSIGNAL);
        if (n <= 0) return; // the answer says why
        at += n;
        len -= (size_t)n;
    }
}

void say(int fd, const char *text)
{
    say_bytes(fd, text, strlen(text));
}

void say_request(int fd, const struct ask *a)
{
    size_t len = a->body_len > 0 ? a->body_len : a->body ? strlen(a->body) : 0;
    size_t head_max = 1024 + strlen(a->path) + (a->headers ? strlen(a->headers) : 0);
    char *head = malloc(head_max + len);
    assert_non_null(head);
    int at = snprintf(head, head_max, "%s %s HTTP/1.1\r\nHost: localhost\r\n%s%s%s%s", a->method,
                      a->path, a->type ? "Content-Type: " : "", a->type ? a->type : "",
                      a->type ? "\r\n" : "", a->headers ? a->headers : "");
    if (len > 0 || a->body || strcmp(a->method, "GET") != 0)
        at += snprintf(head + at, head_max - (size_t)at, "Content-Length: %zu\r\n", len);
    at += snprintf(head + at, head_max - (size_t)at, "\r\n");
    if (len > 0) memcpy(head + at, a->body, len);
    say_bytes(fd, head, (size_t)at + len);
    free(head);
}

// Waits for bytes; the number of them, 0 at the end.
static size_t hear_some(int fd, char *to, size_t max)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    if (poll(&ready, 1, DEADLINE_MS) <= 0) fail_msg("nothing came within %d ms", DEADLINE_MS);
    ssize_t n = recv(fd, to, max, 0);
    return n > 0 ? (size_t)n : 0;
}

bool hears_end(int fd)
{
    char byte;
    return hear_some(fd, &byte, 1) == 0;
}

void hear_until(int fd, char *to, size_t to_len, const char *text)
{
    size_t len = strlen(to);
    while (!strstr(to, text)) {
        size_t n = hear_some(fd, to + len, to_len - len - 1);
        if (n == 0) fail_msg("the connection ended before \"%s\" came: %s", text, to);
        len += n;
        to[len] = '\0';
    }
}

const char *reply_header(const struct reply *r, const char *name)
{
    static char value[512];
    size_t len = strlen(name);
    value[0] = '\0';
    for (const char *line = strstr(r->head, "\r\n"); line; line = strstr(line + 2, "\r\n")) {
        if (strncasecmp(line + 2, name, len) != 0 || line[2 + len] != ':') continue;
        const char *at = line + 3 + len + strspn(line + 3 + len, " ");
        (void)snprintf(value, sizeof value, "%.*s", (int)strcspn(at, "\r"), at);
    }
    return value;
}

void hear(int fd, bool head, struct reply *out)
{
    size_t cap = (size_t)64 << 10, len = 0; // a head, and the beginning of a body
    char *text = malloc(cap), *end = NULL;
    assert_non_null(text);
    text[0] = '\0';
    while (!end) {
        size_t n = hear_some(fd, text + len, cap - len - 1);
        if (n == 0) fail_msg("the connection ended after \"%.200s\"", text);
        len += n;
        text[len] = '\0';
        end = strstr(text, "\r\n\r\n");
        // It was only asked to go on.
        if (end && strncmp(text, "HTTP/1.1 100", 12) == 0) {
            len -= (size_t)(end + 4 - text);
            memmove(text, end + 4, len + 1);
            end = strstr(text, "\r\n\r\n");
        }
    }
    *end = '\0';
    size_t body_at = (size_t)(end + 4 - text), have = len - body_at;
    *out = (struct reply){.head = text};
    size_t want = head ? 0 : strtoull(reply_header(out, "Content-Length"), NULL, 10);
    if (body_at + want >= cap) text = realloc(text, body_at + want + 1);
    assert_non_null(text);
    *out = (struct reply){.head = text, .body = text + body_at};
    out->status = atoi(text + strlen("HTTP/1.1 "));
    while (have < want) {
        size_t n = hear_some(fd, out->body + have, want - have);
        if (n == 0) fail_msg("the connection ended inside an answer's body");
        have += n;
    }
    assert_int_equal(have, want);
    out->body[have] = '\0';
    out->body_len = have;
}

void reply_done(struct reply *r)
{
    free(r->head);
    *r = (struct reply){0};
}

void ask(struct rig *r, const struct ask *a, struct reply *out)
{
    if (r->line < 0) r->line = dial(r);
    say_request(r->line, a);
    hear(r->line, strcmp(a->method, "HEAD") == 0, out);
    assert_string_equal(reply_header(out, "X-Content-Type-Options"), "nosniff"); // every answer
    if (strcmp(reply_header(out, "Connection"), "close") == 0) {
        (void)close(r->line);
        r->line = -1;
    }
}

int call(struct rig *r, const char *method, const char *path, const char *json)
{
    struct reply reply;
    char why[256] = "";
    ask(r,
        &(struct ask){
            .method = method, .path = path, .type = json ? "application/json" : NULL, .body = json},
        &reply);
    json_free(last);
    last = reply.body_len > 0 ? json_parse(reply.body, reply.body_len, why, sizeof why) : NULL;
    if (*why) fail_msg("%s %s answered no JSON: %s", method, path, why);
    int status = reply.status;
    reply_done(&reply);
    return status;
}

int post(struct rig *r, const char *path, const char *json)
{
    return call(r, "POST", path, json);
}

int get(struct rig *r, const char *path)
{
    return call(r, "GET", path, NULL);
}

struct json *got(void)
{
    return last;
}

static struct json *find(const char *key)
{
    struct json *at = last;
    while (at && *key) {
        char name[64];
        size_t len = strcspn(key, ".");
        (void)snprintf(name, sizeof name, "%.*s", (int)len, key);
        if (json_kind(at) == JSON_KIND_LIST)
            at = json_list_at(at, (size_t)atoi(name));
        else
            at = json_kind(at) == JSON_KIND_OBJECT ? json_member(at, name) : NULL;
        key += len + (key[len] == '.');
    }
    return at;
}

const char *got_text(const char *key)
{
    struct json *v = find(key);
    return v && json_kind(v) == JSON_KIND_TEXT ? (const char *)json_as_text(v).data : "";
}

int64_t got_number(const char *key)
{
    struct json *v = find(key);
    if (!v || json_kind(v) != JSON_KIND_NUMBER) fail_msg("%s is not a number in the answer", key);
    return json_as_number(v);
}

size_t got_len(const char *key)
{
    struct json *v = find(key);
    if (!v || json_kind(v) != JSON_KIND_LIST) fail_msg("%s is not a list in the answer", key);
    return json_list_len(v);
}
