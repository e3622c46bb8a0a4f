// SPDX-License-Identifier: Apache-2.0
// The whole server without a network: routing, every body, the library under it on a store in
// memory. The functions of net/httpd.h are those below: a request comes from the input, its client
// hangs up as soon as the server would wait.
//
// Input: a byte that chooses the method, one that chooses the encodings, one that chooses how the
// target begins, the rest of it up to the end of the line, the body. With 8 in the second byte
// there are headers before the body, a line each, and an empty line.
#include "net/head.h"

#include "base/check.h"
#include "base/memory.h"
#include "fuzz.h"
#include "net/tls.h"
#include "protocol/wire.h"
#include "server/server.h"
#include "json/json.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define RUNS_OF_A_STORE 2000
#define TARGET_MAX      2048
#define HEAD            3
#define Q               "/v1/queues/q"
#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

struct httpd {
    struct httpd_config config;
};

struct httpd_request {
    const char *method;
    char target[TARGET_MAX];
    struct head head;
    struct bytes body;
    enum httpd_lost lost;
    void *mine;
    void (*done)(void *mine, bool delivered);
    void (*gone)(void *mine);
    size_t held; // by httpd_keep
    bool answered;
    int status;
    char answer_type[64];
    struct buf answer;
};

struct httpd_stream {
    struct httpd_request *request;
};

// The engine's own threads hold memory whenever a leak would be looked for: between two inputs.
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return 1;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct httpd node;

enum err httpd_start(const struct httpd_config *config, struct httpd **out, char *why,
                     size_t why_len)
{
    (void)why;
    (void)why_len;
    node.config = *config;
    *out = &node;
    return ERR_OK;
}

enum err httpd_listen(struct httpd *h, char *why, size_t why_len)
{
    (void)h;
    (void)why;
    (void)why_len;
    return ERR_OK;
}

uint16_t httpd_port(const struct httpd *h)
{
    (void)h;
    return 1;
}

int64_t httpd_looked_ms(const struct httpd *h)
{
    (void)h;
    return 0;
}

struct tls *tls_new(const char *cert_file, const char *key_file, const char *client_ca_file,
                    char *why, size_t why_len)
{
    (void)cert_file;
    (void)key_file;
    (void)client_ca_file;
    (void)snprintf(why, why_len, "there is no TLS here");
    return NULL;
}

void tls_free(struct tls *t)
{
    (void)t;
}

bool tls_reload(struct tls *t, const char *cert_file, const char *key_file, char *why,
                size_t why_len)
{
    (void)t;
    return tls_new(cert_file, key_file, NULL, why, why_len) != NULL;
}

void httpd_close(struct httpd *h)
{
    (void)h;
}

bool httpd_stop(struct httpd *h, int64_t drain_ms)
{
    (void)h;
    (void)drain_ms;
    return true;
}

const char *httpd_method(const struct httpd_request *r)
{
    return r->method;
}

const char *httpd_target(const struct httpd_request *r)
{
    return r->target;
}

const char *httpd_header(const struct httpd_request *r, const char *name)
{
    return head_value(&r->head, name);
}

bool httpd_nth_header(const struct httpd_request *r, size_t i, struct httpd_pair *out)
{
    return head_nth(&r->head, i, out);
}

const struct httpd_fault *httpd_fault(const struct httpd_request *r)
{
    return &r->head.fault;
}

struct bytes httpd_body(const struct httpd_request *r)
{
    return r->body;
}

enum httpd_lost httpd_lost(const struct httpd_request *r)
{
    return r->lost;
}

size_t httpd_body_memory(const struct httpd *h)
{
    (void)h;
    return 0;
}

const char *httpd_peer(const struct httpd_request *r)
{
    (void)r;
    return "none";
}

const char *httpd_client(const struct httpd_request *r)
{
    return httpd_peer(r);
}

enum httpd_lost httpd_reserve(struct httpd_request *r, size_t more)
{
    (void)r;
    return more > ((size_t)64 << 20) ? HTTPD_TOO_LARGE : HTTPD_WHOLE;
}

void httpd_set_client(struct httpd_request *r, uint64_t client)
{
    (void)r;
    (void)client;
}

// Each input is a connection of its own.
const char *httpd_note(const struct httpd_request *r)
{
    (void)r;
    return "";
}

void httpd_set_note(struct httpd_request *r, const char *note)
{
    (void)r;
    (void)note;
}

// The input is libFuzzer's. A later use of the body would be a use of nothing.
void httpd_forget_body(struct httpd_request *r)
{
    r->body = BYTES_EMPTY;
}

bool httpd_gone(struct httpd_request *r)
{
    (void)pthread_mutex_lock(&lock);
    bool gone = r->gone != NULL;
    (void)pthread_mutex_unlock(&lock);
    return gone;
}

void httpd_attach(struct httpd_request *r, void *mine, void (*done)(void *mine, bool delivered))
{
    r->mine = mine;
    r->done = done;
}

void *httpd_mine(const struct httpd_request *r)
{
    return r->mine;
}

void httpd_watch(struct httpd_request *r, void (*gone)(void *mine))
{
    (void)pthread_mutex_lock(&lock);
    r->gone = gone;
    (void)pthread_mutex_unlock(&lock);
}

void httpd_keep(struct httpd_request *r)
{
    (void)pthread_mutex_lock(&lock);
    r->held++;
    (void)pthread_mutex_unlock(&lock);
}

void httpd_drop(struct httpd_request *r)
{
    (void)pthread_mutex_lock(&lock);
    CHECK(r->held > 0);
    r->held--;
    (void)pthread_cond_broadcast(&changed);
    (void)pthread_mutex_unlock(&lock);
}

void httpd_answer(struct httpd_request *r, const struct httpd_answer *a)
{
    (void)pthread_mutex_lock(&lock);
    CHECK(!r->answered);
    r->answered = true;
    r->status = a->status;
    (void)snprintf(r->answer_type, sizeof r->answer_type, "%s", a->type ? a->type : "");
    buf_put(&r->answer, a->body);
    (void)pthread_cond_broadcast(&changed);
    (void)pthread_mutex_unlock(&lock);
    if (a->owned) bytes_free(a->body);
}

struct httpd_stream *httpd_stream_open(struct httpd_request *r, const struct httpd_answer *a)
{
    (void)a;
    struct httpd_stream *s = NEW(struct httpd_stream);
    s->request = r;
    return s;
}

bool httpd_stream_write(struct httpd_stream *s, struct bytes some, int64_t wait_ms)
{
    (void)s;
    (void)some;
    (void)wait_ms;
    return false;
}

size_t httpd_stream_pending(struct httpd_stream *s)
{
    (void)s;
    return 0;
}

bool httpd_stream_gone(struct httpd_stream *s)
{
    (void)s;
    return true;
}

void httpd_stream_end(struct httpd_stream *s)
{
    struct httpd_answer a = {.status = 200};
    httpd_answer(s->request, &a);
    memory_free(s);
}

void httpd_stream_cut(struct httpd_stream *s, int64_t within_ms)
{
    (void)within_ms;
    httpd_stream_end(s);
}

static void check_answer(const struct httpd_request *r)
{
    char why[200];
    struct sluice_error error;
    struct bytes body = buf_bytes(&r->answer);
    CHECK(r->status >= 200 && r->status < 600 && r->status != 500);
    if (strcmp(r->answer_type, WIRE_TYPE) == 0 && r->status >= 400)
        CHECK(wire_read_error(body, &error));
    if (!strstr(r->answer_type, "json")) return;
    struct json *parsed = json_parse((const char *)body.data, body.len, why, sizeof why);
    CHECK(parsed);
    CHECK(r->status < 400 || json_as_number(json_member(parsed, "status")) == r->status);
    json_free(parsed);
}

static void run_request(struct httpd_request *r)
{
    size_t body_max = node.config.head(node.config.ctx, r);
    CHECK(r->answered || r->head.fault.status == 0);
    if (!r->answered && r->body.len > body_max) {
        r->lost = HTTPD_TOO_LARGE;
        r->body = BYTES_EMPTY;
    }
    if (!r->answered) node.config.handle(node.config.ctx, r);
    (void)pthread_mutex_lock(&lock);
    void (*gone)(void *mine) = r->answered ? NULL : r->gone;
    (void)pthread_mutex_unlock(&lock);
    if (gone) gone(r->mine); // may come too late, like any hang-up
    (void)pthread_mutex_lock(&lock);
    while (!r->answered || r->held > 0)
        (void)pthread_cond_wait(&changed, &lock);
    (void)pthread_mutex_unlock(&lock);
    check_answer(r);
    r->done(r->mine, true);
}

#define LINES_MAX 200

struct known_field {
    struct bytes name;
    struct bytes value;
};

static struct bytes line_of(struct bytes *rest)
{
    const uint8_t *end = rest->len > 0 ? memchr(rest->data, '\n', rest->len) : NULL;
    struct bytes line = bytes_of(rest->data, end ? (size_t)(end - rest->data) : rest->len);
    size_t used = line.len + (end != NULL);
    *rest = bytes_of(rest->data + used, rest->len - used);
    return line;
}

static struct known_field field_of(struct bytes line)
{
    const uint8_t *colon = memchr(line.data, ':', line.len);
    size_t at = colon ? (size_t)(colon - line.data) : line.len;
    size_t skip = colon ? at + 1 : at;
    while (skip < line.len && line.data[skip] == ' ')
        skip++;
    return (struct known_field){bytes_of(line.data, at),
                                bytes_of(line.data + skip, line.len - skip)};
}

static void make_head(struct httpd_request *r, const struct known_field *fields, size_t len)
{
    head_init(&r->head, bytes_str(r->method), bytes_str(r->target));
    for (size_t i = 0; i < len; i++)
        head_weigh(&r->head, fields[i].name.len, fields[i].value.len);
    head_take(&r->head, (size_t)16 << 10);
    for (size_t i = 0; i < len; i++)
        head_add(&r->head, fields[i].name, fields[i].value, true);
    head_end(&r->head, false);
}

// Takes what it reads off the body.
static void read_head(struct httpd_request *r, uint8_t how)
{
    static const char *const types[] = {"application/json", WIRE_TYPE, "text/plain", NULL};
    struct known_field fields[LINES_MAX + 3];
    size_t len = 0;
    const char *type = types[how % COUNT_OF(types)];
    if (type) fields[len++] = (struct known_field){bytes_str("Content-Type"), bytes_str(type)};
    if (how & 4) fields[len++] = (struct known_field){bytes_str("Accept"), bytes_str(WIRE_TYPE)};
    fields[len++] = (struct known_field){bytes_str("Sluice-Header-One"), bytes_str("two")};
    for (size_t i = 0; (how & 8) && i < LINES_MAX && r->body.len > 0; i++) {
        struct bytes line = line_of(&r->body);
        if (line.len == 0) break;
        fields[len++] = field_of(line);
    }
    make_head(r, fields, len);
}

static void fresh_server(struct sluice **store, struct server **server)
{
    struct sluice_error error;
    if (*server) CHECK(server_stop(*server, 10000));
    sluice_close(*store);
    CHECK(sluice_open("mem:", NULL, store, &error) == SLUICE_OK);
    CHECK(sluice_queue_create(*store, "q", NULL, 0, &error) == SLUICE_OK);
    CHECK(server_start(&(struct server_config){0}, *store, server, &error) == SLUICE_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const char *const methods[] = {"GET",    "POST", "PUT",  "PATCH",
                                          "DELETE", "HEAD", "POST", "BREW"};
    static const char *const targets[] = {"",
                                          Q,
                                          Q "/messages",
                                          Q "/receive",
                                          Q "/ack",
                                          Q "/fail",
                                          Q "/release",
                                          Q "/renew",
                                          Q "/purge",
                                          Q "/redrive",
                                          Q "/messages/",
                                          Q "/messages?",
                                          Q "/events?",
                                          "/v1/queues/",
                                          "/v1/queues?"};
    static struct sluice *store;
    static struct server *server;
    static unsigned runs;
    if (runs++ % RUNS_OF_A_STORE == 0) fresh_server(&store, &server);
    if (len < HEAD) return 0;
    struct httpd_request *r = NEW(struct httpd_request);
    r->method = methods[data[0] % COUNT_OF(methods)];
    const uint8_t *end = memchr(data + HEAD, '\n', len - HEAD);
    size_t rest = end ? (size_t)(end - data - HEAD) : len - HEAD;
    (void)snprintf(r->target, sizeof r->target, "%s%.*s", targets[data[2] % COUNT_OF(targets)],
                   (int)rest, (const char *)data + HEAD);
    if (end) r->body = bytes_of(end + 1, len - rest - HEAD - 1);
    read_head(r, data[1]);
    buf_init(&r->answer, SIZE_MAX);
    run_request(r);
    buf_done(&r->answer);
    head_done(&r->head);
    memory_free(r);
    return 0;
}
