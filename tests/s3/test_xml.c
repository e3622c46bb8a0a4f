// SPDX-License-Identifier: Apache-2.0
// The documents S3 sends, as servers write them, and documents that no server should send.
#include "base/memory.h"
#include "store/s3/auth/times.h"
#include "store/s3/xml.h"
#include "unit.h"

#include <stdio.h>
#include <string.h>

static void an_error_is_code_and_message_and_no_more(void **state)
{
    (void)state;
    struct s3_error e;
    assert_true(s3_xml_error(
        bytes_str(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>SignatureDoesNotMatch</Code>"
            "<Message>The request signature\n we calculated &lt;&#228;&gt;</Message>"
            "<StringToSign>secret things</StringToSign><Region>eu-west-1</Region></Error>"),
        &e));
    assert_string_equal(e.code, "SignatureDoesNotMatch");
    assert_string_equal(e.message, "The request signature? we calculated <\?\?>");
    assert_string_equal(e.region, "eu-west-1");
}

static void what_is_no_error_document_is_none(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "not found",
                                      "<html><body>502 Bad Gateway</body></html>",
                                      "<Error><Code>Half",
                                      "<Error><Code>A</Code></Error><Error/>",
                                      "<Error>\x01</Error>"};
    struct s3_error e;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(s3_xml_error(bytes_str(bad[i]), &e));
        assert_string_equal(e.code, "");
    }
}

static void nothing_is_ever_expanded(void **state)
{
    (void)state;
    struct s3_error e;
    assert_false(
        s3_xml_error(bytes_str("<!DOCTYPE x [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;\">]>"
                               "<Error><Code>&b;</Code></Error>"),
                     &e));
    assert_false(s3_xml_error(bytes_str("<!DOCTYPE Error SYSTEM \"file:///etc/passwd\">"
                                        "<Error><Code>x</Code></Error>"),
                              &e));
    assert_false(s3_xml_error(bytes_str("<Error><Code>&b;</Code></Error>"), &e));
}

static void depth_and_length_have_limits(void **state)
{
    (void)state;
    struct s3_error e;
    char deep[400] = "<Error>";
    for (int i = 0; i < 20; i++)
        strcat(deep, "<a>");
    for (int i = 0; i < 20; i++)
        strcat(deep, "</a>");
    strcat(deep, "</Error>");
    assert_false(s3_xml_error(bytes_str(deep), &e));
    struct buf text;
    buf_init(&text, 1 << 20);
    buf_put(&text, bytes_str("<Error><Code>"));
    memset(buf_grow(&text, 100000), 'x', 100000);
    buf_put(&text, bytes_str("</Code></Error>"));
    assert_false(s3_xml_error(buf_bytes(&text), &e));
    buf_done(&text);
}

static void a_list_is_keys_sizes_and_times(void **state)
{
    (void)state;
    struct s3_listing l;
    s3_listing_init(&l);
    assert_true(s3_xml_listing(
        bytes_str("<?xml version=\"1.0\"?><ListBucketResult "
                  "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
                  "<Name>b</Name><Prefix>p%2F</Prefix><KeyCount>2</KeyCount><MaxKeys>2</MaxKeys>"
                  "<EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>"
                  "<NextContinuationToken>1/&amp;=</NextContinuationToken>"
                  "<Contents><Key>p/a%20b%2Bc+d</Key><LastModified>2026-11-15T06:05:55.123Z</"
                  "LastModified>"
                  "<ETag>&quot;x&quot;</ETag><Size>17</Size><Owner><ID>o</ID><Key>no</Key></"
                  "Owner></Contents>"
                  "<Contents><Size>5000000000</Size><Key>p/b</Key>"
                  "<LastModified>1970-01-01T00:00:01Z</LastModified></Contents>"
                  "<CommonPrefixes><Prefix>x</Prefix></CommonPrefixes></ListBucketResult>"),
        &l));
    assert_int_equal(l.rows_len, 2);
    assert_true(l.more);
    assert_string_equal(l.token, "1/&=");
    assert_string_equal(s3_listed_key(&l, 0), "p/a b+c d");
    assert_int_equal(l.rows[0].size, 17);
    assert_int_equal(l.rows[0].modified_ms, 1794722755123);
    assert_string_equal(s3_listed_key(&l, 1), "p/b");
    assert_int_equal(l.rows[1].size, 5000000000);
    assert_int_equal(l.rows[1].modified_ms, 1000);
    // The same struct resend, not encoded this time.
    assert_true(
        s3_xml_listing(bytes_str("<ListBucketResult><IsTruncated>false</IsTruncated><Contents>"
                                 "<Key>a%20b</Key></Contents></ListBucketResult>"),
                       &l));
    assert_int_equal(l.rows_len, 1);
    assert_false(l.more);
    assert_string_equal(l.token, "");
    assert_string_equal(s3_listed_key(&l, 0), "a%20b");
    s3_listing_done(&l);
}

static void a_list_that_makes_no_sense_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "<ListBucketResult><Contents><Size>1</Size></Contents></ListBucketResult>",
        "<ListBucketResult><Contents><Key>k</Key><LastModified>yesterday</LastModified></Contents>"
        "</ListBucketResult>",
        "<ListBucketResult><EncodingType>url</EncodingType><Contents><Key>%2</Key></Contents>"
        "</ListBucketResult>",
        "<ListBucketResult><EncodingType>url</EncodingType><Contents><Key>a%00b</Key></Contents>"
        "</ListBucketResult>",
        "<ListBucketResult><Contents><Key>k</Key></Contents>",
        "<ListAllMyBucketsResult></ListAllMyBucketsResult>",
    };
    struct s3_listing l;
    s3_listing_init(&l);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(s3_xml_listing(bytes_str(bad[i]), &l));
        assert_int_equal(l.rows_len, 0);
    }
    struct buf many;
    buf_init(&many, 1 << 20);
    buf_put(&many, bytes_str("<ListBucketResult>"));
    for (int i = 0; i <= S3_ROWS_MAX; i++)
        buf_put(&many, bytes_str("<Contents><Key>k</Key></Contents>"));
    buf_put(&many, bytes_str("</ListBucketResult>"));
    assert_false(s3_xml_listing(buf_bytes(&many), &l));
    buf_done(&many);
    s3_listing_done(&l);
}

static void what_could_not_be_deleted_is_counted(void **state)
{
    (void)state;
    struct s3_error first;
    size_t errors = 9;
    assert_true(s3_xml_deleted(bytes_str("<DeleteResult/>"), &first, &errors));
    assert_int_equal(errors, 0);
    assert_true(s3_xml_deleted(
        bytes_str("<DeleteResult xmlns=\"x\"><Deleted><Key>a</Key></Deleted>"
                  "<Error><Key>z</Key><Code>NoSuchKey</Code></Error>"
                  "<Error><Key>b</Key><Code>AccessDenied</Code><Message>no</Message></Error>"
                  "<Error><Key>c</Key><Code>InternalError</Code></Error></DeleteResult>"),
        &first, &errors));
    assert_int_equal(errors, 2);
    assert_string_equal(first.code, "AccessDenied");
    assert_string_equal(first.message, "no");
    assert_false(s3_xml_deleted(bytes_str("<Deleted/>"), &first, &errors));
}

static void versioning_is_on_when_it_says_enabled(void **state)
{
    (void)state;
    bool on = true;
    assert_true(s3_xml_versioning(bytes_str("<VersioningConfiguration/>"), &on));
    assert_false(on);
    assert_true(s3_xml_versioning(
        bytes_str("<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"),
        &on));
    assert_true(on);
    assert_true(s3_xml_versioning(
        bytes_str("<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>"),
        &on));
    assert_false(on);
}

static void keys_to_delete_are_escaped(void **state)
{
    (void)state;
    struct buf to;
    buf_init(&to, 4096);
    static const char *const keys[] = {"a", "b"};
    s3_xml_put_delete(&to, "p<&>/", keys, 2);
    buf_put_u8(&to, 0);
    assert_non_null(strstr((const char *)to.data, "<Object><Key>p&lt;&amp;&gt;/a</Key></Object>"));
    assert_non_null(strstr((const char *)to.data, "<Object><Key>p&lt;&amp;&gt;/b</Key></Object>"));
    buf_done(&to);
}

static void moments_are_read_both_ways(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ms;
    } good[] = {{"Thu, 01 Jan 1970 00:00:00 GMT", 0},
                {"Sun, 15 Nov 2026 06:05:55 GMT", 1794722755000},
                {"Thu, 29 Feb 2024 23:59:59 GMT", 1709251199000},
                {"Fri, 01 Mar 2024 00:00:00 GMT", 1709251200000},
                {"Tue, 31 Dec 2099 23:59:59 GMT", 4102444799000}};
    static const char *const bad[] = {
        "", "Sunday, 15-Nov-26 06:05:55 GMT", "Sun, 15 Nox 2026 06:05:55 GMT",
        "Sun, 15 Nov 2026 25:05:55 GMT", "Sun, 15 Nov 2026 06:05:55 UTC"};
    int64_t ms;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(s3_time_http(bytes_str(good[i].text), &ms));
        assert_int_equal(ms, good[i].ms);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(s3_time_http(bytes_str(bad[i]), &ms));
    assert_true(s3_time_iso("2024-02-29T23:59:59.9999999Z", &ms));
    assert_int_equal(ms, 1709251199999);
    assert_false(s3_time_iso("2024-02-29T23:59:59", &ms));
    assert_false(s3_time_iso("2024-13-01T00:00:00Z", &ms));
    assert_false(s3_time_iso("2024-02-29T23:59:59Zx", &ms));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_error_is_code_and_message_and_no_more),
        cmocka_unit_test(what_is_no_error_document_is_none),
        cmocka_unit_test(nothing_is_ever_expanded),
        cmocka_unit_test(depth_and_length_have_limits),
        cmocka_unit_test(a_list_is_keys_sizes_and_times),
        cmocka_unit_test(a_list_that_makes_no_sense_is_refused),
        cmocka_unit_test(what_could_not_be_deleted_is_counted),
        cmocka_unit_test(versioning_is_on_when_it_says_enabled),
        cmocka_unit_test(keys_to_delete_are_escaped),
        cmocka_unit_test(moments_are_read_both_ways),
    };
    return cmocka_run_group_tests_name("s3 documents", tests, NULL, NULL);
}
