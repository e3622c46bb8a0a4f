// SPDX-License-Identifier: Apache-2.0
// The calls of sluice.h on a store that this process has opened: functions for struct transport.
#pragma once

#include "local/transport.h"

enum sluice_code direct_queue_create(struct sluice *s, const char *queue,
                                     const struct sluice_setting *settings, size_t len,
                                     struct sluice_error *error);
enum sluice_code direct_queue_set(struct sluice *s, const char *queue,
                                  const struct sluice_setting *settings, size_t len,
                                  struct sluice_error *error);
enum sluice_code direct_queue_show(struct sluice *s, const char *queue,
                                   struct sluice_queue_info **out, struct sluice_error *error);
enum sluice_code direct_queue_list(struct sluice *s, struct sluice_names **out,
                                   struct sluice_error *error);
enum sluice_code direct_queue_pause(struct sluice *s, const char *queue,
                                    struct sluice_error *error);
enum sluice_code direct_queue_resume(struct sluice *s, const char *queue,
                                     struct sluice_error *error);
enum sluice_code direct_queue_purge(struct sluice *s, const char *queue, int dead, uint64_t *purged,
                                    struct sluice_error *error);
enum sluice_code direct_queue_delete(struct sluice *s, const char *queue,
                                     struct sluice_error *error);
enum sluice_code direct_send(struct sluice *s, const char *queue,
                             const struct sluice_send *messages, size_t len,
                             const struct sluice_request *request, struct sluice_sent *sent,
                             struct sluice_error *error);
enum sluice_code direct_receive(struct sluice *s, const char *queue,
                                const struct sluice_receive *options, struct sluice_batch **out,
                                struct sluice_error *error);
enum sluice_code direct_settle(struct sluice *s, const char *queue, const struct settle *what,
                               struct sluice_outcome *outcomes, struct sluice_error *error);
enum sluice_code direct_peek(struct sluice *s, const char *queue, const struct sluice_peek *options,
                             struct sluice_batch **out, struct sluice_error *error);
enum sluice_code direct_show(struct sluice *s, const char *queue, const char *id,
                             struct sluice_batch **out, struct sluice_error *error);
void direct_requests(const struct sluice *s, struct sluice_requests *out);
enum sluice_code direct_stats(struct sluice *s, const char *queue, struct sluice_stats *out,
                              struct sluice_error *error);
enum sluice_code direct_workers(struct sluice *s, const char *queue, struct sluice_worker *out,
                                size_t max, size_t *len, struct sluice_error *error);
enum sluice_code direct_events_open(struct sluice *s, const char *queue, uint64_t position,
                                    struct sluice_events **out, struct sluice_error *error);
enum sluice_code direct_events_next(struct sluice_events *e, int64_t wait_ms,
                                    struct sluice_event *out, struct sluice_error *error);
void direct_events_close(struct sluice_events *e);
enum sluice_code direct_redrive(struct sluice *s, const char *queue, const char *to, uint32_t max,
                                uint64_t *redriven, struct sluice_error *error);
