// SPDX-License-Identifier: Apache-2.0
// Any bytes as the answers of a Redis server, fed in pieces, as an error, as INFO, as the places of
// other servers, and as a URL.
// The first byte picks one.
#include "base/check.h"
#include "fuzz.h"
#include "store/redis/client.h"
#include "store/redis/facts.h"
#include "store/redis/outcome.h"
#include "store/redis/resp.h"
#include "store/redis/url.h"

#include <stdlib.h>
#include <string.h>

#define TEXT_MAX 4096

// Walks the whole reply, and returns how many objects it has.
static size_t walk(const struct resp *r)
{
    size_t count = 1;
    if (r->kind == RESP_LIST)
        for (size_t i = 0; i < r->len; i++)
            count += walk(resp_item(r, i));
    else
        CHECK(!r->text || r->text[r->len] == 0);
    (void)resp_number(r);
    return count;
}

static void answers(const uint8_t *data, size_t len)
{
    struct resp_reader *r = resp_reader_new();
    struct resp *replies[REDIS_QUESTIONS] = {0};
    size_t count = 0, step = len > 0 ? 1 + data[0] % 64 : 1;
    enum resp_step last = RESP_MORE;
    for (size_t at = 0; at < len && last != RESP_BAD; at += step) {
        resp_reader_feed(r, bytes_of(data + at, at + step < len ? step : len - at));
        struct resp *reply;
        while ((last = resp_reader_next(r, &reply)) == RESP_ONE) {
            CHECK(walk(reply) <= RESP_ITEMS_MAX);
            resp_free(replies[count % REDIS_QUESTIONS]);
            replies[count++ % REDIS_QUESTIONS] = reply;
        }
    }
    if (count >= REDIS_QUESTIONS) {
        static const struct redis_url anywhere = {.durability = REDIS_ALWAYS};
        struct redis_facts facts;
        char why[STORE_WHY_MAX] = "";
        enum err e = redis_facts_read(replies, &anywhere, &facts, why);
        CHECK(e == ERR_OK || why[0] != 0);
    }
    for (size_t i = 0; i < REDIS_QUESTIONS; i++)
        resp_free(replies[i]);
    resp_reader_free(r);
}

static void url(const char *text)
{
    struct redis_url u;
    char why[STORE_WHY_MAX] = "";
    enum err e = redis_url_parse(text, &u, why, sizeof why);
    CHECK(e == ERR_OK || (e == ERR_INVALID && why[0] != 0));
    if (e) return;
    CHECK((u.places_len > 0) != (u.path[0] != 0));
    CHECK(u.prefix[0] != 0 && !strpbrk(u.prefix, "{}"));
    CHECK(u.timeout_ms > 0 && u.db >= 0);
}

// A table of slots, a redirection, or a primary that a Sentinel names.
static void places(const uint8_t *data, size_t len, const char *text)
{
    struct redis_client c;
    struct redis_url u;
    char why[STORE_WHY_MAX] = "";
    CHECK(redis_url_parse("redis+cluster://seed", &u, why, sizeof why) == ERR_OK);
    CHECK(redis_client_init(&c, &u, why, sizeof why) == ERR_OK);
    struct redis_server from = {.at = {"here", "1"}};
    bool asking = false;
    (void)redis_cluster_follow(&c, &from, text, &asking);
    struct resp_reader *r = resp_reader_new();
    struct resp *reply;
    resp_reader_feed(r, bytes_of(data, len));
    while (resp_reader_next(r, &reply) == RESP_ONE) {
        struct redis_place at;
        int64_t epoch;
        redis_cluster_take(&c, reply, "asked");
        if (redis_sentinel_read(reply, &at, &epoch)) CHECK(at.host[0] && at.port[0] && epoch >= 0);
        resp_free(reply);
    }
    CHECK(c.servers_len <= REDIS_SERVERS_MAX);
    for (size_t i = 0; i < REDIS_SLOTS; i++)
        CHECK(c.slots[i] == UINT16_MAX || c.slots[i] < c.servers_len);
    resp_reader_free(r);
    redis_client_done(&c, true);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len == 0 || len > TEXT_MAX) return 0;
    char *text = calloc(1, len);
    CHECK(text != NULL);
    memcpy(text, data + 1, len - 1);
    switch (data[0] % 8) {
    case 0:
        url(text);
        break;
    case 1:
        (void)redis_classify(text, true);
        break;
    case 2:
        CHECK(redis_info_number(bytes_of(text, len - 1), "used_memory") >= -1);
        break;
    case 4:
        places(data + 1, len - 1, text);
        break;
    default:
        answers(data + 1, len - 1);
    }
    free(text);
    return 0;
}
