// SPDX-License-Identifier: Apache-2.0
// Each name has one spelling: a parsed name prints the same.
#include "queue/codec/body_name.h"

#include "base/check.h"

#include <inttypes.h>
#include <stdio.h>

void body_name_print(const struct body_name *name, char out[BODY_NAME_LEN + 1])
{
    CHECK(name->uploaded_at >= 0);
    int len =
        snprintf(out, BODY_NAME_LEN + 1,
                 "%020" PRId64 "-%016" PRIx64 "%016" PRIx64 "-%016" PRIx64 "%016" PRIx64,
                 name->uploaded_at, name->random[0], name->random[1], name->hash.hi, name->hash.lo);
    CHECK(len == BODY_NAME_LEN);
}

static bool read_time(const uint8_t *at, int64_t *out)
{
    int64_t value = 0;
    for (int i = 0; i < 20; i++) {
        if (at[i] < '0' || at[i] > '9') return false;
        int digit = at[i] - '0';
        if (value > (INT64_MAX - digit) / 10) return false;
        value = value * 10 + digit;
    }
    CHECK(value >= 0);
    *out = value;
    return true;
}

static bool read_hex(const uint8_t *at, uint64_t *out)
{
    uint64_t value = 0;
    for (int i = 0; i < 16; i++) {
        bool digit = at[i] >= '0' && at[i] <= '9', letter = at[i] >= 'a' && at[i] <= 'f';
        if (!digit && !letter) return false;
        value = value << 4 | (uint64_t)(digit ? at[i] - '0' : at[i] - 'a' + 10);
    }
    *out = value;
    return true;
}

bool body_name_parse(struct bytes text, struct body_name *out)
{
    *out = (struct body_name){0};
    if (text.len != BODY_NAME_LEN || text.data[20] != '-' || text.data[53] != '-') return false;
    return read_time(text.data, &out->uploaded_at) && read_hex(text.data + 21, &out->random[0]) &&
           read_hex(text.data + 37, &out->random[1]) && read_hex(text.data + 54, &out->hash.hi) &&
           read_hex(text.data + 70, &out->hash.lo);
}
