// SPDX-License-Identifier: Apache-2.0
#include "protocol/shards_answer.h"

#include "protocol/routes.h"
#include "json/json.h"

bool shards_read(struct bytes body, struct sluice_shard **out, size_t *len)
{
    void *rows = NULL;
    *out = NULL;
    *len = 0;
    struct json *o = json_read_object(body);
    if (!o) return false;
    *len = fields_take_rows(o, "shards", &shard_answer, sizeof **out, &rows);
    *out = rows;
    json_free(o);
    return true;
}
