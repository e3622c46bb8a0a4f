// SPDX-License-Identifier: Apache-2.0
// The calls of sluice_signals.h that are single ops or reads, also for the client of a node.
#pragma once

#include "local/named_ids.h"

#define SIGNALS_SHOWN_MAX     10000 // rows in one answer
#define SIGNALS_SHOWN_DEFAULT 100

// Refuses what no queue takes, and makes the op without its request id and its messages. `field`
// names are those of HTTP. The op has views into `what`.
enum sluice_code signal_check(const struct sluice_signal *what, struct op_signal *out,
                              struct sluice_error *error);
enum sluice_code signal_answers_check(const struct sluice_signal_answer *answers, size_t len,
                                      struct sluice_error *error);

// *out is set if the signal was sent to a message, or could be: then also after an error. It may be
// NULL.
enum sluice_code signal_send(struct sluice *s, const char *queue, const struct sluice_signal *what,
                             const struct acting *as, struct sluice_signals **out,
                             struct sluice_error *error);
enum sluice_code signal_withdraw(struct sluice *s, const char *queue, const char *signal,
                                 const char *message, const struct acting *as,
                                 struct sluice_signals **out, struct sluice_error *error);
enum sluice_code signals_settle(struct sluice *s, const char *queue,
                                const struct sluice_signal_answer *answers, size_t len,
                                const struct acting *as, struct sluice_outcome *outcomes,
                                struct sluice_error *error);

// Which signals are listed. At most one of the first three is given; none: all pending ones.
struct signals_wanted {
    const char *message; // also those that have ended
    const char *workflow;
    const char *worker;
    uint32_t max; // 0: 100
};
enum sluice_code signals_list(struct sluice *s, const char *queue,
                              const struct signals_wanted *want, struct sluice_signals **out,
                              struct sluice_error *error);
