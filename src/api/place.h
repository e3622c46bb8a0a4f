// SPDX-License-Identifier: Apache-2.0
// The forms of a store's URL.
#pragma once

#include "sluice.h"

#define PLACE_STORES "a path, file:///path, s3://bucket/prefix, mem: or http://host:port"

// Checks the form of a store's URL; it opens nothing. Not for the URL of a node. Returns SLUICE_OK
// or SLUICE_INVALID.
enum sluice_code place_check(const char *url, struct sluice_error *error);
// The path of a store in the file system; NULL: the URL has another scheme.
const char *place_path(const char *url);
