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
    if (!answer_unless(x, code, &error)) return;
    (void)pthread_mutex_lock(&s->lock);
    size_t waiting = s->waiting_len;
    (void)pthread_mutex_unlock(&s->lock);
    char flags[FLAGS_MAX];
    flags_text(s, flags);
    struct node_out node = {.node = s->node,
                            .flags = flags,
                            .version = sluice_version(),
                            .store = s->store_name,
                            .address = s->address,
                            .queues = names->len,
                            .waiting = waiting,
                            .uptime_ms = (uint64_t)(clock_boot_ms() - s->started_ms)};
    sluice_requests(s->store, &node.charged);
    sluice_names_free(names);
    answer_json(x, 200, fields_json(&node_answer, &node));
}
