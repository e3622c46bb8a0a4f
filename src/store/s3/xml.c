// SPDX-License-Identifier: Apache-2.0
// A small reader on top of expat: a stack of element names and the text of the innermost element.
// Each document has a function that is called at the end of every element.
#include "store/s3/xml.h"

#include "base/digits.h"
#include "base/memory.h"
#include "store/s3/auth/times.h"

#include <expat.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 8
#define NAME_LEN  48
#define TEXT_LEN  8192
#define KEYS_MAX  ((size_t)4 << 20)

struct xml_walk {
    XML_Parser parser;
    char names[DEPTH_MAX][NAME_LEN];
    size_t depth;
    char text[TEXT_LEN];
    size_t text_len;
    bool bad;
    const char *root; // required name of the root element
    // Called when the element at depth `depth` ends, with its name and its parent's name.
    void (*end)(struct xml_walk *w, const char *parent, const char *name);
    void *to;
};

static void give_up(struct xml_walk *w)
{
    w->bad = true;
    (void)XML_StopParser(w->parser, XML_FALSE);
}

static void XMLCALL on_start(void *arg, const XML_Char *name, const XML_Char **attributes)
{
    struct xml_walk *w = arg;
    (void)attributes;
    const char *colon = strrchr(name, ':');
    if (colon) name = colon + 1;
    bool root_wrong = w->depth == 0 && strcmp(name, w->root) != 0;
    if (w->bad || root_wrong || w->depth == DEPTH_MAX || strlen(name) >= NAME_LEN) {
        give_up(w);
        return;
    }
    memcpy(w->names[w->depth++], name, strlen(name) + 1);
    w->text_len = 0;
    w->text[0] = 0;
}

static void XMLCALL on_text(void *arg, const XML_Char *text, int len)
{
    struct xml_walk *w = arg;
    if (w->bad || len < 0) return;
    if (w->text_len + (size_t)len >= TEXT_LEN) {
        give_up(w);
        return;
    }
    memcpy(w->text + w->text_len, text, (size_t)len);
    w->text_len += (size_t)len;
    w->text[w->text_len] = 0;
}

static void XMLCALL on_end(void *arg, const XML_Char *name)
{
    struct xml_walk *w = arg;
    (void)name;
    if (w->bad || w->depth == 0) return;
    w->depth--;
    w->end(w, w->depth ? w->names[w->depth - 1] : "", w->names[w->depth]);
    w->text_len = 0;
    w->text[0] = 0;
}

// No S3 server sends a document type, and it could define entities.
static void XMLCALL on_doctype(void *arg, const XML_Char *name, const XML_Char *system_id,
                               const XML_Char *public_id, int has_subset)
{
    (void)name, (void)system_id, (void)public_id, (void)has_subset;
    give_up(arg);
}

static bool walk(struct bytes from, const char *root,
                 void (*end)(struct xml_walk *w, const char *parent, const char *name), void *to)
{
    if (from.len == 0 || from.len > KEYS_MAX) return false;
    CLEANUP(memory_let_go) struct xml_walk *w = NEW(struct xml_walk);
    w->parser = XML_ParserCreate(NULL);
    w->root = root;
    w->end = end;
    w->to = to;
    bool good = w->parser != NULL;
    if (good) {
        XML_SetUserData(w->parser, w);
        XML_SetElementHandler(w->parser, on_start, on_end);
        XML_SetCharacterDataHandler(w->parser, on_text);
        XML_SetStartDoctypeDeclHandler(w->parser, on_doctype);
        good = XML_Parse(w->parser, (const char *)from.data, (int)from.len, 1) == XML_STATUS_OK &&
               !w->bad;
        XML_ParserFree(w->parser);
    }
    return good;
}

static bool is(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

// Truncates the text to to_len. Replaces each character that is not printable with '?'.
static void take_text(char *to, size_t to_len, const char *from)
{
    size_t at = 0;
    for (; from[at] && at + 1 < to_len; at++) {
        unsigned char c = (unsigned char)from[at];
        to[at] = from[at];
        if (c < 0x20 || c >= 0x7f) to[at] = '?';
    }
    to[at] = 0;
}

static void error_field(struct s3_error *e, const char *name, const char *text)
{
    if (is(name, "Code")) take_text(e->code, sizeof e->code, text);
    if (is(name, "Message")) take_text(e->message, sizeof e->message, text);
    if (is(name, "Region")) take_text(e->region, sizeof e->region, text);
}

static void error_end(struct xml_walk *w, const char *parent, const char *name)
{
    if (w->depth == 1 && is(parent, "Error")) error_field(w->to, name, w->text);
}

bool s3_xml_error(struct bytes from, struct s3_error *out)
{
    *out = (struct s3_error){0};
    if (walk(from, "Error", error_end, out)) return true;
    *out = (struct s3_error){0};
    return false;
}

struct delete_answer {
    struct s3_error *first;
    struct s3_error now;
    size_t errors;
};

static void deleted_end(struct xml_walk *w, const char *parent, const char *name)
{
    struct delete_answer *d = w->to;
    if (w->depth == 2 && is(parent, "Error")) error_field(&d->now, name, w->text);
    if (w->depth != 1 || !is(name, "Error")) return;
    if (!is(d->now.code, "NoSuchKey") && d->errors++ == 0) *d->first = d->now;
    d->now = (struct s3_error){0};
}

bool s3_xml_deleted(struct bytes from, struct s3_error *first, size_t *errors)
{
    *first = (struct s3_error){0};
    struct delete_answer d = {.first = first};
    bool good = walk(from, "DeleteResult", deleted_end, &d);
    *errors = d.errors;
    return good;
}

static void versioning_end(struct xml_walk *w, const char *parent, const char *name)
{
    (void)parent;
    if (w->depth == 1 && is(name, "Status")) *(bool *)w->to = is(w->text, "Enabled");
}

bool s3_xml_versioning(struct bytes from, bool *on)
{
    *on = false;
    return walk(from, "VersioningConfiguration", versioning_end, on);
}

struct list_walk {
    struct s3_listing *out;
    struct s3_list_row now;
    bool has_key;
    bool url; // the keys are percent-encoded
};

void s3_listing_init(struct s3_listing *l)
{
    *l = (struct s3_listing){0};
    buf_init(&l->keys, KEYS_MAX);
}

void s3_listing_done(struct s3_listing *l)
{
    buf_done(&l->keys);
    memory_free(l->rows);
    *l = (struct s3_listing){0};
}

static void contents_field(struct xml_walk *w, const char *name)
{
    struct list_walk *l = w->to;
    if (is(name, "Key")) {
        l->now.key_at = l->out->keys.len;
        l->has_key = true;
        buf_put(&l->out->keys, bytes_of(w->text, w->text_len + 1));
        if (l->out->keys.bad) give_up(w);
    }
    if (is(name, "Size")) l->now.size = strtoull(w->text, NULL, 10);
    if (is(name, "LastModified") && !s3_time_iso(w->text, &l->now.modified_ms)) give_up(w);
}

static void contents_done(struct xml_walk *w)
{
    struct list_walk *l = w->to;
    if (!l->has_key || l->out->rows_len == S3_ROWS_MAX) {
        give_up(w);
        return;
    }
    l->out->rows[l->out->rows_len++] = l->now;
    l->now = (struct s3_list_row){0};
    l->has_key = false;
}

static void list_end(struct xml_walk *w, const char *parent, const char *name)
{
    struct list_walk *l = w->to;
    if (w->depth == 2 && is(parent, "Contents")) contents_field(w, name);
    if (w->depth != 1) return;
    if (is(name, "Contents")) contents_done(w);
    if (is(name, "IsTruncated")) l->out->more = is(w->text, "true");
    if (is(name, "EncodingType")) l->url = is(w->text, "url");
    if (is(name, "NextContinuationToken")) {
        if (w->text_len >= sizeof l->out->token)
            give_up(w);
        else
            memcpy(l->out->token, w->text, w->text_len + 1);
    }
}

// Decodes in place; the result is never longer. Here '+' stands for a space and %2B for a plus
// sign.
static bool url_decode(char *text)
{
    char *to = text;
    for (; *text; text++) {
        char c = *text;
        if (c == '+') c = ' ';
        if (c == '%') {
            int hi = digits_hex_value(text[1]);
            int lo = hi >= 0 ? digits_hex_value(text[2]) : -1;
            if (lo < 0 || (hi == 0 && lo == 0)) return false;
            c = (char)(hi * 16 + lo);
            text += 2;
        }
        *to++ = c;
    }
    *to = 0;
    return true;
}

bool s3_xml_listing(struct bytes from, struct s3_listing *out)
{
    buf_clear(&out->keys);
    out->rows_len = 0;
    out->more = false;
    out->token[0] = 0;
    if (!out->rows) out->rows = memory_zeroed(S3_ROWS_MAX, sizeof *out->rows);
    struct list_walk l = {.out = out};
    bool good = walk(from, "ListBucketResult", list_end, &l);
    for (size_t i = 0; good && l.url && i < out->rows_len; i++)
        good = url_decode((char *)out->keys.data + out->rows[i].key_at);
    if (!good) out->rows_len = 0;
    return good;
}

const char *s3_listed_key(const struct s3_listing *l, size_t row)
{
    return (const char *)l->keys.data + l->rows[row].key_at;
}

static void put_text(struct buf *to, const char *text)
{
    for (; *text; text++) {
        const char *as = NULL;
        if (*text == '&') as = "&amp;";
        if (*text == '<') as = "&lt;";
        if (*text == '>') as = "&gt;";
        buf_put(to, as ? bytes_str(as) : bytes_of(text, 1));
    }
}

void s3_xml_put_delete(struct buf *to, const char *prefix, const char *const *keys, size_t count)
{
    // Quiet: the answer lists only the keys that failed.
    buf_put(to, bytes_str("<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
                          "<Quiet>true</Quiet>"));
    for (size_t i = 0; i < count; i++) {
        buf_put(to, bytes_str("<Object><Key>"));
        put_text(to, prefix);
        put_text(to, keys[i]);
        buf_put(to, bytes_str("</Key></Object>"));
    }
    buf_put(to, bytes_str("</Delete>"));
}
