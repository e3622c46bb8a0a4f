// SPDX-License-Identifier: Apache-2.0
// Any bytes as a subject: they are refused with a reason, or print as themselves. Any bytes as a
// name: they print, come back, and match only the filter of their own name.
#include "../support/subject_match.h"
#include "base/check.h"
#include "events/subject.h"
#include "fuzz.h"

#include <string.h>

static void as_subject(struct bytes text)
{
    char room[SUBJECT_MAX], again[SUBJECT_MAX], why[SUBJECT_WHY_MAX] = "";
    struct subject s;
    if (subject_read(text, room, &s, why) != ERR_OK) {
        CHECK(why[0] && strlen(why) < SUBJECT_WHY_MAX);
        return;
    }
    CHECK(subject_print(&s, again) == ERR_OK);
    CHECK(bytes_equal(bytes_str(again), text));
}

static void as_names(struct bytes queue, struct bytes workflow)
{
    char text[SUBJECT_MAX], filter[SUBJECT_MAX], room[SUBJECT_MAX], why[SUBJECT_WHY_MAX];
    struct subject back, s = {.kind = SUBJECT_WORKFLOW,
                              .queue = queue,
                              .workflow = workflow,
                              .event = bytes_str("e")};
    struct subject_filter f = {.kind = SUBJECT_WORKFLOW, .queue = workflow};
    if (subject_print(&s, text) != ERR_OK) return;
    CHECK(subject_read(bytes_str(text), room, &back, why) == ERR_OK);
    CHECK(bytes_equal(back.queue, queue) && bytes_equal(back.workflow, workflow));
    CHECK(subject_filter_print(&f, filter) == ERR_OK);
    CHECK(subject_matches(bytes_str(filter), bytes_str(text)) == bytes_equal(queue, workflow));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    as_subject(bytes_of(data, len));
    if (len == 0) return 0;
    size_t cut = data[0] < len ? data[0] : len;
    as_names(bytes_of(data, cut), bytes_of(data + cut, len - cut));
    return 0;
}
