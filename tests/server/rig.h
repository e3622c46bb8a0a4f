// SPDX-License-Identifier: Apache-2.0
// A node in this process on a free port, and a client that does what it is told: bytes out, bytes
// in, and hanging up.
#pragma once

#include "../conformance/store/support.h"
#include "../unit/unit.h"
#include "server/server.h"
#include "json/json.h"

struct rig {
    struct sluice *store;
    struct server *server;
    uint16_t port;
    int line; // a kept connection; -1: none
    char dir[SCRATCH_MAX];
};

// Which store the rigs open: "mem" or "file".
extern const char *rig_store;

void rig_start(struct rig *r); // with a queue "tasks"
void rig_start_with(struct rig *r, const struct server_config *config);
void rig_stop(struct rig *r);

struct reply {
    int status;
    char *head; // status line and headers
    char *body; // a zero after it
    size_t body_len;
};
void reply_done(struct reply *r);
// The value of a header of the reply, in a buffer that the next call uses again; "": none.
const char *reply_header(const struct reply *r, const char *name);

struct ask {
    const char *method;
    const char *path;
    const char *type;    // Content-Type; NULL: none
    const char *headers; // further lines, each ended by \r\n; NULL: none
    const void *body;
    size_t body_len; // 0: that of the text
};
void ask(struct rig *r, const struct ask *a, struct reply *out);
// JSON in, status out; the answer's body is kept for `got`.
int post(struct rig *r, const char *path, const char *json);
int get(struct rig *r, const char *path);
int call(struct rig *r, const char *method, const char *path, const char *json);
// The last answer of these, parsed; lives until the next.
struct json *got(void);
const char *
got_text(const char *key); // "a.b": a member of a member; "list.0.b" of a list; "": none
int64_t got_number(const char *key);
size_t got_len(const char *key); // of a list

int dial(const struct rig *r);
void say(int fd, const char *text); // bytes as they are
void say_request(int fd, const struct ask *a);
void hear(int fd, bool head, struct reply *out); // one whole answer
bool hears_end(int fd);                          // the other end closed, without a byte before
void hear_until(int fd, char *to, size_t to_len, const char *text); // appends until text is in it

int64_t now_ms(void);
// Until the fact holds; fails after DEADLINE_MS.
void await(bool (*fact)(void *ctx), void *ctx, const char *what);
