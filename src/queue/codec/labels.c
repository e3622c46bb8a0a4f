// SPDX-License-Identifier: Apache-2.0
// Labels: key=value pairs, canonical as a text that is sorted by key.
#include "queue/codec/labels.h"

#include "base/check.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static_assert(LABELS_TEXT_MAX <= UINT16_MAX, "the length of a text fits its field");

struct label {
    struct bytes key;
    struct bytes value;
};

static bool is_key_byte(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

static bool is_value_byte(uint8_t c)
{
    return is_key_byte(c) || (c >= 'A' && c <= 'Z');
}

static struct bytes word(struct bytes text, size_t *at, bool (*allowed)(uint8_t))
{
    size_t from = *at;
    while (*at < text.len && allowed(text.data[*at]))
        ++*at;
    CHECK(*at >= from && *at <= text.len);
    return bytes_of(text.data + from, *at - from);
}

static enum err wrong(struct labels_error *error, size_t at, const char *text)
{
    CHECK(text);
    if (error) *error = (struct labels_error){at, text};
    return ERR_INVALID;
}

// Reads one label; `at` is then at its end.
static enum err read_label(struct bytes text, size_t *at, struct label *out,
                           struct labels_error *error)
{
    size_t from = *at;
    CHECK(from <= text.len);
    out->key = word(text, at, is_key_byte);
    if (out->key.len == 0 || out->key.len > LABEL_KEY_MAX)
        return wrong(error, from, "a key has 1 to 63 of a-z 0-9 . _ -");
    if (*at == text.len || text.data[*at] != '=')
        return wrong(error, *at, "a label is key=value; a key has 1 to 63 of a-z 0-9 . _ -");
    from = ++*at;
    out->value = word(text, at, is_value_byte);
    if (out->value.len == 0 || out->value.len > LABEL_VALUE_MAX)
        return wrong(error, from, "a value has 1 to 63 of A-Z a-z 0-9 . _ -");
    return ERR_OK;
}

static int by_key(const void *a, const void *b)
{
    const struct label *x = a, *y = b;
    CHECK(x->key.len > 0 && y->key.len > 0);
    return bytes_compare(x->key, y->key);
}

static void append(struct labels *out, struct bytes part)
{
    CHECK(out->len + part.len <= LABELS_TEXT_MAX);
    memcpy(out->text + out->len, part.data, part.len);
    out->len = (uint16_t)(out->len + part.len);
}

static void write_labels(const struct label *labels, size_t len, struct labels *out)
{
    CHECK(len <= LABELS_MAX && out->len == 0);
    for (size_t i = 0; i < len; i++) {
        CHECK(i == 0 || bytes_compare(labels[i - 1].key, labels[i].key) < 0);
        if (i > 0) append(out, bytes_str(","));
        append(out, labels[i].key);
        append(out, bytes_str("="));
        append(out, labels[i].value);
    }
    out->text[out->len] = '\0';
}

enum err labels_parse(struct bytes text, struct labels *out, struct labels_error *error)
{
    struct label found[LABELS_MAX];
    size_t len = 0, at = 0;
    out->len = 0;
    out->text[0] = '\0';
    while (text.len > 0) {
        if (len == LABELS_MAX) return wrong(error, at, "there are at most 16 labels");
        size_t from = at;
        enum err e = read_label(text, &at, &found[len], error);
        if (e) return e;
        for (size_t i = 0; i < len; i++)
            if (bytes_equal(found[i].key, found[len].key))
                return wrong(error, from, "each key appears once");
        len++;
        if (at == text.len) break;
        if (text.data[at++] != ',')
            return wrong(
                error, at - 1,
                "labels are separated by commas; a value has 1 to 63 of A-Z a-z 0-9 . _ -");
    }
    CHECK(at == text.len);
    CHECK(len <= LABELS_MAX);
    if (len > 0) qsort(found, len, sizeof *found, by_key);
    write_labels(found, len, out);
    return ERR_OK;
}

bool labels_are_canonical(struct bytes text)
{
    struct labels labels;
    if (text.len == 0 || labels_parse(text, &labels, NULL) != ERR_OK) return false;
    return bytes_equal(text, bytes_of(labels.text, labels.len));
}

bool labels_next(struct bytes *text, struct bytes *key, struct bytes *value)
{
    if (text->len == 0) return false;
    struct label label;
    size_t at = 0;
    CHECK(read_label(*text, &at, &label, NULL) == ERR_OK); // it is canonical
    *key = label.key;
    *value = label.value;
    size_t used = at < text->len ? at + 1 : at;
    CHECK(used <= text->len && label.key.len > 0);
    *text = bytes_of(text->data + used, text->len - used);
    return true;
}

bool labels_match(struct bytes have, struct bytes needed)
{
    struct label have_one, need_one;
    CHECK(have.len <= LABELS_TEXT_MAX && needed.len <= LABELS_TEXT_MAX);
    while (labels_next(&needed, &need_one.key, &need_one.value)) {
        int order = -1;
        while (order < 0 && labels_next(&have, &have_one.key, &have_one.value))
            order = bytes_compare(have_one.key, need_one.key);
        if (order != 0 || !bytes_equal(have_one.value, need_one.value)) return false;
    }
    return true;
}
