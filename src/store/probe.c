// SPDX-License-Identifier: Apache-2.0
// The probe of a new store, and the format object that records its success.
#include "store/probe.h"

#include "base/check.h"
#include "base/hash.h"
#include "os/clock.h"
#include "os/entropy.h"
#include "os/futex.h"
#include "os/thread.h"
#include "store/backend.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define PROBE_WRITERS 16
#define PROBE_ROUNDS  8
#define PROBE_TRIES   20    // of one call that answers unavailable or unknown
#define PROBE_WAIT_MS 50    // before the next try; grows
#define PROBE_END_MS  30000 // after the first try; no try starts later
#define START_WAIT_MS 60000

enum start { START_NOT, START_NOW, START_NEVER };

struct probe {
    struct store *store;
    char key[40];
    _Atomic uint32_t start; // enum start, a futex
};

struct writer {
    struct probe *probe;
    struct thread thread;
    uint8_t body[24]; // random: identifies the writer of an object
    enum err end;     // ERR_OK, ERR_CONFLICT, or the error that prevented both
    bool unsure;      // an attempt ended unknown: a conflict may be with itself
    char why[STORE_WHY_MAX];
};

static void probe_pause(int tries)
{
    clock_sleep((int64_t)PROBE_WAIT_MS * (tries + 1));
}

static bool worth_again(enum err e)
{
    return e == ERR_UNAVAILABLE || e == ERR_UNKNOWN;
}

static enum err create(struct store *s, const char *key, struct bytes body, bool *unsure,
                       struct store_answer *a)
{
    int64_t end = clock_boot_ms() + store_patience_ms(s, PROBE_END_MS);
    enum err e = store_put_new(s, key, body, a);
    for (int i = 0; worth_again(e) && i < PROBE_TRIES && clock_boot_ms() < end; i++) {
        *unsure |= e == ERR_UNKNOWN;
        probe_pause(i);
        e = store_put_new(s, key, body, a);
    }
    return e;
}

static enum err fetch(struct store *s, const char *key, struct store_answer *a)
{
    int64_t end = clock_boot_ms() + store_patience_ms(s, PROBE_END_MS);
    enum err e = store_get(s, key, 0, SIZE_MAX, a);
    for (int i = 0; worth_again(e) && i < PROBE_TRIES && clock_boot_ms() < end; i++) {
        probe_pause(i);
        e = store_get(s, key, 0, SIZE_MAX, a);
    }
    return e;
}

static void *writer_run(void *arg)
{
    struct writer *w = arg;
    uint32_t start;
    while ((start = atomic_load(&w->probe->start)) == START_NOT)
        futex_wait(&w->probe->start, START_NOT, START_WAIT_MS);
    if (start == START_NEVER) return NULL;
    LOCAL(store_answer, a);
    w->end =
        create(w->probe->store, w->probe->key, bytes_of(w->body, sizeof w->body), &w->unsure, &a);
    memcpy(w->why, a.why, sizeof w->why);
    return NULL;
}

// All writers start at once, each on its own thread. Only a real race reveals a store that checks
// before it writes.
static enum err race(struct probe *p, struct writer writers[PROBE_WRITERS], struct store_answer *a)
{
    enum err err = ERR_OK;
    for (size_t i = 0; i < PROBE_WRITERS; i++) {
        writers[i] = (struct writer){.probe = p};
        entropy_fill(writers[i].body, sizeof writers[i].body);
        if (!err) err = thread_start(&writers[i].thread, writer_run, &writers[i]);
    }
    atomic_store(&p->start, err ? START_NEVER : START_NOW);
    futex_wake_all(&p->start);
    for (size_t i = 0; i < PROBE_WRITERS; i++)
        thread_join(&writers[i].thread);
    if (!err) return ERR_OK;
    return answer_refuse(a, ERR_UNAVAILABLE, "cannot probe the store: %s", THREAD_REFUSED);
}

// Finds the winner by the stored bytes. The answers must agree with them.
static enum err find_winner(const struct probe *p, const struct writer writers[PROBE_WRITERS],
                            const struct writer **winner, struct store_answer *a)
{
    size_t winners = 0;
    *winner = NULL;
    for (size_t i = 0; i < PROBE_WRITERS; i++) {
        if (writers[i].end == ERR_OK) winners++;
        if (writers[i].end != ERR_OK && writers[i].end != ERR_CONFLICT)
            return answer_refuse(a, writers[i].end, "cannot probe the store: %.200s",
                                 writers[i].why);
    }
    if (winners > 1)
        return answer_refuse(a, ERR_INVALID,
                             "%zu writers created the same key: this store "
                             "ignores the condition of a create and cannot be used",
                             winners);
    enum err e = fetch(p->store, p->key, a);
    if (e == ERR_NOT_FOUND)
        return answer_refuse(a, ERR_INVALID,
                             "a key that was just created is not found: this store serves stale "
                             "reads and cannot be used");
    if (e) return e;
    for (size_t i = 0; i < PROBE_WRITERS; i++)
        if (bytes_equal(buf_bytes(&a->body), bytes_of(writers[i].body, sizeof writers[i].body)))
            *winner = &writers[i];
    if (*winner && ((*winner)->end == ERR_OK || (winners == 0 && (*winner)->unsure))) return ERR_OK;
    return answer_refuse(a, ERR_INVALID,
                         "the stored object is not that of the writer that won: this "
                         "store cannot be used");
}

static enum err probe_round(struct probe *p, struct store_answer *a)
{
    struct writer writers[PROBE_WRITERS];
    const struct writer *winner = NULL;
    enum err e = race(p, writers, a);
    if (!e) e = find_winner(p, writers, &winner, a);
    if (e) return e;
    static const uint8_t other[] = "a create that comes too late";
    bool unsure = false;
    e = create(p->store, p->key, bytes_of(other, sizeof other), &unsure, a);
    if (e == ERR_OK)
        return answer_refuse(a, ERR_INVALID,
                             "a key that exists was created again: this store ignores the "
                             "condition of a create and cannot be used");
    if (e != ERR_CONFLICT) return e;
    e = fetch(p->store, p->key, a);
    bool same = bytes_equal(buf_bytes(&a->body), bytes_of(winner->body, sizeof winner->body));
    if (e == ERR_OK && same) return ERR_OK;
    if (e != ERR_OK && e != ERR_NOT_FOUND) return e;
    return answer_refuse(a, ERR_INVALID,
                         "a create that was refused changed the object, or a stale one was read: "
                         "this store cannot be used");
}

static enum err probe_rounds(struct store *s, struct store_answer *a)
{
    LOCAL(store_answer, cleanup);
    enum err e = ERR_OK;
    for (int i = 0; i < PROBE_ROUNDS && !e; i++) {
        struct probe p = {.store = s};
        (void)snprintf(p.key, sizeof p.key, "probe-%016llx", (unsigned long long)entropy_u64());
        e = probe_round(&p, a);
        enum err left = store_delete(s, (const char *const[]){p.key}, 1, &cleanup);
        for (int k = 0; worth_again(left) && k < PROBE_TRIES; k++)
            left = store_delete(s, (const char *const[]){p.key}, 1, &cleanup);
    }
    return e;
}

enum err store_probe(struct store *s, char *why, size_t why_len)
{
    LOCAL(store_answer, a);
    enum err e = probe_rounds(s, &a);
    (void)snprintf(why, why_len, "%s", a.why);
    return e;
}

enum err store_probe_quickly(struct store *s, char *why, size_t why_len)
{
    LOCAL(store_answer, a);
    char key[40];
    bool unsure = false;
    (void)snprintf(key, sizeof key, "probe-%016llx", (unsigned long long)entropy_u64());
    enum err e = create(s, key, bytes_str("once"), &unsure, &a);
    if (e == ERR_CONFLICT && unsure) e = ERR_OK;
    if (!e) e = create(s, key, bytes_str("twice"), &unsure, &a);
    if (e == ERR_OK) {
        e = answer_refuse(&a, ERR_INVALID,
                          "a key that exists was created again: this store ignores the condition "
                          "of a create and cannot be used");
    } else if (e == ERR_CONFLICT) {
        e = ERR_OK;
    }
    (void)snprintf(why, why_len, "%s", e ? a.why : "");
    enum err left = store_delete(s, (const char *const[]){key}, 1, &a);
    (void)left; // the object does no harm
    return e;
}

static const char format_magic[8] = {'S', 'L', 'U', 'I', 'C', 'E', '0', '1'};
// Of programs before the first release. Nothing else of their stores can be read.
static const char early_magic[8] = {'S', 'L', 'U', 'I', 'C', 'E', 'F', 'T'};

static void format_put(struct buf *to, const struct store_format *f)
{
    buf_put(to, bytes_of(format_magic, sizeof format_magic));
    buf_put_u32(to, f->version);
    buf_put(to, bytes_of(f->id, sizeof f->id));
    buf_put_i64(to, f->created_ms);
    buf_put_u64(to, hash64_of(buf_bytes(to), 0));
    CHECK(to->len == FORMAT_LEN);
}

enum err store_format_read(struct bytes from, struct store_format *f, struct store_answer *a)
{
    struct reader r = reader_of(from);
    struct bytes magic = read_bytes(&r, sizeof format_magic);
    f->version = read_u32(&r);
    if (bytes_equal(magic, bytes_of(early_magic, sizeof early_magic)))
        return answer_refuse(a, ERR_INVALID,
                             "this store was written by a program before the first release; empty "
                             "its queues with that program, or write their messages to a file for "
                             "\"sluice import\", and begin with an empty store");
    if (!reader_ok(&r) || !bytes_equal(magic, bytes_of(format_magic, sizeof format_magic)))
        return answer_refuse(a, ERR_CORRUPT,
                             "the object \"" FORMAT_KEY "\" is damaged, or is not from Sluice");
    if (f->version != FORMAT_VERSION)
        return answer_refuse(a, ERR_INVALID,
                             "this store has format %u and this program knows %d: upgrade needed",
                             f->version, FORMAT_VERSION);
    struct bytes id = read_bytes(&r, STORE_ID_LEN);
    f->created_ms = read_i64(&r);
    uint64_t check = read_u64(&r);
    if (!reader_end(&r) || check != hash64_of(bytes_of(from.data, FORMAT_LEN - 8), 0))
        return answer_refuse(a, ERR_CORRUPT, "the object \"" FORMAT_KEY "\" is damaged");
    memcpy(f->id, id.data, STORE_ID_LEN);
    return ERR_OK;
}

static enum err format_create(struct store *s, struct store_format *f, struct store_answer *a)
{
    enum err e = probe_rounds(s, a);
    if (e) return e;
    *f = (struct store_format){.version = FORMAT_VERSION, .created_ms = a->time.lo};
    entropy_fill(f->id, sizeof f->id);
    LOCAL(buf, body, FORMAT_LEN);
    format_put(&body, f);
    bool unsure = false;
    e = create(s, FORMAT_KEY, buf_bytes(&body), &unsure, a);
    if (e != ERR_CONFLICT) return e;
    e = fetch(s, FORMAT_KEY, a); // another process was first, or our attempt landed late
    return e ? e : store_format_read(buf_bytes(&a->body), f, a);
}

enum err store_check(struct store *s, struct store_format *format, char *why, size_t why_len)
{
    LOCAL(store_answer, a);
    enum err e = fetch(s, FORMAT_KEY, &a);
    if (e == ERR_OK)
        e = store_format_read(buf_bytes(&a.body), format, &a);
    else if (e == ERR_NOT_FOUND)
        e = format_create(s, format, &a);
    (void)snprintf(why, why_len, "%s", a.why);
    return e;
}
