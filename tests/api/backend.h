// SPDX-License-Identifier: Apache-2.0
// The library on the store that the argument of a program names, or by way of a node ("http").
#pragma once

#include "../conformance/store/support.h"
#include "../unit/unit.h"
#include "server/server.h"
#include "sluice.h"

extern const char *backend; // mem, file, s3, redis or http

struct rig {
    struct sluice *s;
    struct sluice *behind; // the store that the node serves
    struct server *node;
    char dir[SCRATCH_MAX];
};

#define FINE(call)                                                                                 \
    do {                                                                                           \
        struct sluice_error error = {.message = ""};                                               \
        enum sluice_code code_ = (call);                                                           \
        if (code_) fail_msg("%s: %s", sluice_code_name(code_), error.message);                     \
    } while (0)

void rig_open(struct rig *r);
void rig_close(struct rig *r);
