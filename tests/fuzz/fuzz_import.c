// SPDX-License-Identifier: Apache-2.0
// Any bytes as answers of a beanstalkd, as the record of an import, and as a URL. The first byte
// picks one.
#include "base/check.h"
#include "fuzz.h"
#include "import/answer.h"
#include "import/resume.h"

#include <stdlib.h>
#include <string.h>

static void answers(struct bytes from)
{
    struct beanstalk_answer a;
    size_t used;
    while (answer_read(from, &a, &used) == ANSWER_ONE) {
        CHECK(used > 0 && used <= from.len);
        CHECK(a.body.len <= used);
        struct bytes value;
        uint64_t n;
        (void)answer_value(a.body, "state", &value);
        (void)answer_number(a.body, "pri", &n);
        for (size_t at = 0; answer_item(a.body, &at, &value);)
            CHECK(value.len <= a.body.len);
        from = bytes_of(from.data + used, from.len - used);
    }
}

static void record(struct bytes from)
{
    struct resume r = {0};
    size_t used;
    char why[100] = "";
    enum err e = resume_read(&r, from, &used, why, sizeof why);
    CHECK(e == ERR_OK || (e == ERR_CORRUPT && why[0] != 0));
    CHECK(used <= from.len);
    (void)resume_keys_live(&r, 1, 300000);
    resume_done(&r);
}

static void set(struct bytes from)
{
    struct ids s = {0}, again = {0};
    struct buf text;
    buf_init(&text, 1 << 20);
    if (ids_read(&s, from)) {
        ids_write(&s, &text);
        CHECK(ids_read(&again, buf_bytes(&text)));
        CHECK(again.count == s.count && again.len == s.len);
    }
    buf_done(&text);
    ids_done(&s);
    ids_done(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len == 0 || len > 65536) return 0;
    struct bytes rest = bytes_of(data + 1, len - 1);
    struct tube_place place;
    char why[400] = "";
    char *text = calloc(1, len);
    CHECK(text != NULL);
    memcpy(text, data + 1, len - 1);
    switch (data[0] % 4) {
    case 0:
        answers(rest);
        break;
    case 1:
        record(rest);
        break;
    case 2:
        set(rest);
        break;
    default:
        CHECK(tube_place_read(text, &place, why, sizeof why) || why[0] != 0);
        (void)jobs_states(text);
    }
    free(text);
    return 0;
}
