// SPDX-License-Identifier: Apache-2.0
// Any bytes as an envelope: they are refused with a reason, or they print to a text that reads and
// prints as itself, with a subject and headers.
#include "base/check.h"
#include "events/envelope.h"
#include "fuzz.h"

#include <string.h>

static void see_header(void *ctx, const char *name, const char *value)
{
    (void)ctx;
    CHECK(strncmp(name, "ce-", 3) == 0);
    for (; *value; value++)
        CHECK(*value > ' ' && *value < 0x7f);
}

static void check_again(const struct envelope *e)
{
    char why[ENVELOPE_WHY_MAX], subject[SUBJECT_MAX], id[ENVELOPE_ID_MAX];
    struct read_envelope in;
    struct buf first, second;
    buf_init(&first, ENVELOPE_MAX);
    buf_init(&second, ENVELOPE_MAX);
    envelope_print(e, &first);
    if (!first.bad) { // it may need more bytes than it had
        CHECK(envelope_read(buf_bytes(&first), &in, why) == ERR_OK);
        envelope_print(&in.envelope, &second);
        CHECK(bytes_equal(buf_bytes(&first), buf_bytes(&second)));
        envelope_in_done(&in);
    }
    struct subject s = envelope_subject(e);
    (void)!subject_print(&s, subject);
    envelope_message_id(e, id);
    envelope_headers(e, see_header, NULL);
    buf_done(&first);
    buf_done(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char why[ENVELOPE_WHY_MAX] = "";
    struct read_envelope in;
    if (envelope_read(bytes_of(data, len), &in, why) == ERR_OK)
        check_again(&in.envelope);
    else
        CHECK(why[0] && strlen(why) < ENVELOPE_WHY_MAX);
    envelope_in_done(&in);
    return 0;
}
