// SPDX-License-Identifier: Apache-2.0
// Any bytes as a schema: they are refused with a reason, or the schema equals itself and can be
// compared with a second one and with the text as a value. A zero byte separates the two schemas.
#include "base/check.h"
#include "events/schema.h"
#include "fuzz.h"
#include "json/json.h"

#include <string.h>

static void compare_two(const struct schema *a, struct bytes text)
{
    char why[SCHEMA_WHY_MAX];
    struct schema *b = NULL;
    if (schema_parse(text, &b, why) != ERR_OK) return;
    enum schema_change there = schema_compare(a, b, NULL, NULL);
    enum schema_change back = schema_compare(b, a, NULL, NULL);
    CHECK(there <= SCHEMA_BREAKING && back <= SCHEMA_BREAKING);
    CHECK(there != SCHEMA_ADDITIVE || back == SCHEMA_BREAKING); // what was added would be gone
    schema_free(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char why[SCHEMA_WHY_MAX] = "";
    struct schema *s = NULL;
    const uint8_t *zero = len > 0 ? memchr(data, 0, len) : NULL;
    size_t first = zero ? (size_t)(zero - data) : len;
    if (schema_parse(bytes_of(data, first), &s, why) != ERR_OK) {
        CHECK(!s && why[0] && strlen(why) < SCHEMA_WHY_MAX);
        return 0;
    }
    CHECK(schema_compare(s, s, NULL, NULL) == SCHEMA_SAME);
    struct json *value = json_parse((const char *)data, first, why, sizeof why);
    CHECK(value);
    (void)schema_holds(s, value, why);
    json_free(value);
    if (zero) compare_two(s, bytes_of(zero + 1, len - first - 1));
    schema_free(s);
    return 0;
}
