// SPDX-License-Identifier: Apache-2.0
// GET /v1/node: the node's name, address, store and uptime.
#include "os/clock.h"
#include "server/inside.h"

void handle_node(struct exchange *x)
{
    struct server *s = x->server;
    struct sluice_names *names = NULL;
    struct sluice_error error;
    if (!read_request(x, NULL)) return;
    enum sluice_code code = sluice_queue_list(s->store, &names, &error);
    if (code) {
        answer_error(x, &error);
        return;
    }
    (void)pthread_mutex_lock(&s->lock);
    size_t waiting = s->waiting_len;
    (void)pthread_mutex_unlock(&s->lock);
    struct json *o = json_new();
    json_text(o, "node", s->node);
    json_text(o, "version", sluice_version());
    json_text(o, "store", s->store_name);
    json_text(o, "address", s->address);
    json_number(o, "queues", (int64_t)names->len);
    json_number(o, "waiting", (int64_t)waiting);
    json_number(o, "uptimeMs", clock_boot_ms() - s->started_ms);
    struct sluice_requests made;
    sluice_requests(s->store, &made);
    json_take(o, "charged", fields_json(&requests_answer, &made));
    sluice_names_free(names);
    answer_json(x, 200, o);
}
