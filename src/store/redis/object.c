// SPDX-License-Identifier: Apache-2.0
// Objects are strings. The index of their names, which a list needs, changes in the same script.
#include "store/redis/inside.h"

#include "base/check.h"
#include "base/memory.h"
#include "os/clock.h"
#include "os/lock.h"
#include "store/backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOLDERS_MAX (STORE_KEY_MAX / 2)
#define HEADER_LEN  16 // before an object's bytes
#define DELETE_MAX  200
#define TAGS_MAX    1000
#define MOVING_MS   10

static bool tag_is_known(struct redis *me, uint64_t tag)
{
    LOCKED(&me->tags_lock);
    return map_find(&me->tags, tag) != MAP_NONE;
}

// The list of tags has a tag before the tag has an object.
static enum err note_tag(struct redis *me, const char *key, struct store_answer *a)
{
    size_t len = redis_tag_len(key);
    uint64_t id = hash64_of(bytes_of(key, len), 0);
    if (len == 0 || tag_is_known(me, id)) return ERR_OK;
    struct redis_key tags;
    redis_key_tags(&tags, me->client.url.prefix);
    struct bytes words[] = {bytes_str("ZADD"), bytes_str(tags.text), bytes_str("0"),
                            bytes_of(key, len + 1)};
    struct redis_call call = {.raw = true, .args = words, .args_len = 4, .writes = true};
    struct resp *reply;
    enum err e = redis_run(&me->client, &call, &reply, a);
    if (e == ERR_UNKNOWN)
        return answer_refuse(a, ERR_UNAVAILABLE, "%s", "the tag is not stored yet");
    if (e) return e;
    resp_free(reply);
    LOCKED(&me->tags_lock);
    if (map_find(&me->tags, id) == MAP_NONE) map_add(&me->tags, id, 0);
    return ERR_OK;
}

// The keys of the object's folders that have the same tag: none of them may be an object.
static size_t add_folders(struct redis *me, const char *key, struct redis_key *folders)
{
    size_t count = 0, tag_len = redis_tag_len(key);
    char name[STORE_KEY_MAX + 1];
    for (size_t i = 0; key[i]; i++) {
        if (key[i] == '/' && i > tag_len) {
            name[i] = 0;
            if (redis_tag_len(name) == tag_len)
                redis_key_of(&folders[count++], me->client.url.prefix, 'o', name);
        }
        name[i] = key[i];
    }
    return count;
}

static enum err run_put(struct redis *me, const char *key, const char *mode, struct bytes body,
                        struct resp **reply, struct store_answer *a)
{
    struct redis_key object, index;
    CLEANUP(memory_let_go) struct redis_key *folders = memory_zeroed(FOLDERS_MAX, sizeof *folders);
    struct bytes args[2 + FOLDERS_MAX + 3];
    redis_key_of(&object, me->client.url.prefix, 'o', key);
    redis_key_index(&index, me->client.url.prefix, key, redis_tag_len(key));
    size_t count = 0, found = add_folders(me, key, folders);
    args[count++] = bytes_str(object.text);
    args[count++] = bytes_str(index.text);
    for (size_t i = 0; i < found; i++)
        args[count++] = bytes_str(folders[i].text);
    size_t keys = count;
    args[count++] = bytes_str(mode);
    args[count++] = bytes_str(key);
    args[count++] = body;
    struct redis_call call = {
        .script = SCRIPT_PUT, .keys = keys, .args = args, .args_len = count, .writes = true};
    return redis_run(&me->client, &call, reply, a);
}

static enum err write_object(struct redis *me, const char *key, const char *mode, struct bytes body,
                             struct store_answer *a)
{
    struct resp *reply;
    enum err e = note_tag(me, key, a);
    if (!e) e = run_put(me, key, mode, body, &reply, a);
    if (e) return e;
    const struct resp *word = resp_item(reply, 0);
    int64_t now = resp_number(resp_item(reply, 1));
    const char *text = word->kind == RESP_TEXT && now >= 0 ? word->text : "";
    if (now >= 0) (void)redis_time(&me->client, now, a);
    if (strcmp(text, "exists") == 0)
        e = ERR_CONFLICT;
    else if (strcmp(text, "folder") == 0)
        e = answer_refuse(a, ERR_INVALID, "key \"%.150s\" is a folder, or inside an object", key);
    else if (strcmp(text, "ok") != 0)
        e = answer_refuse(a, ERR_UNKNOWN, "the Redis server's answer to a put is not understood");
    resp_free(reply);
    return e;
}

enum err redis_put_new(struct store *s, const char *key, struct bytes body, struct store_answer *a)
{
    return write_object(redis_of(s), key, "new", body, a);
}

enum err redis_put(struct store *s, const char *key, struct bytes body, struct store_answer *a)
{
    return write_object(redis_of(s), key, "any", body, a);
}

// Another process may have put the object, on a server whose replicas do not have it yet.
static enum err confirm_object(struct redis *me, const char *key, uint64_t epoch, bool *again,
                               struct store_answer *a)
{
    struct redis_key mark;
    redis_key_mark(&mark, me->client.url.prefix, key);
    return redis_confirm(&me->client, mark.text, &epoch, again, a);
}

static enum err take_object(struct redis *me, const char *key, const struct resp *reply,
                            struct store_answer *a)
{
    (void)redis_time(&me->client, resp_number(resp_item(reply, 0)), a);
    int64_t at = resp_number(resp_item(reply, 1));
    const struct resp *body = resp_item(reply, 2);
    if (reply->len == 1) return ERR_NOT_FOUND;
    a->modified = (struct interval){at, at};
    if (at < 0 || body->kind != RESP_TEXT)
        return answer_refuse(a, ERR_CORRUPT, "object \"%.150s\" is damaged", key);
    buf_put(&a->body, resp_bytes(body));
    return a->body.bad ? answer_refuse(a, ERR_LIMIT, "the answer is over its limit") : ERR_OK;
}

enum err redis_get(struct store *s, const char *key, size_t from, size_t len,
                   struct store_answer *a)
{
    struct redis *me = redis_of(s);
    struct redis_key object;
    char first[24] = "", last[24] = "-1";
    redis_key_of(&object, me->client.url.prefix, 'o', key);
    if (from <= STORE_OBJECT_MAX && len > 0) {
        (void)snprintf(first, sizeof first, "%zu", from + HEADER_LEN);
        if (len < STORE_OBJECT_MAX)
            (void)snprintf(last, sizeof last, "%zu", from + HEADER_LEN + len - 1);
    }
    struct bytes args[] = {bytes_str(object.text), bytes_str(first), bytes_str(last)};
    enum err e = ERR_OK;
    for (bool again = true; again && !e;) {
        struct redis_call call = {.script = SCRIPT_GET, .keys = 1, .args = args, .args_len = 3};
        struct resp *reply;
        answer_clear(a);
        e = redis_run(&me->client, &call, &reply, a);
        if (e) return e;
        e = take_object(me, key, reply, a);
        resp_free(reply);
        again = false;
        if (!e) e = confirm_object(me, key, call.epoch, &again, a);
        if (again) e = ERR_OK;
    }
    return e;
}

// The names of a list, from several tags.
struct listing {
    struct store_answer page; // of one tag
    const char *prefix;
    const char *after;
    size_t limit; // one more than is asked for
};

// Runs the script. The index of a slot that moves can be on the next server before its objects.
// Then the list would lack them, so it is made again.
static enum err run_list(struct redis *me, struct redis_call *call, struct resp **reply,
                         struct store_answer *a)
{
    int64_t until = clock_boot_ms() + store_patience_ms(&me->base, me->client.url.timeout_ms);
    for (;;) {
        enum err e = redis_run(&me->client, call, reply, a);
        if (e) return e;
        if (!call->asked || resp_number(resp_item(*reply, 1)) == 0) return ERR_OK;
        resp_free(*reply);
        if (clock_boot_ms() >= until)
            return answer_refuse(a, ERR_UNAVAILABLE, "a slot of the Redis Cluster moves");
        clock_sleep(MOVING_MS);
    }
}

static enum err list_tag(struct redis *me, struct listing *l, const char *tag, size_t tag_len,
                         struct store_answer *a)
{
    struct redis_key index, base;
    char least[STORE_KEY_MAX + 4], most[STORE_KEY_MAX + 4], rows[24];
    redis_key_index(&index, me->client.url.prefix, tag, tag_len);
    redis_key_base(&base, me->client.url.prefix, tag, tag_len);
    bool on = strcmp(l->after, l->prefix) >= 0 && l->after[0];
    (void)snprintf(least, sizeof least, "%c%s", on ? '(' : '[', on ? l->after : l->prefix);
    (void)snprintf(most, sizeof most, "[%s\xff", l->prefix); // no key has this byte
    (void)snprintf(rows, sizeof rows, "%zu", l->limit);
    struct bytes args[] = {bytes_str(index.text), bytes_str(base.text), bytes_str(least),
                           bytes_str(most), bytes_str(rows)};
    struct redis_call call = {.script = SCRIPT_LIST, .keys = 1, .args = args, .args_len = 5};
    struct resp *reply;
    enum err e = run_list(me, &call, &reply, a);
    if (e) return e;
    (void)redis_time(&me->client, resp_number(resp_item(reply, 0)), a);
    for (size_t i = 2; i + 2 < reply->len; i += 3) {
        const struct resp *name = resp_item(reply, i);
        int64_t size = resp_number(resp_item(reply, i + 1));
        int64_t at = resp_number(resp_item(reply, i + 2));
        if (name->kind != RESP_TEXT || name->len > STORE_KEY_MAX || size < 0 || at < 0) continue;
        answer_row_key(&l->page, name->text, (uint64_t)size, (struct interval){at, at});
    }
    resp_free(reply);
    return ERR_OK;
}

// The tags of shards, in order, that can have names of the list.
static enum err ask_tags(struct redis *me, const struct listing *l, struct resp **reply,
                         struct store_answer *a)
{
    struct redis_key tags;
    char least[STORE_KEY_MAX + 4] = "-", most[STORE_KEY_MAX + 4];
    redis_key_tags(&tags, me->client.url.prefix);
    size_t after_len = redis_tag_len(l->after);
    if (after_len > 0 && strcmp(l->after, l->prefix) > 0)
        (void)snprintf(least, sizeof least, "[%.*s/", (int)after_len, l->after);
    else if (l->prefix[0])
        (void)snprintf(least, sizeof least, "[%s", l->prefix);
    (void)snprintf(most, sizeof most, "[%s\xff", l->prefix);
    struct bytes words[] = {bytes_str("ZRANGEBYLEX"), bytes_str(tags.text), bytes_str(least),
                            bytes_str(most),          bytes_str("LIMIT"),   bytes_str("0"),
                            bytes_str("1000")};
    struct redis_call call = {.raw = true, .args = words, .args_len = 7};
    return redis_run(&me->client, &call, reply, a);
}

// Every name of a tag of shards starts with the tag, so the tags' names come in the tags' order.
static enum err list_shards(struct redis *me, struct listing *l, struct store_answer *a)
{
    size_t before = l->page.rows_len;
    struct resp *tags;
    enum err e = ask_tags(me, l, &tags, a);
    if (e) return e;
    for (size_t i = 0; !e && tags->kind == RESP_LIST && i < tags->len; i++) {
        const struct resp *tag = resp_item(tags, i);
        if (tag->kind != RESP_TEXT || tag->len < 2 || tag->len > STORE_KEY_MAX) continue;
        if (l->page.rows_len - before >= l->limit) break;
        e = list_tag(me, l, tag->text, tag->len - 1, a);
    }
    resp_free(tags);
    return e;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// Sorts the names of all tags and takes the first ones.
static void take_first(const struct listing *l, struct store_answer *a)
{
    size_t count = l->page.rows_len;
    CLEANUP(memory_let_go) const char **names = memory_zeroed(count + 1, sizeof *names);
    for (size_t i = 0; i < count; i++)
        names[i] = store_row_key(&l->page, i);
    qsort(names, count, sizeof *names, by_name);
    size_t limit = l->limit - 1;
    for (size_t i = 0; i < count && i < limit; i++) {
        size_t row = 0; // rows and names have the same texts, so the address finds the row
        size_t at = (size_t)(names[i] - (const char *)l->page.body.data);
        size_t lo = 0, hi = count;
        while (lo < hi) {
            row = lo + (hi - lo) / 2;
            if (l->page.rows[row].body_at < at)
                lo = row + 1;
            else
                hi = row;
        }
        const struct store_row *r = &l->page.rows[lo];
        CHECK(lo < count && r->body_at == at);
        answer_row_key(a, names[i], r->size, r->modified);
    }
    a->more = count > limit;
}

enum err redis_list(struct store *s, const char *prefix, const char *after, size_t limit,
                    struct store_answer *a)
{
    struct redis *me = redis_of(s);
    struct listing l = {.prefix = prefix, .after = after, .limit = limit + 1};
    store_answer_init(&l.page);
    size_t tag_len = redis_tag_len(prefix);
    enum err e = list_tag(me, &l, prefix, tag_len, a);
    // Only a prefix that "q/..." can start with reaches into the tags of shards.
    bool reaches = prefix[0] == 0 || strncmp(prefix, "q/", 2) == 0 || strcmp(prefix, "q") == 0;
    if (!e && tag_len == 0 && reaches) e = list_shards(me, &l, a);
    if (!e) take_first(&l, a);
    store_answer_done(&l.page);
    return e;
}

static bool same_tag(const char *a, const char *b)
{
    size_t len = redis_tag_len(a);
    return redis_tag_len(b) == len && strncmp(a, b, len) == 0;
}

// Deletes the keys of one run that have the same tag.
static enum err delete_run(struct redis *me, const char *const *keys, size_t count,
                           struct store_answer *a)
{
    struct redis_key index;
    CLEANUP(memory_let_go) struct redis_key *objects = memory_zeroed(count, sizeof *objects);
    struct bytes *args = memory_zeroed(2 * count + 1, sizeof *args);
    redis_key_index(&index, me->client.url.prefix, keys[0], redis_tag_len(keys[0]));
    args[0] = bytes_str(index.text);
    for (size_t i = 0; i < count; i++) {
        redis_key_of(&objects[i], me->client.url.prefix, 'o', keys[i]);
        args[1 + i] = bytes_str(objects[i].text);
        args[1 + count + i] = bytes_str(keys[i]);
    }
    struct redis_call call = {.script = SCRIPT_DELETE,
                              .keys = count + 1,
                              .args = args,
                              .args_len = 2 * count + 1,
                              .writes = true};
    struct resp *reply;
    enum err e = redis_run(&me->client, &call, &reply, a);
    if (!e) {
        (void)redis_time(&me->client, resp_number(resp_item(reply, 0)), a);
        resp_free(reply);
    }
    memory_free(args);
    return e;
}

enum err redis_delete(struct store *s, const char *const *keys, size_t count,
                      struct store_answer *a)
{
    enum err e = ERR_OK;
    for (size_t at = 0; !e && at < count;) {
        size_t run = 1;
        while (at + run < count && run < DELETE_MAX && same_tag(keys[at], keys[at + run]))
            run++;
        e = delete_run(redis_of(s), keys + at, run, a);
        at += run;
    }
    return e;
}
