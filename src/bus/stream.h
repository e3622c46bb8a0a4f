// SPDX-License-Identifier: Apache-2.0
// Compares a stream that exists with the one that is wanted.
#pragma once

#include "bus/bus.h"

struct bus_stream_settings {
    const char *const *subjects;
    size_t subjects_len;
    struct bus_limits limits;
    bool in_files;
    bool keeps_by_limits; // and deletes the oldest first
};

// ERR_CONFLICT: why names the first limit that differs, both values and what to do.
MUST_USE enum err bus_stream_compare(const struct bus_stream *want,
                                     const struct bus_stream_settings *found,
                                     char why[static BUS_WHY_MAX]);
