// SPDX-License-Identifier: Apache-2.0
// The digests against the vectors of their documents: FIPS 180-2, RFC 4231, RFC 1321, RFC 4648.
#include "net/digest.h"
#include "../unit/unit.h"
#include "base/base64.h"
#include "base/memory.h"

#include <pthread.h>
#include <string.h>

static void sha256_is_that_of_fips_180(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *hex;
    } cases[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t hash[SHA256_LEN];
        char hex[2 * SHA256_LEN + 1];
        sha256(bytes_str(cases[i].text), hash);
        hex_print(bytes_of(hash, sizeof hash), hex);
        assert_string_equal(hex, cases[i].hex);
    }
}

static void md5_is_that_of_rfc_1321(void **state)
{
    (void)state;
    uint8_t hash[MD5_LEN];
    char hex[2 * MD5_LEN + 1];
    md5(bytes_str("message digest"), hash);
    hex_print(bytes_of(hash, sizeof hash), hex);
    assert_string_equal(hex, "f96b697d7cb7938d525a2f31aaf161d0");
}

static void assert_hmac(struct bytes key, struct bytes text, const char *expected)
{
    uint8_t hash[SHA256_LEN];
    char hex[2 * SHA256_LEN + 1];
    sha256_hmac(key, text, hash);
    hex_print(bytes_of(hash, sizeof hash), hex);
    assert_string_equal(hex, expected);
}

static void hmac_is_that_of_rfc_4231(void **state)
{
    (void)state;
    uint8_t key[131];
    memset(key, 0x0b, 20);
    assert_hmac(bytes_of(key, 20), bytes_str("Hi There"),
                "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    assert_hmac(bytes_str("Jefe"), bytes_str("what do ya want for nothing?"),
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof key); // longer than a block: hashed first
    assert_hmac(bytes_of(key, sizeof key),
                bytes_str("Test Using Larger Than Block-Size Key - Hash Key First"),
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

static void hmac_may_write_over_its_key(void **state)
{
    (void)state;
    uint8_t apart[SHA256_LEN];
    uint8_t same[SHA256_LEN] = "a key of some thirty-two letters";
    sha256_hmac(bytes_of(same, sizeof same), bytes_str("text"), apart);
    sha256_hmac(bytes_of(same, sizeof same), bytes_str("text"), same);
    assert_memory_equal(apart, same, sizeof same);
}

static const struct {
    const char *plain;
    const char *coded;
} base64_cases[] = {
    {"", ""},
    {"f", "Zg=="},
    {"fo", "Zm8="},
    {"foo", "Zm9v"},
    {"foob", "Zm9vYg=="},
    {"fooba", "Zm9vYmE="},
    {"foobar", "Zm9vYmFy"},
    {"\xff\xfe\xfd", "//79"},
    {"\xfb\xef\xbe", "++++"},
};

static void base64_is_that_of_rfc_4648_both_ways(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof base64_cases / sizeof *base64_cases; i++) {
        CLEANUP(buf_done) struct buf out;
        buf_init(&out, 64);
        base64_put(&out, bytes_str(base64_cases[i].plain));
        assert_true(bytes_equal(buf_bytes(&out), bytes_str(base64_cases[i].coded)));
        buf_clear(&out);
        assert_true(base64_read(bytes_str(base64_cases[i].coded), &out));
        assert_true(bytes_equal(buf_bytes(&out), bytes_str(base64_cases[i].plain)));
    }
}

static void what_is_not_base64_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"Z",    "Zg",   "Zg=",  "=",        "====",
                                        "Z===", "Zh==", "Zm9=", "Zg==Zg==", "Zm9v\n",
                                        "Zm 9", "Zm-_", "Z=g=", "Zm9vZg=a"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CLEANUP(buf_done) struct buf out;
        buf_init(&out, 64);
        assert_false(base64_read(bytes_str(wrong[i]), &out));
    }
}

static void base64_that_does_not_fit_is_refused(void **state)
{
    (void)state;
    CLEANUP(buf_done) struct buf out;
    buf_init(&out, 5);
    assert_false(base64_read(bytes_str("Zm9vYmFy"), &out));
}

static void *hash_some(void *arg)
{
    (void)arg;
    uint8_t hash[SHA256_LEN];
    sha256(bytes_str("abc"), hash);
    sha256_hmac(bytes_str("abc"), bytes_str("abc"), hash);
    return NULL;
}

static void any_thread_may_be_the_first(void **state)
{
    (void)state;
    pthread_t threads[8];
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hash_some, NULL), 0);
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_thread_may_be_the_first),
        cmocka_unit_test(sha256_is_that_of_fips_180),
        cmocka_unit_test(md5_is_that_of_rfc_1321),
        cmocka_unit_test(hmac_is_that_of_rfc_4231),
        cmocka_unit_test(hmac_may_write_over_its_key),
        cmocka_unit_test(base64_is_that_of_rfc_4648_both_ways),
        cmocka_unit_test(what_is_not_base64_is_refused),
        cmocka_unit_test(base64_that_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests_name("net digest", tests, NULL, NULL);
}
