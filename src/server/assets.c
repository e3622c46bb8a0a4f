// SPDX-License-Identifier: Apache-2.0
// The dashboard: files inside the program. They hold no secret, so every client that reaches the
// node may read them. The data that they show needs a token.
#include "server/assets.h"

#include "server/inside.h"

#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

// The page loads only our own files, no text becomes markup by accident, and no other page may
// frame it: the dashboard has buttons that delete messages.
#define POLICY                                                                                     \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src "        \
    "'self'; "                                                                                     \
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "                                \
    "require-trusted-types-for 'script'; trusted-types 'none'"

static bool takes_gzip(const char *accept)
{
    const char *at = accept ? strstr(accept, "gzip") : NULL;
    return at && strncmp(at + strlen("gzip"), ";q=0", 4) != 0;
}

static void answer_asset(struct exchange *x, const struct asset *file)
{
    bool packed = takes_gzip(httpd_header(x->http, "Accept-Encoding"));
    const char *tag = packed ? file->packed_tag : file->tag;
    const char *known = httpd_header(x->http, "If-None-Match");
    bool same = known && strstr(known, tag);
    // no-cache: the browser asks each time and seldom gets a body. So a replaced node shows its own
    // dashboard at once.
    struct httpd_pair headers[] = {
        {"ETag", tag},
        {"Cache-Control", "no-cache"},
        {"Vary", "Accept-Encoding"},
        {"Content-Security-Policy", POLICY},
        {"Referrer-Policy", "no-referrer"},
        {"Cross-Origin-Opener-Policy", "same-origin"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
        {"Content-Encoding", "gzip"}, // must be last: it is omitted for the plain file
    };
    struct httpd_answer a = {.status = same ? 304 : 200,
                             .type = file->type,
                             .headers = headers,
                             .headers_len = COUNT_OF(headers) - (packed && !same ? 0 : 1)};
    struct buf body;
    buf_init(&body, SIZE_MAX);
    if (!same) buf_put(&body, packed ? file->packed : file->plain);
    answer_with(x, &a, &body);
}

static void answer_named(struct exchange *x, const char *name)
{
    for (size_t i = 0; i < assets_len; i++) {
        if (strcmp(assets[i].name, name) != 0) continue;
        answer_asset(x, &assets[i]);
        return;
    }
    (void)refuse_request(x, SLUICE_NOT_FOUND, "unknown-path", "path", "there is no file %.60s",
                         name);
}

void handle_dashboard(struct exchange *x)
{
    answer_named(x, "index.html");
}

void handle_asset(struct exchange *x)
{
    answer_named(x, x->target.file);
}

void handle_openapi(struct exchange *x)
{
    answer_named(x, "openapi.json");
}
