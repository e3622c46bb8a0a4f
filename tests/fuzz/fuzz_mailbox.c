// SPDX-License-Identifier: Apache-2.0
// Any bytes as a mailbox object, as it is and with a right checksum. One that is read is written
// again as the same bytes.
#include "base/check.h"
#include "base/hash.h"
#include "fuzz.h"
#include "mailbox/object.h"

static void try_object(struct bytes input)
{
    struct mailbox_object o;
    if (mailbox_decode(input, &o)) return;
    CHECK(o.number > 0 && o.instance > 0 && o.worker.len > 0);
    struct reader rows = reader_of(o.rows);
    struct mailbox_row row;
    for (uint32_t i = 0; i < o.count; i++) {
        struct mailbox_answer answer;
        struct mailbox_signals signals;
        struct mailbox_ticket ticket;
        CHECK(mailbox_row_next(&rows, &row));
        CHECK(row.kind != MAILBOX_ANSWER || mailbox_answer_read(&row, &answer));
        CHECK(row.kind != MAILBOX_SIGNALS || mailbox_signals_read(&row, &signals));
        CHECK(row.kind != MAILBOX_TICKET || mailbox_ticket_read(&row, &ticket));
    }
    struct buf again;
    buf_init(&again, SIZE_MAX);
    mailbox_encode(&again, &o);
    CHECK(bytes_equal(buf_bytes(&again), input));
    buf_done(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char box[MAILBOX_BOX_MAX + 1], key[MAILBOX_KEY_MAX];
    try_object(bytes_of(data, size));
    struct buf sealed;
    buf_init(&sealed, SIZE_MAX);
    buf_put(&sealed, bytes_of(data, size));
    if (size >= 12) buf_set_u32(&sealed, 8, (uint32_t)(size + 16));
    buf_put_hash128(&sealed, hash128_of(buf_bytes(&sealed)));
    try_object(buf_bytes(&sealed));
    buf_done(&sealed);
    uint64_t number;
    buf_init(&sealed, SIZE_MAX);
    buf_put(&sealed, bytes_str("q/1/0/box/in/"));
    buf_put(&sealed, bytes_of(data, size < 300 ? size : 300));
    buf_put_u8(&sealed, 0);
    if (mailbox_key_read((const char *)sealed.data, "q/1/0", MAILBOX_IN, box, &number)) {
        mailbox_key(key, "q/1/0", MAILBOX_IN, box, number);
        CHECK(bytes_equal(bytes_str(key), bytes_str((const char *)sealed.data)));
    }
    buf_done(&sealed);
    return 0;
}
