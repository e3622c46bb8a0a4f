// SPDX-License-Identifier: Apache-2.0
// hiredis formats and parses. The objects of a reply are our own, so that a length in the bytes
// cannot make the parser allocate more than the limits of resp.h.
#include "store/redis/resp.h"

#include "base/check.h"
#include "base/memory.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#define ARGS_MAX 2048

struct resp_reader {
    redisReader *inner;
    size_t items;    // of the reply that is being read
    size_t unparsed; // bytes fed since the last whole reply
    bool bad;
};

void resp_free(struct resp *r)
{
    if (!r) return;
    for (size_t i = 0; r->items && i < r->len; i++)
        resp_free(r->items[i]);
    memory_free(r->items);
    memory_free(r->text);
    memory_free(r);
}

struct bytes resp_bytes(const struct resp *r)
{
    return r->text ? bytes_of(r->text, r->len) : BYTES_EMPTY;
}

const struct resp *resp_item(const struct resp *r, size_t at)
{
    static const struct resp nil = {.kind = RESP_NIL};
    if (!r || r->kind != RESP_LIST || at >= r->len || !r->items[at]) return &nil;
    return r->items[at];
}

int64_t resp_number(const struct resp *r)
{
    if (r->kind == RESP_NUMBER) return r->number;
    if (!r->text || r->len == 0 || r->len > 18) return -1;
    int64_t n = 0;
    for (size_t i = 0; i < r->len; i++) {
        if (r->text[i] < '0' || r->text[i] > '9') return -1;
        n = n * 10 + (r->text[i] - '0');
    }
    return n;
}

void resp_format(struct buf *to, const struct bytes *args, size_t count)
{
    CHECK(count > 0 && count <= ARGS_MAX);
    const char *values[ARGS_MAX];
    size_t lens[ARGS_MAX];
    for (size_t i = 0; i < count; i++) {
        values[i] = args[i].len > 0 ? (const char *)args[i].data : "";
        lens[i] = args[i].len;
    }
    char *text = NULL;
    int len = redisFormatCommandArgv(&text, (int)count, values, lens);
    CHECK(len > 0); // out of memory aborts, as everywhere in the engine
    buf_put(to, bytes_of(text, (size_t)len));
    redisFreeCommand(text);
}

// Counts the object, and puts it into the list that is being read.
static struct resp *object_new(const redisReadTask *task, enum resp_kind kind)
{
    struct resp_reader *r = task->privdata;
    if (++r->items > RESP_ITEMS_MAX) return NULL;
    struct resp *o = NEW(struct resp);
    o->kind = kind;
    if (task->parent) {
        struct resp *list = task->parent->obj;
        CHECK(list->kind == RESP_LIST && task->idx >= 0 && (size_t)task->idx < list->len);
        list->items[task->idx] = o;
    }
    return o;
}

static void *new_text(const redisReadTask *task, char *text, size_t len)
{
    enum resp_kind kind = task->type == REDIS_REPLY_ERROR    ? RESP_ERROR
                          : task->type == REDIS_REPLY_STATUS ? RESP_STATUS
                                                             : RESP_TEXT;
    struct resp *o = object_new(task, kind);
    if (!o) return NULL;
    o->text = memory_new(len + 1);
    memcpy(o->text, text, len);
    o->text[len] = 0;
    o->len = len;
    return o;
}

static void *new_list(const redisReadTask *task, int count)
{
    const struct resp_reader *r = task->privdata;
    if (count < 0 || (size_t)count > RESP_ITEMS_MAX - r->items) return NULL;
    struct resp *o = object_new(task, RESP_LIST);
    if (!o) return NULL;
    o->len = (size_t)count;
    o->items = memory_zeroed(o->len + 1, sizeof(struct resp *));
    return o;
}

static void *new_number(const redisReadTask *task, long long number)
{
    struct resp *o = object_new(task, RESP_NUMBER);
    if (o) o->number = number;
    return o;
}

static void *new_nil(const redisReadTask *task)
{
    return object_new(task, RESP_NIL);
}

static void free_object(void *o)
{
    resp_free(o);
}

static redisReplyObjectFunctions functions = {new_text, new_list, new_number, new_nil, free_object};

struct resp_reader *resp_reader_new(void)
{
    struct resp_reader *r = NEW(struct resp_reader);
    r->inner = redisReaderCreateWithFunctions(&functions);
    CHECK(r->inner);
    r->inner->privdata = r;
    return r;
}

void resp_reader_free(struct resp_reader *r)
{
    if (!r) return;
    redisReaderFree(r->inner);
    memory_free(r);
}

void resp_reader_feed(struct resp_reader *r, struct bytes from)
{
    if (r->bad || from.len == 0) return;
    r->unparsed += from.len;
    if (redisReaderFeed(r->inner, (const char *)from.data, from.len) != REDIS_OK) r->bad = true;
}

bool resp_reader_is_empty(const struct resp_reader *r)
{
    return r->unparsed == 0;
}

enum resp_step resp_reader_next(struct resp_reader *r, struct resp **out)
{
    void *reply = NULL;
    if (!r->bad && redisReaderGetReply(r->inner, &reply) != REDIS_OK) r->bad = true;
    if (r->bad) return RESP_BAD;
    if (!reply) {
        if (r->unparsed > RESP_BYTES_MAX) r->bad = true;
        return r->bad ? RESP_BAD : RESP_MORE;
    }
    r->items = 0;
    r->unparsed = r->inner->len - r->inner->pos;
    *out = reply;
    return RESP_ONE;
}
