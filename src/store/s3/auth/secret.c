// SPDX-License-Identifier: Apache-2.0
// A freed page may be swapped out, dumped or reused, so memory that held a secret is wiped first.
#define _GNU_SOURCE // explicit_bzero
#include "store/s3/auth/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

void s3_fetched_wipe(struct s3_source_answer *f)
{
    explicit_bzero(f, sizeof *f);
}

// A header ends at a line break, and SigV4 trims spaces. So a key with either cannot be right.
static bool plain(const char *text)
{
    for (; *text; text++)
        if (*text <= ' ' || *text > '~') return false;
    return true;
}

const char *s3_keys_problem(const struct s3_keys *keys)
{
    if (!*keys->access_key) return "the access key is missing";
    if (!*keys->secret_key) return "the secret key is missing";
    if (!plain(keys->access_key)) return "the access key holds a space or line break";
    if (!plain(keys->secret_key)) return "the secret key holds a space or line break";
    if (!plain(keys->session_token)) return "the session token holds a space or line break";
    return NULL;
}

void secret_init(struct buf *b, size_t limit)
{
    buf_init(b, limit);
    (void)buf_grow(b, limit);
    buf_clear(b);
}

void secret_done(struct buf *b)
{
    if (b->data) explicit_bzero(b->data, b->cap);
    buf_done(b);
}

static int secret_read_fd(int fd, struct buf *to)
{
    for (;;) {
        uint8_t beyond; // distinguishes a full buffer from a file that is too long
        bool full = to->len == to->limit;
        size_t room = full ? 1 : to->limit - to->len;
        ssize_t n = read(fd, full ? &beyond : to->data + to->len, room);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno;
        if (n == 0) return 0;
        if (full) return EFBIG;
        to->len += (size_t)n;
    }
}

int secret_read_file(const char *path, struct buf *to)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return errno;
    int failed = secret_read_fd(fd, to);
    (void)close(fd);
    return failed;
}

void secret_call_init(struct http_call *call, const char *method, const char *url)
{
    http_call_init(call, method, url);
    call->body_max = SECRET_ANSWER_MAX;
    // http_do uses memory that is already allocated, so it does not move the secret.
    (void)buf_grow(&call->body_in, SECRET_ANSWER_MAX);
    buf_clear(&call->body_in);
}

void secret_call_done(struct http_call *call)
{
    if (call->body_in.data) explicit_bzero(call->body_in.data, call->body_in.cap);
    http_call_done(call);
}

bool secret_copy(char *to, size_t size, struct bytes from)
{
    if (from.len >= size || (from.len && memchr(from.data, 0, from.len))) return false;
    if (from.len) memcpy(to, from.data, from.len);
    to[from.len] = 0;
    return true;
}
