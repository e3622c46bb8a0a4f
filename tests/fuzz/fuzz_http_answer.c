// SPDX-License-Identifier: Apache-2.0
// Answers of an HTTP server. The reader takes the same from the bytes at once and in two pieces.
// Input: a byte that says where the first piece ends and which method was asked, then the answer.
#include "net/http_answer.h"

#include "base/check.h"
#include "fuzz.h"
#include "net/http_text.h"

#define BODY_MAX 4096

struct reading {
    struct http_call call;
    struct http_answer answer;
    enum http_took took;
    size_t left; // bytes behind the answer
};

static void begin(struct reading *r, const char *method)
{
    http_call_init(&r->call, method, "");
    r->call.body_max = BODY_MAX;
    http_call_clear(&r->call);
}

static void take(struct reading *r, struct bytes in)
{
    while (in.len > 0 && r->took <= HTTP_TOOK_HEAD)
        r->took = http_answer_take(&r->answer, &r->call, &in);
    r->left += in.len;
    CHECK(r->call.body_in.len <= BODY_MAX);
    CHECK(r->call.head.len <= HTTP_HEADERS_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len < 1) return 0;
    struct bytes in = bytes_of(data + 1, len - 1);
    const char *method = data[0] & 1 ? "HEAD" : "GET";
    size_t first = in.len * (data[0] >> 1) / 128;
    struct reading whole = {0}, parts = {0};
    begin(&whole, method);
    begin(&parts, method);
    take(&whole, in);
    take(&parts, bytes_of(in.data, first));
    take(&parts, bytes_of(in.data + first, in.len - first));
    CHECK(whole.took == parts.took ||
          (whole.took <= HTTP_TOOK_HEAD && parts.took <= HTTP_TOOK_HEAD));
    CHECK(whole.call.status == parts.call.status);
    if (whole.took <= HTTP_TOOK_WHOLE) {
        CHECK(whole.left == parts.left);
        CHECK(bytes_equal(buf_bytes(&whole.call.head), buf_bytes(&parts.call.head)));
        CHECK(bytes_equal(buf_bytes(&whole.call.body_in), buf_bytes(&parts.call.body_in)));
        CHECK(http_answer_end(&whole.answer) == http_answer_end(&parts.answer));
    }
    http_call_done(&whole.call);
    http_call_done(&parts.call);
    return 0;
}
