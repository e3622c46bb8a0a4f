// SPDX-License-Identifier: Apache-2.0
// Labels: any order becomes the canonical text, bad texts are refused with their place, and a match
// needs every label.
#include "queue_test.h"

#include "queue/codec/labels.h"

#include <string.h>

static void labels_become_canonical(void **state)
{
    (void)state;
    const char *texts[][2] = {
        {"", ""},
        {"kind=gpu", "kind=gpu"},
        {"kind=gpu,host=a7", "host=a7,kind=gpu"},
        {"b=2,a=1,c=3", "a=1,b=2,c=3"},
        {"a.b-c_9=X.y-Z_0", "a.b-c_9=X.y-Z_0"},
        {"ab=1,a=2", "a=2,ab=1"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct labels out;
        struct labels_error error;
        assert_int_equal(labels_parse(bytes_str(texts[i][0]), &out, &error), ERR_OK);
        assert_string_equal(out.text, texts[i][1]);
        assert_int_equal(out.len, strlen(texts[i][1]));
        assert_int_equal(labels_are_canonical(bytes_str(texts[i][0])),
                         out.len > 0 && strcmp(texts[i][0], texts[i][1]) == 0);
    }
}

static void a_text_that_is_no_label_is_refused_with_its_place(void **state)
{
    (void)state;
    const struct {
        const char *text;
        size_t at;
        const char *says;
    } rows[] = {
        {"=x", 0, "a key has"},
        {"Kind=gpu", 0, "a key has"},
        {"kind", 4, "key=value"},
        {"kind gpu", 4, "key=value"},
        {"kind=", 5, "a value has"},
        {"kind=a b", 6, "commas"},
        {"a=1,", 4, "a key has"},
        {",a=1", 0, "a key has"},
        {"a=1;b=2", 3, "commas"},
        {"a=1,b=2,a=3", 8, "once"},
        {"a=1,b=\xc3\xa4", 6, "a value has"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct labels out;
        struct labels_error error;
        assert_int_equal(labels_parse(bytes_str(rows[i].text), &out, &error), ERR_INVALID);
        assert_int_equal(error.at, rows[i].at);
        assert_non_null(strstr(error.text, rows[i].says));
        assert_int_equal(out.len, 0);
        assert_false(labels_are_canonical(bytes_str(rows[i].text)));
    }
}

static void the_limits_of_labels_hold(void **state)
{
    (void)state;
    struct buf b;
    struct labels out;
    struct labels_error error;
    buf_init(&b, 1 << 16);
    for (int i = 0; i < LABELS_MAX; i++) { // the longest text
        if (i > 0) buf_put(&b, bytes_str(","));
        for (int j = 0; j < LABEL_KEY_MAX; j++)
            buf_put_u8(&b, (uint8_t)('a' + i));
        buf_put(&b, bytes_str("="));
        for (int j = 0; j < LABEL_VALUE_MAX; j++)
            buf_put_u8(&b, 'Z');
    }
    assert_int_equal(b.len, LABELS_TEXT_MAX);
    assert_int_equal(labels_parse(buf_bytes(&b), &out, &error), ERR_OK);
    assert_int_equal(out.len, LABELS_TEXT_MAX);
    buf_put(&b, bytes_str("Z"));
    assert_int_equal(labels_parse(buf_bytes(&b), &out, &error), ERR_INVALID);
    buf_set_u32(&b, 0, 0x61616161);
    b.len--;
    buf_put(&b, bytes_str(",zz=1"));
    assert_int_equal(labels_parse(buf_bytes(&b), &out, &error), ERR_INVALID);
    assert_non_null(strstr(error.text, "at most 16"));
    buf_clear(&b);
    for (int j = 0; j <= LABEL_KEY_MAX; j++)
        buf_put_u8(&b, 'a');
    buf_put(&b, bytes_str("=1"));
    assert_int_equal(labels_parse(buf_bytes(&b), &out, NULL), ERR_INVALID);
    buf_done(&b);
}

static void a_match_needs_every_label(void **state)
{
    (void)state;
    const struct {
        const char *have;
        const char *needed;
        bool match;
    } rows[] = {
        {"", "", true},
        {"a=1", "", true},
        {"", "a=1", false},
        {"a=1", "a=1", true},
        {"a=1", "a=2", false},
        {"a=1,b=2,c=3", "b=2", true},
        {"a=1,b=2,c=3", "a=1,c=3", true},
        {"a=1,b=2,c=3", "a=1,d=3", false},
        {"a=1,c=3", "b=2", false},
        {"ab=1", "a=1", false},
        {"a=1", "a=11", false},
        {"a=11", "a=1", false},
        {"b=1", "a=1,b=1", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(labels_match(bytes_str(rows[i].have), bytes_str(rows[i].needed)),
                         rows[i].match);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(labels_become_canonical),
        CASE(a_text_that_is_no_label_is_refused_with_its_place),
        CASE(the_limits_of_labels_hold),
        CASE(a_match_needs_every_label),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
