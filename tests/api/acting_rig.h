// SPDX-License-Identifier: Apache-2.0
// A queue whose rules have signals, on the store named by the program's argument, or by way of a
// node ("http").
#pragma once

#include "backend.h"

#include <stdio.h>
#include <string.h>

__attribute__((unused)) static void rig_queue(struct rig *r, const struct sluice_setting *settings,
                                              size_t len)
{
    rig_open(r);
    FINE(sluice_queue_create(r->s, "tasks", settings, len, &error));
}

__attribute__((unused)) static void send_one(struct sluice *s, const struct sluice_send *m,
                                             char id[SLUICE_ID_MAX])
{
    struct sluice_sent sent;
    FINE(sluice_send(s, "tasks", m, 1, NULL, &sent, &error));
    memcpy(id, sent.id, SLUICE_ID_MAX);
}

__attribute__((unused)) static void send_text(struct sluice *s, const char *text,
                                              char id[SLUICE_ID_MAX])
{
    send_one(s, &(struct sluice_send){.body = text, .body_len = strlen(text)}, id);
}

__attribute__((unused)) static struct sluice_batch *receive(struct sluice *s, const char *worker,
                                                            uint32_t max)
{
    struct sluice_batch *b;
    struct sluice_receive ask = {.worker = worker, .max = max, .visibility_ms = 60000};
    FINE(sluice_receive(s, "tasks", &ask, &b, &error));
    return b;
}

__attribute__((unused)) static struct sluice_stats stats(struct sluice *s)
{
    struct sluice_stats out;
    FINE(sluice_stats(s, "tasks", &out, &error));
    return out;
}

__attribute__((unused)) static void state_is(struct sluice *s, const char *id, const char *state)
{
    struct sluice_batch *b;
    FINE(sluice_show(s, "tasks", id, &b, &error));
    assert_string_equal(b->messages[0].state, state);
    sluice_batch_free(b);
}

__attribute__((unused)) static struct sluice_batch *show(struct sluice *s, const char *id)
{
    struct sluice_batch *b;
    FINE(sluice_show(s, "tasks", id, &b, &error));
    assert_int_equal(b->len, 1);
    return b;
}
