// SPDX-License-Identifier: Apache-2.0
// Text that comes from a server or a setting: a header to look something up in, base64, a URL. What
// is found lies inside the input, and what was read from base64 writes back to the same text.
#include "base/authority.h"
#include "base/base64.h"
#include "base/check.h"
#include "base/memory.h"
#include "fuzz.h"
#include "net/http_text.h"

#include <string.h>

static void look_up(struct bytes head)
{
    static const char *const names[] = {"date", "Content-Length", "x", ""};
    struct http_call c;
    http_call_init(&c, "GET", "");
    buf_put(&c.head, head);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct bytes value = http_header(&c, names[i]);
        if (value.len == 0) continue;
        CHECK(value.data >= c.head.data);
        CHECK(value.data + value.len <= c.head.data + c.head.len);
        CHECK(!memchr(value.data, '\n', value.len));
    }
    http_reserve(&c);
    CHECK(c.body_in.len == 0);
    CHECK(c.body_in.cap <= HTTP_BODY_MAX);
    (void)http_is_blank_line(head);
    (void)http_is_status_line(head);
    http_call_done(&c);
}

static void there_and_back(struct bytes text)
{
    CLEANUP(buf_done) struct buf plain;
    CLEANUP(buf_done) struct buf again;
    buf_init(&plain, text.len);
    buf_init(&again, text.len + 4);
    if (!base64_read(text, &plain)) return;
    base64_put(&again, buf_bytes(&plain));
    CHECK(bytes_equal(buf_bytes(&again), text));
}

static void find_place(struct bytes text)
{
    char *url = memory_new(text.len + 1);
    if (text.len > 0) memcpy(url, text.data, text.len);
    url[text.len] = 0;
    char place[HTTP_PLACE_MAX];
    http_place(url, place);
    CHECK(strlen(place) < HTTP_PLACE_MAX);
    struct http_host host;
    struct authority at;
    if (authority_split(authority_of(url), &at)) CHECK(at.host.len + at.port.len <= strlen(url));
    if (http_host_of(url, &host)) CHECK(*host.host && *host.port && *http_path(url) == '/');
    memory_free(url);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len > HTTP_HEADERS_MAX) return 0;
    look_up(bytes_of(data, len));
    there_and_back(bytes_of(data, len));
    find_place(bytes_of(data, len));
    return 0;
}
