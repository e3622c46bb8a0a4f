// SPDX-License-Identifier: Apache-2.0
// Ids and tokens as text. Both begin with the first eight digits of the queue's id. So an id of
// another queue, or of an earlier life of this one, is refused without a request to the store.
//
//     message id   3f9a01cc-0-17                      queue, shard, number
//     lock token   3f9a01cc-0-17-6c1f...(32 digits)   and the lock's 128 random bits
#include "protocol/names.h"

#include "base/digits.h"
#include "base/hash.h"
#include "protocol/errors.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static uint32_t mark_of(const struct queue_ref *q)
{
    const uint8_t *b = q->id.bytes;
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

void id_print(struct queue_ref q, uint32_t shard, uint64_t seq, char out[SLUICE_ID_MAX])
{
    static_assert(MESSAGE_ID_MAX <= SLUICE_ID_MAX, "an id has room in what callers hold");
    message_id_print(&q.id, shard, seq, out);
}

void token_print(struct queue_ref q, const struct lock_name *lock, char out[SLUICE_TOKEN_MAX])
{
    static_assert(SLUICE_TOKEN_MAX >= SLUICE_ID_MAX, "a token begins with an id");
    static_assert(SLUICE_TOKEN_MAX >= 2 * 4 + 2 * DIGITS_MAX + 2 + 33 + 1, "the longest has room");
    id_print(q, lock->shard, lock->ref.seq, out);
    char *at = out + strlen(out);
    *at++ = '-';
    at = digits_put_hex64(at, lock->ref.token.hi);
    *digits_put_hex64(at, lock->ref.token.lo) = '\0';
}

// Reads digits of the base up to `stop`. False: there are none, too many, or another character.
static bool read_number(const char **at, unsigned base, size_t digits_max, char stop, uint64_t *out)
{
    uint64_t n = 0;
    size_t count = 0;
    for (; **at != stop; (*at)++, count++) {
        char c = **at;
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10)
                                                : base;
        if (digit >= base || count == digits_max) return false;
        // The first 16 digits always have room, and a division takes long.
        if (count >= 16 && n > (UINT64_MAX - digit) / base) return false;
        n = n * base + digit;
    }
    if (**at) (*at)++;
    *out = n;
    return count > 0;
}

static enum sluice_code check_queue(struct queue_ref q, const char *what, const char *text,
                                    uint64_t mark, uint64_t shard, struct sluice_error *error)
{
    if (mark != mark_of(&q)) {
        enum sluice_code code =
            refuse(error, ERR_NOT_FOUND, what,
                   "%s %s belongs to another queue than %s, or to a former one of that name", what,
                   text, q.name);
        if (error) (void)snprintf(error->reason, sizeof error->reason, "foreign-queue");
        return code;
    }
    if (shard >= q.shards)
        return refuse(error, ERR_NOT_FOUND, what, "%s %s names shard %" PRIu64 "; %s has %" PRIu32,
                      what, text, shard, q.name, q.shards);
    return SLUICE_OK;
}

enum sluice_code id_parse(struct queue_ref q, const char *text, uint32_t *shard, uint64_t *seq,
                          struct sluice_error *error)
{
    const char *at = text;
    uint64_t mark, number_of_shard;
    bool good = read_number(&at, 16, 8, '-', &mark) &&
                read_number(&at, 10, 10, '-', &number_of_shard) &&
                read_number(&at, 10, 20, 0, seq) && *seq > 0;
    if (!good)
        return refuse(error, ERR_INVALID, "id",
                      "\"%.100s\" is not a message id; one looks like 3f9a01cc-0-17", text);
    enum sluice_code code = check_queue(q, "id", text, mark, number_of_shard, error);
    *shard = (uint32_t)number_of_shard;
    return code;
}

enum sluice_code token_parse(struct queue_ref q, const char *text, struct lock_name *out,
                             struct sluice_error *error)
{
    const char *at = text;
    uint64_t mark, shard;
    char high[17] = "";
    const char *half = high;
    *out = (struct lock_name){0};
    bool good = read_number(&at, 16, 8, '-', &mark) && read_number(&at, 10, 10, '-', &shard) &&
                read_number(&at, 10, 20, '-', &out->ref.seq) && strlen(at) == 32;
    if (good) memcpy(high, at, 16);
    const char *low = good ? at + 16 : "";
    good = good && read_number(&half, 16, 16, 0, &out->ref.token.hi) &&
           read_number(&low, 16, 16, 0, &out->ref.token.lo);
    if (!good)
        return refuse(error, ERR_INVALID, "token",
                      "\"%.100s\" is not a lock token; each received message has one", text);
    enum sluice_code code = check_queue(q, "token", text, mark, shard, error);
    out->shard = (uint32_t)shard;
    return code;
}

struct request_id request_part(const uint8_t whole[16], uint64_t number)
{
    struct request_id id;
    struct bytes bytes = bytes_of(whole, sizeof id.bytes);
    struct hash128 h = {hash64_of(bytes, number), hash64_of(bytes, ~number)};
    static_assert(sizeof h == sizeof id.bytes, "a hash makes a request id");
    memcpy(id.bytes, number == 0 ? (const void *)whole : &h, sizeof id.bytes);
    return id;
}
