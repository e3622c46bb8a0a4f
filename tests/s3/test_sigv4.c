// SPDX-License-Identifier: Apache-2.0
// Signatures, to the byte, against what AWS published: its SigV4 test suite (those vectors whose
// path needs no normalising) and the worked examples of the S3 reference.
#include "../unit/unit.h"
#include "net/digest.h"
#include "store/s3/auth/sigv4.h"

#include <stdio.h>
#include <string.h>

#define EMPTY_SHA256 "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define FORM_SHA256  "9095672bbd1f56dfc5b65f3e153adc8731a4a654192329106275f4c7b24d0b6e"
#define SUITE_MS     1440938160000 // 20150830T123600Z
#define EXAMPLES_MS  1369353600000 // 20130524T000000Z
#define PAIRS_MAX    4

static const char *text_of(const struct buf *b)
{
    return (const char *)b->data;
}

static size_t count(const struct sigv4_pair *pairs)
{
    size_t n = 0;
    while (n < PAIRS_MAX && pairs[n].name)
        n++;
    return n;
}

struct vector {
    const char *name;
    const char *method;
    const char *path;
    struct sigv4_pair query[PAIRS_MAX];
    struct sigv4_pair headers[PAIRS_MAX];
    const char *payload; // NULL: nothing
    const char *signed_headers;
    const char *signature;
    const char *target; // NULL: the path
};

#define UNRESERVED "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

static const struct vector suite[] = {
    {.name = "get-vanilla",
     .signature = "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
    {.name = "get-vanilla-query-order-key-case",
     .query = {{"Param2", "value2"}, {"Param1", "value1"}},
     .target = "/?Param1=value1&Param2=value2",
     .signature = "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
    {.name = "get-vanilla-query-unreserved",
     .query = {{UNRESERVED, UNRESERVED}},
     .target = "/?" UNRESERVED "=" UNRESERVED,
     .signature = "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197"},
    {.name = "get-vanilla-utf8-query",
     .query = {{"\xe1\x88\xb4", "bar"}},
     .target = "/?%E1%88%B4=bar",
     .signature = "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04"},
    {.name = "get-utf8",
     .path = "/\xe1\x88\xb4",
     .target = "/%E1%88%B4",
     .signature = "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"},
    {.name = "get-unreserved",
     .path = "/" UNRESERVED,
     .signature = "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f"},
    {.name = "get-header-key-duplicate",
     .headers = {{"My-Header1", "value2"}, {"My-Header1", "value2"}, {"My-Header1", "value1"}},
     .signed_headers = "host;my-header1;x-amz-date",
     .signature = "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea"},
    {.name = "get-header-value-order",
     .headers = {{"My-Header1", "value4"},
                 {"My-Header1", "value1"},
                 {"My-Header1", "value3"},
                 {"My-Header1", "value2"}},
     .signed_headers = "host;my-header1;x-amz-date",
     .signature = "08c7e5a9acfcfeb3ab6b2185e75ce8b1deb5e634ec47601a50643f830c755c01"},
    {.name = "get-header-value-trim",
     .headers = {{"My-Header1", " value1"}, {"My-Header2", " \"a   b   c\""}},
     .signed_headers = "host;my-header1;my-header2;x-amz-date",
     .signature = "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"},
    {.name = "post-vanilla",
     .method = "POST",
     .signature = "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
    {.name = "post-vanilla-query",
     .method = "POST",
     .query = {{"Param1", "value1"}},
     .target = "/?Param1=value1",
     .signature = "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11"},
    {.name = "post-header-key-sort",
     .method = "POST",
     .headers = {{"My-Header1", "value1"}},
     .signed_headers = "host;my-header1;x-amz-date",
     .signature = "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c"},
    {.name = "post-header-value-case",
     .method = "POST",
     .headers = {{"My-Header1", "VALUE1"}},
     .signed_headers = "host;my-header1;x-amz-date",
     .signature = "cdbc9802e29d2942e5e10b5bccfdd67c5f22c7c4e8ae67b53629efa58b974b7d"},
    {.name = "post-x-www-form-urlencoded",
     .method = "POST",
     .headers = {{"Content-Type", "application/x-www-form-urlencoded"}},
     .payload = FORM_SHA256,
     .signed_headers = "content-type;host;x-amz-date",
     .signature = "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"},
    {.name = "post-x-www-form-urlencoded-parameters",
     .method = "POST",
     .headers = {{"Content-Type", "application/x-www-form-urlencoded; charset=utf8"}},
     .payload = FORM_SHA256,
     .signed_headers = "content-type;host;x-amz-date",
     .signature = "1a72ec8f64bd914b0e42e42607c7fbce7fb2c7465f63e3092b3b0d39fa77a6fe"},
};

static void sign_vector(const struct vector *v, struct sigv4_signature *out)
{
    struct sigv4_request r = {.method = v->method ? v->method : "GET",
                              .host = "example.amazonaws.com",
                              .path = v->path ? v->path : "/",
                              .query = v->query,
                              .query_len = count(v->query),
                              .headers = v->headers,
                              .headers_len = count(v->headers),
                              .region = "us-east-1",
                              .service = "service",
                              .time_ms = SUITE_MS,
                              .payload_sha256 = v->payload ? v->payload : EMPTY_SHA256};
    struct sigv4_keys keys = {.access_key = "AKIDEXAMPLE",
                              .secret_key = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"};
    sigv4_sign(&r, &keys, out);
}

// One struct for all, so that what one leaves behind would show in the next.
static void the_published_suite_is_signed_to_the_byte(void **state)
{
    (void)state;
    CLEANUP(sigv4_signed_done) struct sigv4_signature out;
    sigv4_signed_init(&out);
    for (size_t i = 0; i < sizeof suite / sizeof *suite; i++) {
        const struct vector *v = &suite[i];
        sign_vector(v, &out);
        char expected[512];
        (void)snprintf(expected, sizeof expected,
                       "AWS4-HMAC-SHA256 "
                       "Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "
                       "SignedHeaders=%s, Signature=%s",
                       v->signed_headers ? v->signed_headers : "host;x-amz-date", v->signature);
        print_message("# %s\n", v->name);
        assert_string_equal(text_of(&out.authorization), expected);
        assert_string_equal(text_of(&out.target), v->target ? v->target : v->path ? v->path : "/");
        assert_string_equal(out.date, "20150830T123600Z");
    }
}

static void the_canonical_request_can_be_read(void **state)
{
    (void)state;
    CLEANUP(sigv4_signed_done) struct sigv4_signature out;
    sigv4_signed_init(&out);
    sign_vector(&suite[1], &out);
    assert_string_equal(text_of(&out.canonical), "GET\n"
                                                 "/\n"
                                                 "Param1=value1&Param2=value2\n"
                                                 "host:example.amazonaws.com\n"
                                                 "x-amz-date:20150830T123600Z\n"
                                                 "\n"
                                                 "host;x-amz-date\n" EMPTY_SHA256);
}

static const struct vector examples[] = {
    {.name = "GET object",
     .path = "/test.txt",
     .headers = {{"Range", "bytes=0-9"}},
     .signed_headers = "host;range;x-amz-content-sha256;x-amz-date",
     .signature = "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
    {.name = "PUT object",
     .method = "PUT",
     .path = "/test$file.text",
     .headers = {{"Date", "Fri, 24 May 2013 00:00:00 GMT"},
                 {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
     .payload = "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
     .target = "/test%24file.text",
     .signed_headers = "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
     .signature = "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"},
    {.name = "GET bucket lifecycle",
     .query = {{"lifecycle", ""}},
     .target = "/?lifecycle=",
     .signed_headers = "host;x-amz-content-sha256;x-amz-date",
     .signature = "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
    {.name = "list objects",
     .query = {{"prefix", "J"}, {"max-keys", "2"}},
     .target = "/?max-keys=2&prefix=J",
     .signed_headers = "host;x-amz-content-sha256;x-amz-date",
     .signature = "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
};

static void the_examples_of_s3_are_signed_to_the_byte(void **state)
{
    (void)state;
    CLEANUP(sigv4_signed_done) struct sigv4_signature out;
    sigv4_signed_init(&out);
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        const struct vector *v = &examples[i];
        struct sigv4_request r = {.method = v->method ? v->method : "GET",
                                  .host = "examplebucket.s3.amazonaws.com",
                                  .path = v->path ? v->path : "/",
                                  .query = v->query,
                                  .query_len = count(v->query),
                                  .headers = v->headers,
                                  .headers_len = count(v->headers),
                                  .region = "us-east-1",
                                  .service = "s3",
                                  .time_ms = EXAMPLES_MS,
                                  .payload_sha256 = v->payload ? v->payload : EMPTY_SHA256};
        struct sigv4_keys keys = {.access_key = "AKIAIOSFODNN7EXAMPLE",
                                  .secret_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"};
        sigv4_sign(&r, &keys, &out);
        char expected[512];
        (void)snprintf(expected, sizeof expected,
                       "AWS4-HMAC-SHA256 "
                       "Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
                       "SignedHeaders=%s, Signature=%s",
                       v->signed_headers, v->signature);
        print_message("# %s\n", v->name);
        assert_string_equal(text_of(&out.authorization), expected);
        assert_string_equal(text_of(&out.target), v->target ? v->target : v->path ? v->path : "/");
    }
}

static struct sigv4_request plain_request(void)
{
    return (struct sigv4_request){.method = "GET",
                                  .host = "h",
                                  .path = "/",
                                  .region = "r",
                                  .service = "s3",
                                  .time_ms = EXAMPLES_MS,
                                  .payload_sha256 = "UNSIGNED-PAYLOAD"};
}

static void a_session_token_is_signed_and_an_empty_one_is_none(void **state)
{
    (void)state;
    CLEANUP(sigv4_signed_done) struct sigv4_signature out;
    sigv4_signed_init(&out);
    struct sigv4_request r = plain_request();
    struct sigv4_keys keys = {.access_key = "a", .secret_key = "b", .session_token = "some/token="};
    sigv4_sign(&r, &keys, &out);
    assert_non_null(strstr(text_of(&out.authorization),
                           "host;x-amz-content-sha256;x-amz-date;x-amz-security-token,"));
    assert_non_null(strstr(text_of(&out.canonical), "\nx-amz-security-token:some/token=\n"));
    keys.session_token = "";
    sigv4_sign(&r, &keys, &out);
    assert_null(strstr(text_of(&out.authorization), "token"));
}

// 'a' is 61 and '~' is 7e in bytes, but "%7B" sorts before both.
static void the_query_is_sorted_as_it_is_sent(void **state)
{
    (void)state;
    CLEANUP(sigv4_signed_done) struct sigv4_signature out;
    sigv4_signed_init(&out);
    struct sigv4_request r = plain_request();
    struct sigv4_keys keys = {.access_key = "a", .secret_key = "b"};
    struct sigv4_pair query[] = {{"~", "1"},  {"a", "2/ x"}, {"{", "3"},
                                 {"a", "10"}, {"B", ""},     {"ab", "+&="}};
    r.path = "/a b/../c//d+%";
    r.query = query;
    r.query_len = sizeof query / sizeof *query;
    sigv4_sign(&r, &keys, &out);
    assert_string_equal(text_of(&out.target),
                        "/a%20b/../c//d%2B%25?%7B=3&B=&a=10&a=2%2F%20x&ab=%2B%26%3D&~=1");
}

static void the_secret_is_in_nothing_that_comes_out(void **state)
{
    (void)state;
    CLEANUP(sigv4_signed_done) struct sigv4_signature out;
    sigv4_signed_init(&out);
    struct sigv4_request r = plain_request();
    struct sigv4_keys keys = {.access_key = "a", .secret_key = "topsecret"};
    sigv4_sign(&r, &keys, &out);
    assert_null(strstr(text_of(&out.authorization), "topsecret"));
    assert_null(strstr(text_of(&out.canonical), "topsecret"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_suite_is_signed_to_the_byte),
        cmocka_unit_test(the_canonical_request_can_be_read),
        cmocka_unit_test(the_examples_of_s3_are_signed_to_the_byte),
        cmocka_unit_test(a_session_token_is_signed_and_an_empty_one_is_none),
        cmocka_unit_test(the_query_is_sorted_as_it_is_sent),
        cmocka_unit_test(the_secret_is_in_nothing_that_comes_out),
    };
    return cmocka_run_group_tests_name("net sigv4", tests, NULL, NULL);
}
