// SPDX-License-Identifier: Apache-2.0
// The servers of a service, in the order of the URL: "h1:2379,h2:2379/prefix". A request goes to
// the server that answered last. If it cannot be sent there, it goes to the next one.
#pragma once

#include "base/err.h"
#include "coord/coord.h"
#include "net/http.h"

#include <stdatomic.h>

#define ENDPOINTS_MAX        9
#define ENDPOINT_URL_MAX     270
#define ENDPOINTS_PREFIX_MAX 120
#define ENDPOINTS_PREFIX     "sluice"

struct endpoints {
    struct http *http;
    char base[ENDPOINTS_MAX][ENDPOINT_URL_MAX]; // "http://host:port"
    size_t len;
    char prefix[ENDPOINTS_PREFIX_MAX + 2]; // of every key, with a final '/'
    int64_t try_ms;                        // of one exchange
    _Atomic size_t at;                     // where the next request goes
};

// Parses what follows "etcd://". Credentials in it are refused: they would be in process lists and
// logs. Returns ERR_OK or ERR_INVALID; why has one sentence.
MUST_USE enum err endpoints_parse(struct endpoints *e, const char *rest, bool tls,
                                  uint16_t default_port, char why[static COORD_WHY_MAX]);
void endpoints_open(struct endpoints *e, const char *ca_file, int64_t timeout_ms);
void endpoints_close(struct endpoints *e);
// Makes one exchange: sets c->url to a server and the path. While no byte of the request was sent,
// it tries each server once. After an answer that tells of a fault, the next request goes to the
// next server. timeout_ms 0: try_ms.
void endpoints_do(struct endpoints *e, struct http_call *c, const char *path, int64_t timeout_ms,
                  int64_t until_ms);
// Refuses for an exchange without an answer. ERR_OK: there is one. `unclear`: the code of a request
// that may have arrived.
enum err endpoints_unanswered(const struct http_call *c, const char *service, enum err unclear,
                              struct coord_answer *a);
void endpoints_next(struct endpoints *e, size_t from); // leaves the server `from`
// The server of the next request, for a stream; the caller passes it to endpoints_next.
size_t endpoints_now(const struct endpoints *e);
