// SPDX-License-Identifier: Apache-2.0
// A hash table of clients. Only a request for a place while all are taken scans the whole table.
#include "server/clients.h"

#include "base/check.h"
#include "base/memory.h"

static struct client **bucket_of(struct clients *c, uint64_t key)
{
    return &c->buckets[key % CLIENTS_BUCKETS];
}

// Creates it if there is none.
static struct client *client_of(struct clients *c, uint64_t key)
{
    struct client **bucket = bucket_of(c, key), *one = *bucket;
    while (one && one->key != key)
        one = one->next;
    if (one) return one;
    one = NEW(struct client);
    one->key = key;
    one->next = *bucket;
    *bucket = one;
    return one;
}

static void client_forget(struct clients *c, struct client *one)
{
    if (one->len > 0) return;
    struct client **at = bucket_of(c, one->key);
    while (*at != one)
        at = &(*at)->next;
    *at = one->next;
    memory_free(one);
}

static struct client *largest(const struct clients *c)
{
    struct client *most = NULL;
    for (size_t i = 0; i < CLIENTS_BUCKETS; i++)
        for (struct client *one = c->buckets[i]; one; one = one->next)
            if (!most || one->len > most->len) most = one;
    return most;
}

static void add(struct clients *c, struct client *one, struct share *p)
{
    *p = (struct share){.client = one};
    list_add(&one->places, &p->link);
    one->len++;
    c->len++;
}

bool share_take(struct clients *c, struct share *p, uint64_t key, struct share **lost)
{
    struct client *one = client_of(c, key);
    *lost = NULL;
    CHECK(!p->client);
    if (c->len >= c->max) {
        struct client *most = largest(c);
        if (one->len + 1 >= most->len) { // the two clients would only swap their numbers
            client_forget(c, one);
            return false;
        }
        *lost = LIST_ROW(most->places.last, struct share, link);
        share_give(c, *lost);
    }
    add(c, one, p);
    return true;
}

void share_give(struct clients *c, struct share *p)
{
    struct client *one = p->client;
    if (!one) return;
    list_remove(&one->places, &p->link);
    p->client = NULL;
    one->len--;
    c->len--;
    client_forget(c, one);
}
