// SPDX-License-Identifier: Apache-2.0
// Error messages: they name the thing, the value, and what would be right.
#include "protocol/errors.h"

#include "base/text.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static_assert((int)SLUICE_DENIED == (int)ERR_DENIED && (int)SLUICE_UNKNOWN == (int)ERR_UNKNOWN,
              "the public codes are the engine's");

const char *sluice_code_name(enum sluice_code code)
{
    return err_name((enum err)code);
}

const char *sluice_code_text(enum sluice_code code)
{
    return err_text((enum err)code);
}

int sluice_code_exit(enum sluice_code code)
{
    return err_exit((enum err)code);
}

const char *sluice_version(void)
{
    return SLUICE_VERSION;
}

enum sluice_code refuse(struct sluice_error *error, enum err err, const char *field,
                        const char *format, ...)
{
    if (!error) return (enum sluice_code)err;
    *error = (struct sluice_error){.code = (enum sluice_code)err};
    (void)text_copy(error->field, sizeof error->field, field);
    va_list words;
    va_start(words, format);
    (void)vsnprintf(error->message, sizeof error->message, format, words);
    va_end(words);
    return error->code;
}

enum sluice_code refuse_reason(struct sluice_error *error, enum reason reason, const char *thing)
{
    const char *field = reason == REASON_REQUEST_REUSED ? "request" : "";
    enum sluice_code code =
        refuse(error, reason_err(reason), field, "%s: %s", thing, reason_text(reason));
    if (error) (void)text_copy(error->reason, sizeof error->reason, reason_name(reason));
    return code;
}

enum sluice_code refuse_why(struct sluice_error *error, enum err err, const char *queue,
                            const char *why)
{
    if (!*why) return refuse(error, err, "", "queue %s: %s", queue, err_text(err));
    if (strncmp(why, JOURNAL_UPGRADE_NEEDED, sizeof JOURNAL_UPGRADE_NEEDED - 1) == 0) {
        enum sluice_code code = refuse(error, err, "", "queue %s: %s", queue, why);
        if (error) (void)snprintf(error->reason, sizeof error->reason, UPGRADE_NEEDED);
        return code;
    }
    return refuse(error, err, "store", "queue %s: %s", queue, why);
}

enum sluice_code refuse_partly(struct sluice_error *error, enum sluice_code code, size_t done,
                               size_t all, const char *parts)
{
    if (code != SLUICE_UNAVAILABLE) return code;
    if (!error) return SLUICE_UNKNOWN;
    error->code = SLUICE_UNKNOWN;
    size_t len = strlen(error->message);
    (void)snprintf(error->message + len, sizeof error->message - len,
                   "; it was applied to %zu of %zu %s: repeat it", done, all, parts);
    return SLUICE_UNKNOWN;
}

void worker_default(char name[static WORKER_NAME_MAX + 1])
{
    char host[65] = "";
    if (gethostname(host, sizeof host - 1) != 0) (void)snprintf(host, sizeof host, "worker");
    (void)snprintf(name, WORKER_NAME_MAX + 1, "%s-%ld", host, (long)getpid());
}

enum sluice_code worker_check(const char *name, struct sluice_error *error)
{
    size_t len = strlen(name);
    if (len == 0 || len > WORKER_NAME_MAX)
        return refuse(error, ERR_INVALID, "worker", "a worker's name has 1 to %d bytes, not %zu",
                      WORKER_NAME_MAX, len);
    if (text_is_plain(name)) return SLUICE_OK;
    return refuse(error, ERR_INVALID, "worker",
                  "a worker's name is UTF-8 text without control characters");
}

size_t op_body_len(struct bytes op, size_t index)
{
    struct op_send send;
    struct message m = {.priority = 0};
    if (send_open(op, &send) || index >= send.count) return 0;
    for (size_t i = 0; i <= index; i++)
        send_next(&send, &m);
    return (size_t)message_body_len(&m);
}

enum sluice_code refuse_ended(struct sluice_error *error, const char *queue)
{
    enum sluice_code code =
        refuse(error, ERR_FENCED, "queue", "queue %s was deleted: there are no more events", queue);
    if (error) (void)text_copy(error->reason, sizeof error->reason, reason_name(REASON_DELETED));
    return code;
}

enum sluice_code refuse_op(struct sluice_error *error, enum err err, uint16_t kind,
                           const struct kept_reply *a, const char *queue)
{
    if (!err) return SLUICE_OK;
    struct result result;
    bool answered = a->body.len > 0 && !result_open(buf_bytes(&a->body), kind, &result);
    if (answered && result.reason != REASON_NONE) return refuse_reason(error, result.reason, queue);
    return refuse_why(error, err, queue, a->why ? a->why : "");
}

enum sluice_code code_repeated(enum sluice_code code)
{
    return (enum sluice_code)err_repeated((enum err)code);
}

void sent_repeated(struct sluice_sent *sent, size_t len)
{
    for (size_t i = 0; sent && i < len; i++)
        sent[i].code = code_repeated(sent[i].code);
}

void outcomes_repeated(struct sluice_outcome *outcomes, size_t len)
{
    for (size_t i = 0; outcomes && i < len; i++)
        if (!*outcomes[i].reason) outcomes[i].code = code_repeated(outcomes[i].code);
}

enum sluice_code queue_check_name(const char *name, struct sluice_error *error)
{
    if (name && queue_name_ok(name)) return SLUICE_OK;
    return refuse(error, ERR_INVALID, "queue",
                  "\"%.100s\" is not a queue name: a letter or digit, then letters, digits, '_', "
                  "'.' or '-', %d at most",
                  name ? name : "", QUEUE_NAME_MAX);
}

enum sluice_code queue_change_config(struct queue_config *c, const struct sluice_setting *settings,
                                     size_t len, struct sluice_error *error)
{
    struct config_error why = {""};
    for (size_t i = 0; i < len; i++)
        if (config_set(c, settings[i].key, settings[i].value, &why))
            return refuse(error, ERR_INVALID, settings[i].key, "%s", why.text);
    return SLUICE_OK;
}

void note_existed(struct sluice_error *error, bool existed)
{
    if (!error) return;
    *error = (struct sluice_error){.code = SLUICE_OK};
    if (existed) (void)snprintf(error->reason, sizeof error->reason, "exists");
}
