// SPDX-License-Identifier: Apache-2.0
// Any bytes as the position of a consumer: they are refused with a reason, or print to a text that
// reads and prints as itself. Bytes after a zero byte are messages of the stream.
#include "base/check.h"
#include "base/digits.h"
#include "base/hash.h"
#include "events/consumer.h"
#include "fuzz.h"

#include <stdio.h>
#include <string.h>

// Most inputs would fail at the checksum, so it is added to each.
static void with_checksum(struct bytes text, struct buf *to)
{
    char line[32];
    buf_put(to, text);
    char *at = line + snprintf(line, sizeof line, "check ");
    at = digits_put_hex64(at, hash64_of(text, 0));
    *at++ = '\n';
    buf_put(to, bytes_of(line, (size_t)(at - line)));
}

static void feed(struct consumer *c, struct bytes text)
{
    struct consumer_result out;
    consumer_take(c, consumer_resume(c), text, 0);
    for (int64_t now = 0; now <= 20000; now += 10000)
        while (consumer_next(c, now, &out))
            CHECK(out.kind != CONSUMER_REFUSED || out.why[0]);
    CHECK(consumer_counts(c).held == 0);
}

static void check_again(struct consumer *c, const struct consumer_config *config,
                        const struct schema_set *set)
{
    char why[ENVELOPE_WHY_MAX];
    struct buf first, second;
    struct consumer *other = consumer_new(config, set);
    buf_init(&first, CONSUMER_POSITION_MAX);
    buf_init(&second, CONSUMER_POSITION_MAX);
    consumer_position_put(c, &first);
    CHECK(consumer_position_take(other, buf_bytes(&first), why) == ERR_OK);
    consumer_position_put(other, &second);
    CHECK(bytes_equal(buf_bytes(&first), buf_bytes(&second)));
    consumer_free(other);
    buf_done(&first);
    buf_done(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char why[ENVELOPE_WHY_MAX] = "";
    struct consumer_config config = {.ids_max = 4, .shards_max = 100000};
    const uint8_t *zero = len > 0 ? memchr(data, 0, len) : NULL;
    size_t first = zero ? (size_t)(zero - data) : len;
    struct schema_set *set = schema_set_new();
    struct consumer *c = consumer_new(&config, set);
    struct buf text;
    buf_init(&text, SIZE_MAX);
    with_checksum(bytes_of(data, first), &text);
    if (consumer_position_take(c, buf_bytes(&text), why) == ERR_OK)
        check_again(c, &config, set);
    else
        CHECK(why[0]);
    if (zero) feed(c, bytes_of(zero + 1, len - first - 1));
    check_again(c, &config, set);
    consumer_free(c);
    schema_set_free(set);
    buf_done(&text);
    return 0;
}
