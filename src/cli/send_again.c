// SPDX-License-Identifier: Apache-2.0
// send --from: sends a message again, perhaps changed. What the command line does not give is that
// of the message. Its dedup key is not copied, because the queue would not store it a second time.
#include "cli/send.h"
#include "json/json.h"

#include <stdlib.h>
#include <string.h>

#define ORIGIN_HEADER "sluice-sent-again" // the id of the message
#define DEAD_HEADERS  "sluice-dead-"

void again_done(struct resend *a)
{
    free(a->headers);
    sluice_batch_free(a->batch);
}

static bool is_given(const struct sluice_send *form, const char *name)
{
    for (size_t i = 0; i < form->headers_len; i++)
        if (strcmp(form->headers[i].name, name) == 0) return true;
    return false;
}

// Headers that a node or a move added are not the sender's. The mark of a JSON body goes with it.
static bool is_copied(const struct sluice_send *form, const char *name, bool new_body)
{
    if (strncmp(name, DEAD_HEADERS, strlen(DEAD_HEADERS)) == 0) return false;
    if (strcmp(name, ORIGIN_HEADER) == 0 || (new_body && strcmp(name, JSON_BODY_HEADER) == 0))
        return false;
    return !is_given(form, name);
}

static void merge_headers(struct sluice_send *form, const struct sluice_message *m, bool new_body,
                          struct resend *out)
{
    size_t len = 0;
    out->headers = cli_alloc((form->headers_len + m->headers_len + 1) * sizeof *out->headers);
    for (size_t i = 0; i < m->headers_len; i++)
        if (is_copied(form, m->headers[i].name, new_body)) out->headers[len++] = m->headers[i];
    for (size_t i = 0; i < form->headers_len; i++)
        out->headers[len++] = form->headers[i];
    out->headers[len++] = (struct sluice_header){ORIGIN_HEADER, m->id};
    form->headers = out->headers;
    form->headers_len = len;
}

static const char *text_or_none(const char *text)
{
    return text && *text ? text : NULL;
}

static void copy_fields(struct sluice_send *form, const struct sluice_message *m, bool new_body)
{
    if (!form->group) form->group = text_or_none(m->group);
    if (!form->workflow) form->workflow = text_or_none(m->workflow);
    if (!form->needs) form->needs = text_or_none(m->needs);
    if (!new_body) form->content_type = text_or_none(m->content_type);
}

static bool is_finished(const struct sluice_message *m)
{
    static const char *const others[] = {"ready", "delayed", "locked", "dead", "outbound"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(m->state, others[i]) == 0) return false;
    return true;
}

int again_read(struct send_input *sending, const char *from, struct resend *out, const void **body,
               size_t *len)
{
    const char *slash = strchr(from, '/'), *id = slash ? slash + 1 : from;
    char queue[128];
    struct sluice_error error = {0};
    bool new_body = *body != NULL;
    (void)snprintf(queue, sizeof queue, "%.*s", (int)(slash ? slash - from : 0), from);
    if (!slash) (void)snprintf(queue, sizeof queue, "%s", sending->queue);
    if (sluice_show(sending->s, queue, id, &out->batch, &error) != SLUICE_OK)
        return cli_fail_queue(sending->cli, sending->s, queue, &error);
    const struct sluice_message *m = &out->batch->messages[0];
    if (is_finished(m))
        return cli_fail_as(sending->cli, SLUICE_CONFLICT, "--from",
                           "message %s is finished (%s): its content is not kept, so it cannot be "
                           "sent again",
                           m->id, m->state);
    copy_fields(&sending->form, m, new_body);
    merge_headers(&sending->form, m, new_body, out);
    if (new_body) return 0;
    *body = m->body;
    *len = m->body_len;
    return 0;
}
