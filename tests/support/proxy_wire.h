// SPDX-License-Identifier: Apache-2.0
// HTTP/1.1 messages on a socket, read just well enough to see where each begins and ends.
#pragma once

#include "base/bytes.h"

#define WIRE_MESSAGE_MAX ((size_t)80 << 20)

// One message as it was received, head and body.
struct wire {
    struct buf all;
    size_t head_len; // up to and with the empty line
    char method[12]; // of a request
    int status;      // of an answer
    bool closes;     // the connection ends with it
};

void wire_init(struct wire *w);
void wire_done(struct wire *w);

// False: the peer closed, broke off or sent what cannot be understood.
bool wire_read_request(struct wire *w, int fd);
// Interim answers (100) are left out. is_head: the answer to HEAD has no body, whatever it says.
bool wire_read_answer(struct wire *w, int fd, bool is_head);
bool wire_write(int fd, struct bytes from);
