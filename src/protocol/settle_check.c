// SPDX-License-Identifier: Apache-2.0
// Results and progress: what no queue takes, and what becomes a part of an op.
#include "protocol/call_arguments.h"
#include "protocol/errors.h"

#include <string.h>

static enum sluice_code check_ack(const struct sluice_ack *a, struct sluice_error *error)
{
    size_t type = a->content_type ? strlen(a->content_type) : 0;
    if (a->result && a->result_len > RESULT_CONTENT_MAX)
        return refuse(error, ERR_INVALID, "result", "result has %zu bytes; at most %zu are allowed",
                      a->result_len, RESULT_CONTENT_MAX);
    if (type > MESSAGE_CONTENT_TYPE_MAX)
        return refuse(error, ERR_INVALID, "resultType",
                      "resultType has %zu bytes; at most %d are allowed", type,
                      MESSAGE_CONTENT_TYPE_MAX);
    if (type > 0 && !a->result)
        return refuse(error, ERR_INVALID, "resultType", "resultType is given without a result");
    return SLUICE_OK;
}

static enum sluice_code check_renewal(const struct sluice_renewal *r, struct sluice_error *error)
{
    size_t text = r->text ? strlen(r->text) : 0;
    if (r->has_progress && (r->percent < 0 || r->percent > PROGRESS_PERCENT_MAX))
        return refuse(error, ERR_INVALID, "progress", "progress must be between 0 and %d, not %d",
                      PROGRESS_PERCENT_MAX, r->percent);
    if (text > PROGRESS_TEXT_MAX)
        return refuse(error, ERR_INVALID, "progressText",
                      "progressText has %zu bytes; at most %d are allowed", text,
                      PROGRESS_TEXT_MAX);
    if (text > 0 && !r->has_progress)
        return refuse(error, ERR_INVALID, "progressText",
                      "progressText is given without a progress");
    return SLUICE_OK;
}

enum sluice_code settle_check(const struct settle *what, struct sluice_error *error)
{
    enum sluice_code code = SLUICE_OK;
    for (size_t i = 0; !code && what->acks && i < what->len; i++)
        code = check_ack(&what->acks[i], error);
    for (size_t i = 0; !code && what->renewals && i < what->len; i++)
        code = check_renewal(&what->renewals[i], error);
    return code;
}

static struct bytes text_of(const char *text)
{
    return text ? bytes_str(text) : BYTES_EMPTY;
}

bool carried_put(struct buf *extras, const struct sluice_ack *acks,
                 const struct sluice_renewal *renewals, size_t i)
{
    struct outcome_extra extra = {0};
    if (acks && acks[i].result) {
        extra.has |= EXTRA_RESULT;
        extra.result = bytes_of(acks[i].result, acks[i].result_len);
        extra.content_type = text_of(acks[i].content_type);
    }
    if (renewals && renewals[i].has_progress) {
        extra.has |= EXTRA_PROGRESS;
        extra.percent = (uint8_t)renewals[i].percent;
        extra.text = text_of(renewals[i].text);
    }
    outcome_extra_put(extras, &extra);
    return extra.has != 0;
}
