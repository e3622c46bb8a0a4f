// SPDX-License-Identifier: Apache-2.0
// Writes and reads the record of an import.
#include "import/resume.h"

#include "base/check.h"
#include "base/digits.h"
#include "base/hash.h"
#include "import/answer.h"

#include <stdio.h>
#include <string.h>

#define VERSION     "1"
#define HASH_DIGITS 16
#define MARGIN_MS   10000 // two clocks may differ: this machine's and the store's

void resume_done(struct resume *r)
{
    ids_done(&r->done);
    ids_done(&r->open);
    *r = (struct resume){0};
}

static bool next_number(struct bytes *rest, uint64_t *out)
{
    return answer_digits(answer_next_word(rest), out);
}

static bool next_moment(struct bytes *rest, int64_t *out)
{
    uint64_t n;
    if (!next_number(rest, &n) || n > INT64_MAX) return false;
    *out = (int64_t)n;
    return true;
}

static bool copy_text(char *to, size_t size, struct bytes from)
{
    if (from.len == 0 || from.len >= size || memchr(from.data, 0, from.len)) return false;
    memcpy(to, from.data, from.len);
    to[from.len] = '\0';
    return true;
}

static bool fold_head(struct resume *r, struct bytes rest)
{
    return bytes_equal(answer_next_word(&rest), bytes_str(VERSION)) &&
           copy_text(r->queue_id, sizeof r->queue_id, answer_next_word(&rest)) &&
           copy_text(r->lineage, sizeof r->lineage, answer_next_word(&rest)) &&
           next_number(&rest, &r->base) && next_moment(&rest, &r->began_at) &&
           copy_text(r->source, sizeof r->source, rest);
}

static bool fold_run(struct resume *r, struct bytes rest)
{
    r->runs++;
    return next_moment(&rest, &r->last_at) && next_number(&rest, &r->gone) && rest.len == 0;
}

static void open_batch(struct resume *r, int64_t now, const struct ids *batch)
{
    if (r->open.len == 0) {
        r->open_at = now;
        r->open_gone = r->gone;
    }
    if (now < r->open_at) r->open_at = now;
    for (size_t i = 0; i < batch->len; i++)
        ids_add_range(&r->open, batch->ranges[i].first, batch->ranges[i].last);
    r->last_at = now;
}

static void close_batch(struct resume *r, uint64_t sent, uint64_t known, const struct ids *batch)
{
    r->sent += sent;
    r->known += known;
    for (size_t i = 0; i < batch->len; i++) {
        struct id_range range = batch->ranges[i];
        ids_add_range(&r->done, range.first, range.last);
        ids_cut(&r->open, range.first, range.last);
    }
}

static bool fold_begin(struct resume *r, struct bytes rest)
{
    struct ids batch CLEANUP(ids_done) = {0};
    int64_t now;
    if (!next_moment(&rest, &now) || !ids_read(&batch, answer_next_word(&rest)) || rest.len)
        return false;
    open_batch(r, now, &batch);
    return true;
}

static bool fold_sent(struct resume *r, struct bytes rest)
{
    struct ids batch CLEANUP(ids_done) = {0};
    uint64_t sent, known;
    if (!next_number(&rest, &sent) || !next_number(&rest, &known) ||
        !ids_read(&batch, answer_next_word(&rest)) || rest.len || sent > batch.count ||
        known > batch.count - sent)
        return false;
    close_batch(r, sent, known, &batch);
    return true;
}

static bool fold_line(struct resume *r, struct bytes line, bool first)
{
    struct bytes rest = line, word = answer_next_word(&rest);
    if (first) return bytes_equal(word, bytes_str("sluice-import")) && fold_head(r, rest);
    if (bytes_equal(word, bytes_str("run"))) return fold_run(r, rest);
    if (bytes_equal(word, bytes_str("begin"))) return fold_begin(r, rest);
    return bytes_equal(word, bytes_str("done")) && fold_sent(r, rest);
}

static void put_hash(struct bytes line, char out[HASH_DIGITS])
{
    char *end = digits_put_hex64(out, hash64_of(line, 0));
    CHECK(end == out + HASH_DIGITS);
}

// Checks the hash at the end of a line, and cuts it off.
static bool take_hash(struct bytes *line)
{
    char expected[HASH_DIGITS];
    if (line->len < HASH_DIGITS + 1) return false;
    struct bytes text = bytes_of(line->data, line->len - HASH_DIGITS - 1);
    put_hash(text, expected);
    bool good = line->data[text.len] == ' ' &&
                memcmp(line->data + text.len + 1, expected, HASH_DIGITS) == 0;
    *line = text;
    return good;
}

enum err resume_read(struct resume *r, struct bytes text, size_t *used, char *why, size_t why_len)
{
    CHECK(r->runs == 0 && r->done.len == 0 && r->open.len == 0);
    *used = 0;
    for (size_t number = 1; *used < text.len; number++) {
        const uint8_t *from = text.data + *used, *end = memchr(from, '\n', text.len - *used);
        if (!end) return ERR_OK;
        struct bytes line = bytes_of(from, (size_t)(end - from));
        size_t whole = line.len + 1;
        bool last = *used + whole == text.len, good = take_hash(&line);
        if (!good && last) return ERR_OK; // the machine stopped while it was written
        if (!good || !fold_line(r, line, number == 1)) {
            (void)snprintf(why, why_len, "line %zu is not what an import writes", number);
            return ERR_CORRUPT;
        }
        *used += whole;
    }
    return ERR_OK;
}

// Ends the line that begins at `from` with its hash.
static void end_line(struct buf *to, size_t from)
{
    char hash[HASH_DIGITS];
    CHECK(!to->bad && from < to->len);
    put_hash(bytes_of(to->data + from, to->len - from), hash);
    buf_put_u8(to, ' ');
    buf_put(to, bytes_of(hash, HASH_DIGITS));
    buf_put_u8(to, '\n');
}

static void put_word(struct buf *to, const char *word)
{
    buf_put(to, bytes_str(word));
    buf_put_u8(to, ' ');
}

static void put_number(struct buf *to, uint64_t n)
{
    char digits[DIGITS_MAX + 1];
    char *end = digits_put(digits, n);
    *end++ = ' ';
    buf_put(to, bytes_of(digits, (size_t)(end - digits)));
}

void resume_head(struct resume *r, struct buf *to)
{
    size_t from = to->len;
    CHECK(r->queue_id[0] && r->lineage[0] && r->source[0] && r->began_at >= 0);
    put_word(to, "sluice-import " VERSION);
    put_word(to, r->queue_id);
    put_word(to, r->lineage);
    put_number(to, r->base);
    put_number(to, (uint64_t)r->began_at);
    buf_put(to, bytes_str(r->source));
    end_line(to, from);
}

void resume_run(struct resume *r, int64_t now, uint64_t gone, struct buf *to)
{
    size_t from = to->len;
    CHECK(now >= 0);
    put_word(to, "run");
    put_number(to, (uint64_t)now);
    put_number(to, gone);
    to->len--; // the last space
    end_line(to, from);
    r->runs++;
    r->last_at = now;
    r->gone = gone;
}

void resume_begin(struct resume *r, int64_t now, const struct ids *batch, struct buf *to)
{
    size_t from = to->len;
    CHECK(batch->len > 0 && now >= 0);
    put_word(to, "begin");
    put_number(to, (uint64_t)now);
    ids_write(batch, to);
    end_line(to, from);
    open_batch(r, now, batch);
}

void resume_sent(struct resume *r, uint64_t sent, uint64_t known, const struct ids *batch,
                 struct buf *to)
{
    size_t from = to->len;
    CHECK(sent + known == batch->count);
    put_word(to, "done");
    put_number(to, sent);
    put_number(to, known);
    ids_write(batch, to);
    end_line(to, from);
    close_batch(r, sent, known, batch);
}

bool resume_keys_live(const struct resume *r, int64_t now, int64_t window_ms)
{
    CHECK(window_ms >= 0);
    if (r->open.len == 0) return true;
    return now >= r->open_at && now - r->open_at < window_ms - MARGIN_MS;
}
