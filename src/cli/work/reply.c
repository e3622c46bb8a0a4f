// SPDX-License-Identifier: Apache-2.0
// The replies of a job's program: one JSON object per line.
//
//   {"number": 1}                          the signal with this number was done
//   {"number": 1, "answer": ...}           the same, with an answer: a text or any JSON value
//   {"number": 1, "decline": "too late"}   it is not done, and why
//   {"progress": 42, "text": "half"}       for the next renewal
//   {"result": ..., "type": "image/png"}   for the ack; the last one counts
//
// The program may write anything, and any amount. A line that is too long is skipped, and a line
// that cannot be used is ignored. The first of them is remarked.
#include "cli/work/talk.h"

#include "json/json.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define REASON_BYTES_MAX 4096 // of a decline
#define SHOWN            60   // bytes of a bad line in the remark

static void remark(struct job_conversation *t, struct bytes line, const char *what)
{
    if (t->remark[0]) return;
    int shown = (int)(line.len < SHOWN ? line.len : SHOWN);
    (void)snprintf(t->remark, sizeof t->remark, "%s: %.*s%s", what, shown,
                   line.len > 0 ? (const char *)line.data : "", line.len > SHOWN ? "..." : "");
}

// A text as it is, another value as JSON. The caller frees it.
static struct buf value_bytes(struct json *value, bool *is_json)
{
    struct buf out;
    buf_init(&out, SIZE_MAX);
    *is_json = json_kind(value) != JSON_KIND_TEXT;
    if (*is_json)
        json_write(json_again(value), &out);
    else
        buf_put(&out, json_as_text(value));
    return out;
}

static struct job_signal *find_signal(struct job_conversation *t, int64_t number)
{
    for (struct job_signal *s = t->first; s; s = s->next)
        if (s->number == number && !s->done) return s;
    return NULL;
}

static void take_answer(struct job_conversation *t, struct json *o, struct bytes line)
{
    struct json *number = json_member(o, "number"), *why = json_member(o, "decline");
    struct json *answer = why ? why : json_member(o, "answer");
    if (json_kind(number) != JSON_KIND_NUMBER) {
        remark(t, line, "\"number\" is not a number");
        return;
    }
    struct job_signal *s = find_signal(t, json_as_number(number));
    if (!s) {
        remark(t, line, "no signal with this number is open");
        return;
    }
    bool is_json;
    LOCAL(buf, bytes, 0);
    if (answer && json_kind(answer) != JSON_KIND_NULL) bytes = value_bytes(answer, &is_json);
    if (bytes.len > (why ? REASON_BYTES_MAX : (size_t)SLUICE_ANSWER_MAX)) {
        remark(t, line,
               why ? "the reason has more than 4,096 bytes" : "the answer has more than 256 KiB");
    } else {
        job_signal_end(s, why != NULL, bytes.data, bytes.len);
    }
}

static void take_result(struct job_conversation *t, struct json *o, struct bytes line)
{
    struct json *type = json_member(o, "type");
    bool is_json;
    struct buf bytes = value_bytes(json_member(o, "result"), &is_json);
    struct bytes name = bytes_str(is_json ? "application/json" : "");
    if (type && json_kind(type) == JSON_KIND_TEXT) name = json_as_text(type);
    if (bytes.len > SLUICE_RESULT_MAX) {
        remark(t, line, "the result has more than 256 KiB");
    } else if (name.len >= sizeof t->result_type || strlen((const char *)name.data) != name.len) {
        remark(t, line, "the type of the result is too long");
    } else {
        bytes_free(t->result);
        t->result = buf_take(&bytes);
        t->has_result = true;
        (void)snprintf(t->result_type, sizeof t->result_type, "%s", (const char *)name.data);
    }
    buf_done(&bytes);
}

// A text that is too long is cut between characters.
static void take_progress(struct job_conversation *t, struct json *o, struct bytes line)
{
    struct json *percent = json_member(o, "progress"), *text = json_member(o, "text");
    bool whole = json_kind(percent) == JSON_KIND_NUMBER;
    double value = whole                                      ? (double)json_as_number(percent)
                   : json_kind(percent) == JSON_KIND_FRACTION ? json_as_fraction(percent)
                                                              : -1;
    if (!(value >= 0 && value <= 100)) {
        remark(t, line, "\"progress\" is not a number from 0 to 100");
        return;
    }
    struct bytes words = BYTES_EMPTY;
    if (text && json_kind(text) == JSON_KIND_TEXT) words = json_as_text(text);
    size_t len = words.len < SLUICE_PROGRESS_TEXT_MAX ? words.len : SLUICE_PROGRESS_TEXT_MAX;
    while (len > 0 && len < words.len && (words.data[len] & 0xc0) == 0x80)
        len--;
    t->has_progress = true;
    t->percent = (int)value;
    for (size_t i = 0; i < len; i++)
        t->progress[i] = words.data[i] < ' ' || words.data[i] == 127 ? ' ' : (char)words.data[i];
    t->progress[len] = '\0';
}

static void take_line(struct job_conversation *t, struct bytes line)
{
    char error[100];
    if (line.len == 0) return;
    struct json *o = json_parse((const char *)line.data, line.len, error, sizeof error);
    if (!o || json_kind(o) != JSON_KIND_OBJECT) {
        remark(t, line, "the line is not a JSON object");
        json_free(o);
        return;
    }
    bool number = json_member(o, "number"), result = json_member(o, "result"),
         progress = json_member(o, "progress");
    if (number) take_answer(t, o, line);
    if (result) take_result(t, o, line);
    if (progress) take_progress(t, o, line);
    if (!number && !result && !progress)
        remark(t, line, "the line has none of \"number\", \"result\" and \"progress\"");
    json_free(o);
}

void talk_take(struct job_conversation *t, const uint8_t *bytes, size_t len)
{
    while (len > 0) {
        const uint8_t *end = memchr(bytes, '\n', len);
        size_t some = end ? (size_t)(end - bytes) : len;
        if (!t->skips) buf_put(&t->line, bytes_of(bytes, some));
        if (t->line.bad) {
            remark(t, bytes_of(bytes, some), "a line has more than 2 MiB");
            t->skips = true;
            buf_clear(&t->line);
        }
        if (end && !t->skips) take_line(t, buf_bytes(&t->line));
        if (end) {
            t->skips = false;
            buf_clear(&t->line);
            some++;
        }
        bytes += some;
        len -= some;
    }
}

void talk_read(struct job_conversation *t)
{
    uint8_t some[16384];
    for (size_t total = 0; total < TALK_AT_ONCE && t->reply_fd >= 0;) {
        ssize_t n = read(t->reply_fd, some, sizeof some);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return;
        if (n == 0) {
            take_line(t, buf_bytes(&t->line)); // without its newline
            buf_clear(&t->line);
            (void)close(t->reply_fd);
            t->reply_fd = -1;
            talk_stop(t); // it cannot answer any more
            return;
        }
        talk_take(t, some, (size_t)n);
        total += (size_t)n;
    }
}
