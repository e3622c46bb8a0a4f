// SPDX-License-Identifier: Apache-2.0
// A message that needs a newer version of the rules is refused before it is written. A shard whose
// version seems too low is read again, because this process may be behind.
#include "ops/send_rules.h"
#include "ops/queue_create.h"

struct rules_read {
    uint16_t rules;
    bool strict; // messages without a group are one scope
};

static void read_rules(void *ctx, const struct machine *m, int64_t now)
{
    struct rules_read *r = ctx;
    const struct queue_config *c = machine_config(m);
    (void)now;
    *r = (struct rules_read){machine_rules(m), c->ordering_guarantee && !c->workflow_order};
}

// What the messages of a call use.
struct send_needs {
    bool requires;
    bool workflow;
    bool last;
};

static struct send_needs uses_of(const struct sluice_send *messages, size_t len)
{
    struct send_needs u = {0};
    for (size_t i = 0; i < len; i++) {
        const struct sluice_send *m = &messages[i];
        u.requires = u.requires || (m->needs && *m->needs);
        u.workflow = u.workflow || (m->workflow && *m->workflow);
        u.last = u.last || m->workflow_last;
    }
    return u;
}

static void refuse_rules(struct local_call *c, const char *field, uint16_t needs, uint16_t has)
{
    const char *name = c->queue->row.name;
    (void)refuse(call_error(c), ERR_CONFLICT, field,
                 "%s needs version %d of the rules, and queue %s has version %u; run \"sluice "
                 "upgrade %s\" first",
                 field, needs, name, has, name);
}

enum call_built send_rules_check(struct local_call *c, const struct sluice_send *messages,
                                 size_t len, struct sluice_sent *sent, bool may_block,
                                 struct send_workflows *out)
{
    struct send_needs u = uses_of(messages, len);
    uint16_t needs = u.last ? RULES_WORKFLOWS : u.requires ? RULES_WORKERS : RULES_FIRST;
    uint32_t shards = u.requires || u.workflow ? c->queue->row.birth.shards : 0;
    *out = (struct send_workflows){.decide = u.workflow};
    for (uint32_t i = 0; i < shards; i++) {
        struct shard_runner *r = call_runner(c, i);
        struct rules_read read = {0};
        if (!r) return CALL_ENDED;
        runner_inspect(r, read_rules, &read);
        if (read.rules < needs && !may_block) return CALL_BLOCKS;
        if (read.rules < needs && runner_sync(r) == ERR_OK) runner_inspect(r, read_rules, &read);
        if (read.rules < needs) {
            bool labels = u.requires && read.rules < RULES_WORKERS;
            refuse_rules(c, labels ? "requires" : "workflowLast",
                         labels ? RULES_WORKERS : RULES_WORKFLOWS, read.rules);
            for (size_t k = 0; k < len; k++)
                sent[k] = (struct sluice_sent){.code = SLUICE_CONFLICT};
            return CALL_ENDED;
        }
        // A shard whose raise was not seen yet refuses a message that is in another shard now.
        out->decide = out->decide && read.rules >= RULES_WORKFLOWS;
        out->in_first = read.strict;
    }
    return CALL_BUILT;
}
