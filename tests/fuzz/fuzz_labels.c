// SPDX-License-Identifier: Apache-2.0
// Any bytes as labels: they are refused with a place in them, or have one canonical text, which
// reads as itself, is sorted, and matches itself and each of its labels.
#include "base/check.h"
#include "fuzz.h"
#include "queue/codec/labels.h"

static void check_canonical(struct bytes text)
{
    struct bytes rest = text, key, value, before = BYTES_EMPTY;
    size_t count = 0;
    while (labels_next(&rest, &key, &value)) {
        CHECK(key.len > 0 && key.len <= LABEL_KEY_MAX);
        CHECK(value.len > 0 && value.len <= LABEL_VALUE_MAX);
        CHECK(bytes_compare(before, key) < 0);
        CHECK(labels_match(text, bytes_of(key.data, key.len + 1 + value.len)));
        before = key;
        count++;
    }
    CHECK(count <= LABELS_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct labels first, again;
    struct labels_error error = {0};
    struct bytes text = bytes_of(data, len);
    if (labels_parse(text, &first, &error) != ERR_OK) {
        CHECK(error.at <= len && error.text && first.len == 0);
        CHECK(!labels_are_canonical(text));
        return 0;
    }
    struct bytes canonical = bytes_of(first.text, first.len);
    CHECK(first.len == len && first.text[first.len] == '\0'); // the same labels in another order
    CHECK(labels_parse(canonical, &again, NULL) == ERR_OK);
    CHECK(bytes_equal(canonical, bytes_of(again.text, again.len)));
    CHECK(labels_are_canonical(canonical) == (len > 0));
    CHECK(labels_match(canonical, canonical) && labels_match(canonical, BYTES_EMPTY));
    check_canonical(canonical);
    return 0;
}
