// SPDX-License-Identifier: Apache-2.0
// Passes an answer from the thread that has it to the thread that sends it. libmicrohttpd makes
// about a dozen small allocations for a response. If one thread allocates and another frees, the
// threads contend for the C library's heaps. So only the body moves between the threads.
#include "net/httpd_inside.h"

#include <string.h>

static bool put(struct httpd_reply *p, const char *name, const char *value)
{
    size_t name_len = strlen(name) + 1, value_len = strlen(value) + 1;
    if (name_len > sizeof p->pairs - p->len) return false;
    if (value_len > sizeof p->pairs - p->len - name_len) return false;
    memcpy(p->pairs + p->len, name, name_len);
    memcpy(p->pairs + p->len + name_len, value, value_len);
    p->len += name_len + value_len;
    return true;
}

bool httpd_reply_take(struct httpd_reply *p, const struct httpd_answer *a)
{
    p->len = 0;
    p->body = BYTES_EMPTY;
    if (a->type && !put(p, "Content-Type", a->type)) return false;
    for (size_t i = 0; i < a->headers_len; i++)
        if (!put(p, a->headers[i].name, a->headers[i].value)) return false;
    p->body = a->owned ? a->body : bytes_copy(a->body);
    return true;
}

bool httpd_reply_next(const struct httpd_reply *p, size_t *at, const char **name,
                      const char **value)
{
    if (*at == p->len) return false;
    *name = p->pairs + *at;
    *value = *name + strlen(*name) + 1;
    *at += (size_t)(*value - *name) + strlen(*value) + 1;
    return true;
}

struct bytes httpd_reply_take_body(struct httpd_reply *p)
{
    struct bytes body = p->body;
    p->body = BYTES_EMPTY;
    return body;
}

void httpd_reply_done(struct httpd_reply *p)
{
    bytes_free(httpd_reply_take_body(p));
}
