// SPDX-License-Identifier: Apache-2.0
#include "protocol/collected.h"

#include "base/array.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/memory.h"
#include "protocol/errors.h"
#include "protocol/signal_list.h"

#include <stdio.h>
#include <string.h>

struct text {
    struct text *next;
    char bytes[];
};

struct builder {
    struct collected_list list; // first
    size_t cap;
    struct text *texts;
};

struct collected_list *collected_new(void)
{
    return &NEW(struct builder)->list;
}

struct sluice_message *collected_add(struct collected_list *c)
{
    struct builder *b = (struct builder *)c;
    struct sluice_message *row = ARRAY_ADD(c->rows, c->len, b->cap);
    *row = (struct sluice_message){.state = "",
                                   .reason = "",
                                   .worker = "",
                                   .result_type = "",
                                   .group = "",
                                   .dedup = "",
                                   .content_type = "",
                                   .workflow = "",
                                   .needs = "",
                                   .progress = "",
                                   .percent = -1};
    return row;
}

const void *collected_keep(struct collected_list *c, const void *text, size_t len)
{
    struct builder *b = (struct builder *)c;
    struct text *t = memory_new(sizeof *t + len + 1);
    if (len > 0) memcpy(t->bytes, text, len);
    t->bytes[len] = 0;
    t->next = b->texts;
    b->texts = t;
    return t->bytes;
}

void collected_add_id(struct collected_list *c, struct collected_ids *to, const char *id)
{
    bool full = (to->len & (to->len - 1)) == 0; // the capacity is a power of two
    if (full)
        to->rows = memory_resize(to->rows, (to->len > 0 ? 2 * to->len : 1) * sizeof *to->rows);
    to->rows[to->len++] = collected_keep(c, id, strlen(id));
}

void collected_free(struct collected_list *c)
{
    struct builder *b = (struct builder *)c;
    if (!b) return;
    while (b->texts) {
        struct text *t = b->texts;
        b->texts = t->next;
        memory_free(t);
    }
    memory_free(c->left.rows);
    memory_free(c->signals.rows);
    memory_free(c->asked.rows);
    sluice_signals_free(c->answers);
    memory_free(c->rows);
    memory_free(b);
}

static enum sluice_code check_questions(const struct collect_poll *poll, struct sluice_error *error)
{
    struct request_id id;
    enum sluice_code code = SLUICE_OK;
    if (poll->signals_len > COLLECT_SIGNALS_MAX)
        return refuse(error, ERR_INVALID, "signals", "a collect has up to %d signals, not %zu",
                      COLLECT_SIGNALS_MAX, poll->signals_len);
    if (poll->asked_len > SLUICE_COLLECT_MAX)
        return refuse(error, ERR_INVALID, "asked", "a collect has up to %d messages, not %zu",
                      SLUICE_COLLECT_MAX, poll->asked_len);
    if ((poll->signals_len > 0) != (poll->asked_len > 0))
        return refuse(error, ERR_INVALID, "asked",
                      "give signals and asked, as the answer before has them, or none of them");
    if (poll->running && poll->asked_len > 0)
        return refuse(error, ERR_INVALID, "running", "give running or asked, not both");
    if (poll->ask && !poll->running)
        return refuse(error, ERR_INVALID, "ask", "ask needs running: it asks the running messages");
    for (size_t i = 0; !code && i < poll->signals_len; i++) {
        code = signal_id_parse(poll->signals[i], &id, error);
        if (code && error) (void)snprintf(error->field, sizeof error->field, "signals");
    }
    return code;
}

enum sluice_code collect_check(const struct collect_poll *poll, struct sluice_error *error)
{
    const char *const *ids = poll->ids;
    size_t len = poll->len;
    enum sluice_code code = check_questions(poll, error);
    if (code) return code;
    if (poll->workflow && len > 0)
        return refuse(error, ERR_INVALID, "workflow", "give ids or a workflow, not both");
    if (poll->workflow && !*poll->workflow)
        return refuse(error, ERR_INVALID, "workflow", "workflow is empty; name one, or give ids");
    if (poll->workflow) return SLUICE_OK;
    if (len == 0 || len > SLUICE_COLLECT_MAX)
        return refuse(error, ERR_INVALID, "ids", "a collect has 1 to %d messages, not %zu",
                      SLUICE_COLLECT_MAX, len);
    LOCAL(map, seen);
    for (size_t i = 0; !code && i < len; i++) {
        uint64_t key = hash64_of(bytes_str(ids[i]), 0);
        if (strlen(ids[i]) >= SLUICE_ID_MAX)
            code = refuse(error, ERR_INVALID, "ids", "\"%.80s\" is not a message id", ids[i]);
        uint32_t v;
        for (size_t at = map_first(&seen, key); (v = map_value(&seen, key, &at)) != MAP_NONE;)
            if (strcmp(ids[v], ids[i]) == 0)
                code = refuse(error, ERR_INVALID, "ids", "message %.64s is named twice", ids[i]);
        map_add(&seen, key, (uint32_t)i);
    }
    return code;
}
