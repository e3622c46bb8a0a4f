// SPDX-License-Identifier: Apache-2.0
// Any bytes as the shared files, as a service's or program's answer, and as a command to split. The
// first byte says which.
#include "base/check.h"
#include "fuzz.h"
#include "store/s3/auth/ini.h"
#include "store/s3/auth/keys.h"
#include "store/s3/auth/process.h"
#include "store/s3/auth/profile.h"

#include <string.h>

#define WHY_SIZE 256

// Every item lies inside the text, on a line that is there, in order.
struct seen {
    struct bytes text;
    int line;
};

static void inside(struct bytes text, struct bytes part)
{
    if (!part.len) return;
    CHECK(part.data >= text.data);
    CHECK(part.data + part.len <= text.data + text.len);
}

static const char *look(void *ctx, const struct ini_item *item)
{
    struct seen *s = ctx;
    CHECK(item->section.len > 0);
    CHECK(item->line > s->line);
    s->line = item->line;
    inside(s->text, item->section);
    inside(s->text, item->name);
    inside(s->text, item->nested);
    inside(s->text, item->value);
    return NULL;
}

static void as_files(struct bytes text)
{
    static const struct s3_files files = {.config.shown = "config",
                                          .credentials.shown = "credentials"};
    struct seen seen = {.text = text};
    struct ini_problem problem = {0};
    bool good = ini_walk(text, look, &seen, &problem);
    if (!good) CHECK(problem.text && problem.line > seen.line);
    size_t half = text.len / 2;
    struct bytes rest = bytes_of(text.data + half, text.len - half);
    static const char *const profiles[] = {"default", "a"};
    for (size_t i = 0; i < 4; i++) {
        struct s3_section s;
        char why[WHY_SIZE] = "";
        enum err err =
            s3_section_parse(i < 2 ? text : bytes_of(text.data, half), i < 2 ? text : rest, &files,
                             profiles[i % 2], &s, why, sizeof why);
        CHECK(!err || *why);
        if (err) continue;
        CHECK(!*s.keys.access_key == !*s.keys.secret_key);
        CHECK(!*s.keys.access_key || !s3_keys_problem(&s.keys));
    }
}

static void as_answer(struct bytes text, bool process)
{
    struct s3_source_answer fetched = {0};
    char why[WHY_SIZE] = "";
    enum err err = s3_keys_read(text, process, &fetched, why, sizeof why);
    CHECK(!err || *why);
    if (err) return;
    CHECK(!s3_keys_problem(&fetched.keys));
    // What can be read whole cannot be read when it is cut.
    size_t end = text.len;
    while (end && memchr(" \t\r\n", text.data[end - 1], 4))
        end--;
    CHECK(s3_keys_read(bytes_of(text.data, end - 1), process, &fetched, why, sizeof why));
}

static void as_command(struct bytes text)
{
    char command[S3_URL_MAX + 8];
    struct process_arguments words;
    if (!secret_copy(command, sizeof command, text) || !process_split(command, &words)) return;
    CHECK(words.len > 0);
    CHECK(!words.argv[words.len]);
    for (size_t i = 0; i < words.len; i++)
        CHECK(words.argv[i] + strlen(words.argv[i]) < words.text + sizeof words.text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len == 0) return 0;
    struct bytes rest = bytes_of(data + 1, len - 1);
    switch (data[0] % 4) {
    case 0:
        as_files(rest);
        break;
    case 1:
        as_answer(rest, false);
        break;
    case 2:
        as_answer(rest, true);
        break;
    default:
        as_command(rest);
    }
    return 0;
}
