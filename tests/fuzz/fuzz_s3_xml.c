// SPDX-License-Identifier: Apache-2.0
// Any bytes as each of the documents S3 sends. The first byte picks one.
#include "base/check.h"
#include "fuzz.h"
#include "store/s3/xml.h"

#include <string.h>

static void listing(struct bytes input)
{
    struct s3_listing l;
    s3_listing_init(&l);
    bool good = s3_xml_listing(input, &l);
    CHECK(good || l.rows_len == 0);
    CHECK(l.rows_len <= S3_ROWS_MAX);
    for (size_t i = 0; i < l.rows_len; i++)
        CHECK(l.rows[i].key_at + strlen(s3_listed_key(&l, i)) < l.keys.len);
    s3_listing_done(&l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len == 0) return 0;
    struct bytes input = bytes_of(data + 1, len - 1);
    struct s3_error error;
    size_t errors;
    bool on;
    switch (data[0] % 4) {
    case 0:
        listing(input);
        break;
    case 1:
        if (!s3_xml_error(input, &error)) CHECK(error.code[0] == 0);
        break;
    case 2:
        (void)s3_xml_deleted(input, &error, &errors);
        break;
    default:
        (void)s3_xml_versioning(input, &on);
    }
    return 0;
}
