// SPDX-License-Identifier: Apache-2.0
// Any bytes as each of the texts that coordination reads: records, and the answers of etcd and
// Consul. The first byte picks one.
#include "base/check.h"
#include "coord/kv/consul_text.h"
#include "coord/kv/endpoints.h"
#include "coord/kv/etcd_text.h"
#include "coord/record.h"
#include "fuzz.h"

#include <string.h>

static void member(struct bytes input)
{
    struct coord_member m, again;
    struct buf text;
    if (!member_parse(input, &m)) {
        CHECK(m.name[0] == 0);
        return;
    }
    buf_init(&text, COORD_RECORD_MAX);
    member_print(&m, &text);
    CHECK(!text.bad);
    CHECK(member_parse(buf_bytes(&text), &again));
    CHECK(memcmp(&m, &again, sizeof m) == 0);
    buf_done(&text);
}

static void holder(struct bytes input)
{
    struct holder_record h, again;
    struct buf text;
    if (!holder_parse(input, &h)) {
        CHECK(h.holder.token == 0);
        return;
    }
    CHECK(h.holder.token > 0 && h.holder.token <= COORD_TOKEN_MAX);
    buf_init(&text, COORD_RECORD_MAX);
    holder_print(&h, &text);
    CHECK(holder_parse(buf_bytes(&text), &again));
    CHECK(memcmp(&h, &again, sizeof h) == 0);
    buf_done(&text);
}

static void items(struct bytes input, bool etcd)
{
    struct kv_items to;
    struct etcd_reply r;
    kv_items_init(&to);
    bool good = etcd ? etcd_range_parse(input, "sluice/", &r, &to)
                     : consul_pairs_parse(input, "sluice/", &to);
    CHECK(good || to.len == 0);
    for (size_t i = 0; i < to.len; i++) {
        CHECK(to.all[i].revision > 0);
        CHECK(strlen(to.all[i].session) <= KV_SESSION_MAX);
        CHECK(kv_value(&to, &to.all[i]).len == to.all[i].value_len);
    }
    kv_items_done(&to);
}

static void small_answers(struct bytes input)
{
    struct etcd_error error;
    struct etcd_reply reply;
    char session[KV_SESSION_MAX + 1], what[COORD_WHY_MAX], uuid[CONSUL_UUID_LEN + 1];
    uint8_t id[COORD_ID_LEN];
    uint64_t cluster = 0;
    etcd_error_parse(input, &error);
    CHECK(error.code >= -1 && error.code <= 16);
    CHECK(etcd_reply_parse(input, &reply) || reply.cluster_id == 0 || reply.ttl == 0);
    CHECK(etcd_watch_parse(input, &cluster) <= ETCD_WATCH_BAD);
    CHECK(consul_session_parse(input, session) == (session[0] != 0));
    CHECK(consul_sessions_count(input) >= -1);
    consul_rollback_parse(input, what);
    CHECK(strlen(what) < COORD_WHY_MAX);
    if (consul_uuid_parse(input, id)) {
        consul_uuid_print(id, uuid);
        CHECK(strlen(uuid) == CONSUL_UUID_LEN);
    }
}

static void url(struct bytes input)
{
    char text[400], why[COORD_WHY_MAX];
    struct endpoints e = {0};
    if (input.len >= sizeof text) return;
    memcpy(text, input.data, input.len);
    text[input.len] = 0;
    if (endpoints_parse(&e, text, true, 2379, why) != ERR_OK) return;
    CHECK(e.len > 0 && e.len <= ENDPOINTS_MAX);
    for (size_t i = 0; i < e.len; i++)
        CHECK(strncmp(e.base[i], "https://", 8) == 0 && !strchr(e.base[i], '@'));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len < 2) return 0;
    struct bytes input = bytes_of(data + 1, len - 1);
    switch (data[0] % 6) {
    case 0:
        member(input);
        break;
    case 1:
        holder(input);
        break;
    case 2:
        items(input, true);
        break;
    case 3:
        items(input, false);
        break;
    case 4:
        small_answers(input);
        break;
    default:
        url(input);
    }
    return 0;
}
