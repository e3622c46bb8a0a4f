// SPDX-License-Identifier: Apache-2.0
// What a JetStream server answers to a publish: {"stream":"S","seq":7,"duplicate":true}, or
// {"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 9"}}.
#pragma once

#include "bus/bus.h"

// Fills everything but the tag. Bytes that are no such answer give ERR_UNKNOWN: the message may
// be stored.
void bus_ack_read(struct bytes body, struct bus_ack *out, char why[static BUS_WHY_MAX]);
// The action that follows from a JetStream error code.
enum err bus_error_of(int64_t code);
// Reads the subject of an acknowledgement, "<inbox>.<sender>-<tag>". Returns false if it is another
// one: the server chooses it. subject may be NULL.
bool bus_ack_subject(const char *subject, const char *inbox, uint64_t *sender, uint64_t *tag);
