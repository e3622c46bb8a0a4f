// SPDX-License-Identifier: Apache-2.0
// Any bytes as what is loaded or read back: a machine's snapshot, a result, headers, a
// configuration, a catalog record, the records of a journal segment.
#include "base/check.h"
#include "fuzz.h"
#include "queue/core/machine.h"
#include "queues/catalog.h"
#include "store/file/segment.h"

static void load_machine(struct bytes input)
{
    struct queue_id id = {"a fuzzed queue"};
    struct queue_config config;
    config_defaults(&config);
    struct machine *m = machine_new(&id, 0, &config);
    uint64_t empty = machine_digest(m);
    if (machine_load(m, input)) {
        CHECK(machine_digest(m) == empty);
    } else {
        machine_check(m);
    }
    machine_free(m);
}

static void read_results(struct bytes input)
{
    for (uint16_t kind = OP_SEND; kind < OP_KIND_END; kind++) {
        struct result r;
        struct send_row send;
        struct grant grant;
        struct outcome_row outcome;
        if (result_open(input, kind, &r)) continue;
        while (kind == OP_SEND && send_row_next(&r, &send))
            ;
        while ((kind == OP_CLAIM || kind == OP_TAKE || kind == OP_PUBLISH) &&
               grant_next(&r, &grant))
            ;
        while (kind >= OP_RENEW && kind <= OP_RELEASE && outcome_row_next(&r, &outcome))
            ;
    }
}

static void read_config(struct bytes input)
{
    struct reader r = reader_of(input);
    struct queue_config c;
    struct config_pair pair;
    if (config_decode(&r, &c)) return;
    struct queue_config same;
    config_defaults(&same);
    for (size_t i = 0; config_print(&c, i, &pair); i++)
        if (pair.value[0] != 0) CHECK(!config_set(&same, pair.key, pair.value, NULL));
}

static void read_catalog(struct bytes input)
{
    struct catalog_row row;
    CLEANUP(buf_done) struct buf again;
    buf_init(&again, 4096);
    if (catalog_decode(input, &row)) return;
    catalog_encode(&row, &again);
    CHECK(bytes_equal(buf_bytes(&again), input));
}

static void scan_segment(struct bytes input)
{
    struct segment_head head = {.first = 1, .salt = 7};
    struct segment_scan scan;
    struct record r;
    struct segment_head read;
    (void)segment_head_read(input, &read);
    (void)record_read(input, head.salt, SEGMENT_HEADER_LEN, &r);
    if (input.len < SEGMENT_HEADER_LEN) return; // such a file is not scanned
    segment_scan(input, &head, &scan);
    CHECK(scan.next >= head.first);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct bytes input = bytes_of(data, len);
    struct reader headers = reader_of(input);
    struct bytes name, value;
    while (headers_next(&headers, &name, &value))
        ;
    load_machine(input);
    read_results(input);
    read_config(input);
    read_catalog(input);
    scan_segment(input);
    return 0;
}
