// SPDX-License-Identifier: Apache-2.0
// Makes the shards of a queue follow another coordination service, shard by shard. A switch that
// was interrupted is completed by the next one: a shard that follows the service already is left as
// it is.
#include "base/digits.h"
#include "coord/coord.h"
#include "ops/cluster_show.h"
#include "queues/queues.h"

#include <assert.h>
#include <string.h>

// Asks the service for its id.
static enum sluice_code read_id(const struct engine *e, const char *url, uint8_t id[COORD_ID_LEN],
                                struct sluice_error *error)
{
    struct coord *coord = NULL;
    enum sluice_code code = coord_of(e, url, &coord, error);
    if (!code) coord_id(coord, id);
    coord_free(coord);
    return code;
}

static void note_other(struct sluice_coord_switch *out, const uint8_t coord[COORD_ID_LEN])
{
    static_assert(SLUICE_COORD_MAX == 2 * COORD_ID_LEN + 1, "an id in hex");
    if (!out->from[0]) *digits_put_hex(out->from, coord, COORD_ID_LEN) = '\0';
}

static enum sluice_code switch_shard(struct open_queue *q, uint32_t shard,
                                     const uint8_t id[COORD_ID_LEN], bool only_check,
                                     struct sluice_coord_switch *out, struct sluice_error *error)
{
    struct shard_runner *r;
    struct runner_owner o;
    enum sluice_code code = queue_synced_runner(q, shard, &r, error);
    if (code) return code;
    runner_owner(r, &o);
    bool follows = memcmp(o.coord, id, COORD_ID_LEN) == 0;
    if (!follows) note_other(out, o.coord);
    if (!follows && !only_check) {
        enum err err = runner_coord_switch(r, id);
        if (err) return refuse_why(error, err, q->row.name, "");
        out->switched++;
        follows = true;
    }
    out->following += follows;
    return SLUICE_OK;
}

enum sluice_code ops_coord_switch(struct engine *e, const char *queue, const char *coord,
                                  unsigned flags, struct sluice_coord_switch *out,
                                  struct sluice_error *error)
{
    CLEANUP(queue_let_go) struct open_queue *q = NULL;
    uint8_t id[COORD_ID_LEN];
    *out = (struct sluice_coord_switch){.shards = 0};
    enum sluice_code code = read_id(e, coord, id, error);
    if (!code) code = queue_get(e, queue, &q, error);
    if (code) return code;
    *digits_put_hex(out->to, id, sizeof id) = '\0';
    out->shards = q->row.birth.shards;
    for (uint32_t shard = 0; shard < out->shards; shard++) {
        code = switch_shard(q, shard, id, flags & SLUICE_COORD_SWITCH_CHECK, out, error);
        if (code) return refuse_partly(error, code, out->switched, out->shards, "shards");
    }
    return SLUICE_OK;
}
