// SPDX-License-Identifier: Apache-2.0
// What a store's URL looks like.
#pragma once

#include "sluice.h"

#define PLACE_STORES "a path, file:///path, s3://bucket/prefix, mem: or http://host:port"

// Whether a store could be there, by its form alone: nothing is opened. For URLs that are no
// node's.
enum sluice_code place_check(const char *url, struct sluice_error *error);
// The path of one in the file system; NULL: it is none.
const char *place_path(const char *url);
