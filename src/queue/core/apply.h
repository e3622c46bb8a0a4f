// SPDX-License-Identifier: Apache-2.0
// The ops of the machine, for machine.c. Each function writes its result body and returns the
// reason in its first byte.
#pragma once

#include "base/bytes.h"
#include "queue/codec/reason.h"

struct machine;

enum reason apply_send(struct machine *m, struct bytes payload);
enum reason apply_claim(struct machine *m, uint16_t kind, struct bytes payload);
enum reason apply_outcome(struct machine *m, uint16_t kind, struct bytes payload);
enum reason apply_publish(struct machine *m, struct bytes payload);
enum reason apply_configure(struct machine *m, struct bytes payload);
enum reason apply_pause(struct machine *m, struct bytes payload, bool pause);
enum reason apply_purge(struct machine *m, struct bytes payload);
enum reason apply_redrive(struct machine *m, struct bytes payload);
enum reason apply_delete(struct machine *m, struct bytes payload);
enum reason apply_arrive(struct machine *m, struct bytes payload);
enum reason apply_outbox(struct machine *m, struct bytes payload);
enum reason apply_spent(struct machine *m, struct bytes payload);
enum reason apply_raise(struct machine *m, struct bytes payload);
enum reason apply_workers(struct machine *m, struct bytes payload);
enum reason apply_dispatch(struct machine *m, struct bytes payload);
enum reason apply_published(struct machine *m, struct bytes payload);
enum reason apply_signal(struct machine *m, struct bytes payload);
enum reason apply_settle(struct machine *m, struct bytes payload);
enum reason apply_withdraw(struct machine *m, struct bytes payload);
enum reason apply_cancel(struct machine *m, struct bytes payload);
enum reason apply_lock(struct machine *m, struct bytes payload);
