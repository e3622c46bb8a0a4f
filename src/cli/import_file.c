// SPDX-License-Identifier: Apache-2.0
// Copies a file of JSON lines. A line has the fields of a message in the HTTP API. The number of a
// line tells one from another, so the file must not change between two runs of an import.
#include "base/digits.h"
#include "base/hash.h"
#include "cli/import.h"
#include "protocol/message.h"
#include "protocol/routes.h"
#include "json/json.h"
#include "json/raw.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define BATCH_BYTES ((size_t)2 << 20)
#define HEAD_BYTES  65536

struct line_import {
    struct import_run *run;
    const char *path;
    FILE *file;
    char *line;
    size_t line_cap;
    uint64_t number; // of the line
    struct import_item items[IMPORT_BATCH_MAX];
    struct kept_texts kept[IMPORT_BATCH_MAX];
    struct buf values[IMPORT_BATCH_MAX]; // bodies that are JSON values
    size_t len;
    size_t bytes;
};

static int unreadable(const struct line_import *l)
{
    return cli_fail_as(l->run->sending.cli, SLUICE_INVALID, "SOURCE", "%s cannot be read: %s",
                       l->path, strerror(errno));
}

static int wrong_line(const struct line_import *l, const char *why)
{
    progress_end(&l->run->progress);
    return cli_fail_as(l->run->sending.cli, SLUICE_INVALID, "SOURCE",
                       "line %llu of %s: %.280s; %llu lines are copied",
                       (unsigned long long)l->number, l->path, why,
                       (unsigned long long)(l->run->record.sent + l->run->record.known));
}

// Writes a value as it stands in the line, without white space.
static void write_value(struct bytes line, struct json *value, struct buf *to)
{
    struct bytes key, text;
    for (struct json_walk w = json_walk_of(line); json_walk_next(&w, &key, &text);) {
        if (!bytes_equal(key, bytes_str("body")) || !json_raw_ok(text)) continue;
        uint8_t *room = buf_grow(to, json_raw_compact_len(text));
        if (room) json_raw_compact(text, (char *)room);
        return;
    }
    json_write(json_again(value), to);
}

// Reads the body of the line that was added last.
static int read_body(struct line_import *l, struct json *object, struct bytes line)
{
    size_t at = l->len - 1;
    struct sluice_send *m = &l->items[at].message;
    struct json *value = json_member(object, "body");
    struct bytes text;
    if (value && m->body && json_kind(value) == JSON_KIND_NULL) value = NULL;
    if (!value == !m->body)
        return wrong_line(l, "give body, which is any JSON value, or bodyBase64");
    if (!value) return 0;
    if (json_kind(value) == JSON_KIND_TEXT) {
        text = json_as_text(value);
    } else {
        write_value(line, value, &l->values[at]);
        text = buf_bytes(&l->values[at]);
        message_mark_json(m, &l->kept[at]);
    }
    m->body = text.data;
    m->body_len = text.len;
    return 0;
}

static int read_line(struct line_import *l, size_t len)
{
    char why[300] = "";
    struct sluice_error error = {0};
    struct kept_texts *kept = &l->kept[l->len];
    l->items[l->len] = (struct import_item){.id = l->number};
    *kept = (struct kept_texts){0};
    buf_init(&l->values[l->len], SIZE_MAX);
    struct json *object = kept->json = json_parse(l->line, len, why, sizeof why);
    struct sluice_send *m = &l->items[l->len].message;
    l->len++; // it is freed with the others, whatever comes
    if (!object) return wrong_line(l, why);
    if (json_kind(object) != JSON_KIND_OBJECT) return wrong_line(l, "it is not a JSON object");
    if (fields_read(object, "", &message_fields, m, kept, &error) != SLUICE_OK)
        return wrong_line(l, error.message);
    if (m->dedup) return wrong_line(l, "leave dedup out: the import gives each line its own key");
    int status = read_body(l, object, bytes_of(l->line, len));
    l->bytes += m->body_len;
    return status;
}

static void clear(struct line_import *l)
{
    for (size_t i = 0; i < l->len; i++) {
        kept_done(&l->kept[i]);
        buf_done(&l->values[i]);
    }
    l->len = 0;
    l->bytes = 0;
}

static int copy(struct line_import *l)
{
    int status = l->len ? import_batch(l->run, l->items, l->len) : 0;
    clear(l);
    return status;
}

static int copy_lines(struct line_import *l)
{
    for (;;) {
        errno = 0;
        ssize_t len = getline(&l->line, &l->line_cap, l->file);
        if (len < 0) return ferror(l->file) || errno == ENOMEM ? unreadable(l) : copy(l);
        l->number++;
        while (len > 0 && strchr("\r\n", l->line[len - 1]))
            len--;
        if (len == 0) continue;
        int status = read_line(l, (size_t)len);
        if (status == 0 && (l->len == IMPORT_BATCH_MAX || l->bytes >= BATCH_BYTES))
            status = copy(l);
        if (status) return status;
    }
}

// Tells a file from one that was written anew.
static int lineage_of(struct line_import *l, char out[17])
{
    struct stat about;
    char head[HEAD_BYTES];
    size_t len = fread(head, 1, sizeof head, l->file);
    if (ferror(l->file) || fseek(l->file, 0, SEEK_SET) != 0 || fstat(fileno(l->file), &about) != 0)
        return unreadable(l);
    LOCAL(buf, all, HEAD_BYTES + 64);
    buf_put(&all, bytes_of(head, len));
    buf_put_i64(&all, about.st_size);
    buf_put_i64(&all, about.st_mtim.tv_sec);
    buf_put_i64(&all, about.st_mtim.tv_nsec);
    *digits_put_hex64(out, hash64_of(buf_bytes(&all), 0)) = '\0';
    return 0;
}

int import_file(struct import_run *run, const char *path)
{
    struct line_import *l = cli_alloc(sizeof *l);
    char lineage[17];
    *l = (struct line_import){.run = run, .path = path, .file = fopen(path, "re")};
    run->noun = "line";
    run->scope = "";
    run->keep = true;
    int status = l->file ? lineage_of(l, lineage) : unreadable(l);
    if (status == 0) status = import_record_open(run, lineage, LINEAGE_FIXED);
    if (status == 0) status = copy_lines(l);
    progress_end(&run->progress);
    if (status == 0) status = import_report(run, NULL);
    clear(l);
    if (l->file) (void)fclose(l->file);
    free(l->line);
    free(l);
    return status;
}
