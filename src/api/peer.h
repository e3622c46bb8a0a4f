// SPDX-License-Identifier: Apache-2.0
// Short questions to nodes: is it there, and does it serve this very queue? Whoever does not answer
// in time is not there.
#pragma once

#include "net/http.h"

#define PEER_ASK_MS 1000
#define PEER_HEADER "Sluice-Node" // who answered: the node's name

struct http *peer_http(void); // for the questions; the certificates to trust as for any node
// Whether the node of that name answers at the URL; name NULL: whether any node does.
bool peer_is_there(struct http *http, const char *url, const char *name, int64_t wait_ms);
enum peer {
    PEER_SERVES,
    PEER_DECLINES, // something answers: another node, or one that does not let us
    PEER_AWAY,
};
// Whether a node answers there that has the queue with this id. A name alone would not do: an
// address like 127.0.0.1 leads to another node on another machine, perhaps of another store, where
// another queue may have the same name. authorization: a header's line; "": none.
enum peer peer_serves(struct http *http, const char *url, const char *authorization,
                      const char *queue, const char *id);
