// SPDX-License-Identifier: Apache-2.0
// A signature is built from three texts: the canonical request, the string to sign (its hash with
// time and scope), and the header.
#include "store/s3/auth/sigv4.h"

#include "base/check.h"
#include "base/memory.h"
#include "net/digest.h"

#include <string.h>
#include <strings.h>
#include <time.h>

#define TEXT_MAX    ((size_t)1 << 20)
#define HEX_LEN     (2 * SHA256_LEN + 1)
#define OWN_HEADERS 4 // headers that the signer adds
#define DAY_LEN     8 // length of the date: 20130524
#define ALGORITHM   "AWS4-HMAC-SHA256"

static void put(struct buf *b, const char *text)
{
    buf_put(b, bytes_str(text));
}

static void put_end(struct buf *b)
{
    buf_put_u8(b, 0);
    CHECK(!b->bad);
    b->len--;
}

static void put_hex(struct buf *b, const uint8_t hash[SHA256_LEN])
{
    char hex[HEX_LEN];
    hex_print(bytes_of(hash, SHA256_LEN), hex);
    put(b, hex);
}

static bool is_unreserved(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

// Writes one character as in a URL and returns the length.
static size_t encode(char c, char out[3])
{
    static const char digits[] = "0123456789ABCDEF";
    out[0] = c;
    if (is_unreserved(c)) return 1;
    out[0] = '%';
    out[1] = digits[(uint8_t)c >> 4];
    out[2] = digits[(uint8_t)c & 15];
    return 3;
}

static void put_encoded(struct buf *b, const char *text, bool keep_slash)
{
    for (; *text; text++) {
        char out[3] = {'/'};
        size_t len = keep_slash && *text == '/' ? 1 : encode(*text, out);
        buf_put(b, bytes_of(out, len));
    }
}

// Orders by the encoded text, which differs from the order of the bytes: '{' comes after the
// letters, but "%7B" before.
static int compare_encoded(const char *a, const char *b)
{
    while (*a && *a == *b)
        a++, b++;
    char left[3] = {0};
    char right[3] = {0};
    size_t left_len = *a ? encode(*a, left) : 0;
    size_t right_len = *b ? encode(*b, right) : 0;
    return bytes_compare(bytes_of(left, left_len), bytes_of(right, right_len));
}

static int compare_query(const struct sigv4_pair *a, const struct sigv4_pair *b)
{
    int order = compare_encoded(a->name, b->name);
    return order != 0 ? order : compare_encoded(a->value, b->value);
}

static int compare_header(const struct sigv4_pair *a, const struct sigv4_pair *b)
{
    return strcasecmp(a->name, b->name);
}

// Insertion sort: the list is short, mostly sorted, and equal names must keep their order.
static void sort(struct sigv4_pair *pairs, size_t len,
                 int (*compare)(const struct sigv4_pair *, const struct sigv4_pair *))
{
    for (size_t i = 1; i < len; i++) {
        struct sigv4_pair moving = pairs[i];
        size_t at = i;
        for (; at > 0 && compare(&pairs[at - 1], &moving) > 0; at--)
            pairs[at] = pairs[at - 1];
        pairs[at] = moving;
    }
}

static void pairs_free(struct sigv4_pair **pairs)
{
    memory_free(*pairs);
}

static void put_query(struct buf *b, const struct sigv4_request *r)
{
    if (r->query_len == 0) return;
    CLEANUP(pairs_free) struct sigv4_pair *sorted = memory_zeroed(r->query_len, sizeof *sorted);
    memcpy(sorted, r->query, r->query_len * sizeof *sorted);
    sort(sorted, r->query_len, compare_query);
    for (size_t i = 0; i < r->query_len; i++) {
        if (i > 0) buf_put_u8(b, '&');
        put_encoded(b, sorted[i].name, false);
        buf_put_u8(b, '=');
        put_encoded(b, sorted[i].value, false);
    }
}

// Writes the value without blanks at its ends; a run of blanks becomes one.
static void put_value(struct buf *b, const char *value)
{
    bool blank = false;
    bool any = false;
    for (; *value; value++) {
        if (*value == ' ' || *value == '\t') {
            blank = true;
            continue;
        }
        if (blank && any) buf_put_u8(b, ' ');
        buf_put_u8(b, (uint8_t)*value);
        blank = false;
        any = true;
    }
}

static void put_lower(struct buf *b, const char *name)
{
    for (; *name; name++)
        buf_put_u8(b, (uint8_t)(*name >= 'A' && *name <= 'Z' ? *name + ('a' - 'A') : *name));
}

// Writes the sorted headers. The values of a repeated name are joined with commas.
static void put_headers(struct buf *b, const struct sigv4_pair *sorted, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        bool again = i > 0 && compare_header(&sorted[i - 1], &sorted[i]) == 0;
        if (again) {
            buf_put_u8(b, ',');
        } else {
            if (i > 0) buf_put_u8(b, '\n');
            put_lower(b, sorted[i].name);
            buf_put_u8(b, ':');
        }
        put_value(b, sorted[i].value);
    }
    buf_put_u8(b, '\n');
}

static void put_header_names(struct buf *b, const struct sigv4_pair *sorted, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (i > 0 && compare_header(&sorted[i - 1], &sorted[i]) == 0) continue;
        if (i > 0) buf_put_u8(b, ';');
        put_lower(b, sorted[i].name);
    }
}

// Returns all signed headers, sorted, on the heap.
static struct sigv4_pair *collect_headers(const struct sigv4_request *r,
                                          const struct sigv4_keys *keys, const char *date,
                                          size_t *len)
{
    struct sigv4_pair *all = memory_zeroed(r->headers_len + OWN_HEADERS, sizeof *all);
    size_t n = 0;
    all[n++] = (struct sigv4_pair){"host", r->host};
    if (strcmp(r->service, "s3") == 0)
        all[n++] = (struct sigv4_pair){"x-amz-content-sha256", r->payload_sha256};
    all[n++] = (struct sigv4_pair){"x-amz-date", date};
    if (keys->session_token && *keys->session_token)
        all[n++] = (struct sigv4_pair){"x-amz-security-token", keys->session_token};
    for (size_t i = 0; i < r->headers_len; i++)
        all[n++] = r->headers[i];
    sort(all, n, compare_header);
    *len = n;
    return all;
}

static void print_date(int64_t time_ms, char date[17])
{
    time_t seconds = (time_t)(time_ms / 1000);
    struct tm utc;
    CHECK(gmtime_r(&seconds, &utc) != NULL);
    CHECK(strftime(date, 17, "%Y%m%dT%H%M%SZ", &utc) == 16);
}

static void put_target(struct sigv4_signature *out, const struct sigv4_request *r)
{
    CHECK(r->path[0] == '/');
    put_encoded(&out->target, r->path, true);
    if (r->query_len > 0) buf_put_u8(&out->target, '?');
    put_query(&out->target, r);
    put_end(&out->target);
}

static void put_canonical(struct sigv4_signature *out, const struct sigv4_request *r,
                          const struct sigv4_pair *headers, size_t headers_len)
{
    struct buf *b = &out->canonical;
    struct bytes target = buf_bytes(&out->target);
    const uint8_t *mark = memchr(target.data, '?', target.len);
    size_t path_len = mark ? (size_t)(mark - target.data) : target.len;
    size_t query_at = mark ? path_len + 1 : path_len;
    put(b, r->method);
    buf_put_u8(b, '\n');
    buf_put(b, bytes_of(target.data, path_len));
    buf_put_u8(b, '\n');
    buf_put(b, bytes_of(target.data + query_at, target.len - query_at));
    buf_put_u8(b, '\n');
    put_headers(b, headers, headers_len);
    buf_put_u8(b, '\n');
    put_header_names(b, headers, headers_len);
    buf_put_u8(b, '\n');
    put(b, r->payload_sha256);
    put_end(b);
}

// Example: 20130524/us-east-1/s3/aws4_request
static void put_scope(struct buf *b, const struct sigv4_request *r, const char *date)
{
    buf_put(b, bytes_of(date, DAY_LEN));
    buf_put_u8(b, '/');
    put(b, r->region);
    buf_put_u8(b, '/');
    put(b, r->service);
    put(b, "/aws4_request");
}

static void sign(const struct sigv4_request *r, const struct sigv4_keys *keys, const char *date,
                 struct bytes text, uint8_t signature[SHA256_LEN])
{
    LOCAL(buf, secret, TEXT_MAX);
    put(&secret, "AWS4");
    put(&secret, keys->secret_key);
    CHECK(!secret.bad);
    uint8_t key[SHA256_LEN];
    sha256_hmac(buf_bytes(&secret), bytes_of(date, DAY_LEN), key);
    sha256_hmac(bytes_of(key, sizeof key), bytes_str(r->region), key);
    sha256_hmac(bytes_of(key, sizeof key), bytes_str(r->service), key);
    sha256_hmac(bytes_of(key, sizeof key), bytes_str("aws4_request"), key);
    sha256_hmac(bytes_of(key, sizeof key), text, signature);
    explicit_bzero(key, sizeof key);
    explicit_bzero(secret.data, secret.len);
}

void sigv4_signed_init(struct sigv4_signature *s)
{
    *s = (struct sigv4_signature){0};
    buf_init(&s->target, TEXT_MAX);
    buf_init(&s->authorization, TEXT_MAX);
    buf_init(&s->canonical, TEXT_MAX);
}

void sigv4_signed_done(struct sigv4_signature *s)
{
    buf_done(&s->target);
    buf_done(&s->authorization);
    buf_done(&s->canonical);
}

void sigv4_sign(const struct sigv4_request *r, const struct sigv4_keys *keys,
                struct sigv4_signature *out)
{
    buf_clear(&out->target);
    buf_clear(&out->authorization);
    buf_clear(&out->canonical);
    print_date(r->time_ms, out->date);
    size_t headers_len = 0;
    CLEANUP(pairs_free)
    struct sigv4_pair *headers = collect_headers(r, keys, out->date, &headers_len);
    put_target(out, r);
    put_canonical(out, r, headers, headers_len);

    uint8_t hash[SHA256_LEN];
    sha256(buf_bytes(&out->canonical), hash);
    struct buf *b = &out->authorization; // first the string to sign, then the header
    put(b, ALGORITHM "\n");
    put(b, out->date);
    buf_put_u8(b, '\n');
    put_scope(b, r, out->date);
    buf_put_u8(b, '\n');
    put_hex(b, hash);
    CHECK(!b->bad);
    sign(r, keys, out->date, buf_bytes(b), hash);

    buf_clear(b);
    put(b, ALGORITHM " Credential=");
    put(b, keys->access_key);
    buf_put_u8(b, '/');
    put_scope(b, r, out->date);
    put(b, ", SignedHeaders=");
    put_header_names(b, headers, headers_len);
    put(b, ", Signature=");
    put_hex(b, hash);
    put_end(b);
}
