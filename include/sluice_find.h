// SPDX-License-Identifier: Apache-2.0
//
// Messages chosen by what they contain or by their ids. sluice.h includes this file.
#ifndef SLUICE_FIND_H
#define SLUICE_FIND_H

#include "sluice.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SLUICE_FIND_HEADERS_MAX 16
#define SLUICE_FIND_TEXT_MAX    1024
#define SLUICE_FIND_BYTES_MAX   (256 << 20)

// What to find. Zero and NULL mean: not given. A message is found if it has all that is given.
struct sluice_find {
    const char *state;    // as in struct sluice_peek
    const char *after_id; // continue after this message: `next` of the search before
    uint32_t max;         // messages to return, at most 10,000; 0: 10
    int64_t before;       // it was sent before this time
    const char *contains; // its body contains this text, byte by byte; up to 1,024 bytes
    const struct sluice_header *headers; // it has each of these, with this value; up to 16
    size_t headers_len;
    uint64_t bytes_max; // how much to read, at most 256 MiB; 0: 16 MiB
};

// How far a search came. A search ends when it has read bytes_max, found max messages, or found
// messages with 16 MiB.
struct sluice_found {
    uint64_t messages;        // that were read
    uint64_t bytes;           // of their bodies and headers
    char next[SLUICE_ID_MAX]; // to go on, use it as after_id; "": all messages were read
};

// Reads messages of one state and returns those that were found. It locks none. found may be NULL.
// Free *out with sluice_batch_free.
SLUICE_API enum sluice_code sluice_find(struct sluice *s, const char *queue,
                                        const struct sluice_find *what, struct sluice_batch **out,
                                        struct sluice_found *found, struct sluice_error *error);

// Sends chosen dead messages again, as new messages; see sluice_redrive. An id is that of a message
// that died in this queue, or of a dead letter of another queue that waits in this one. To find a
// dead letter, the call locks the messages before it for a moment.
//
// outcomes, if not NULL, has room for len rows, one for each id. The status is "redriven". The call
// returns SLUICE_OK if all were redriven, else the first refusal.
//
//   SLUICE_CONFLICT    The message is not dead, or no dead letter ("not-dead").
//   SLUICE_NOT_FOUND   No such message was ever sent, or a queue does not exist.
SLUICE_API enum sluice_code sluice_redrive_messages(struct sluice *s, const char *queue,
                                                    const char *to, const char *const *ids,
                                                    size_t len, struct sluice_outcome *outcomes,
                                                    struct sluice_error *error);

#ifdef __cplusplus
}
#endif

#endif
