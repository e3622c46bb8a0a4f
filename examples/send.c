// SPDX-License-Identifier: Apache-2.0
// Sends one message: send STORE QUEUE BODY. The queue is created when it is not there.
#include <sluice.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    struct sluice *s;
    struct sluice_error error;
    if (argc != 4) {
        (void)fprintf(stderr, "usage: send STORE QUEUE BODY\n");
        return 2;
    }
    enum sluice_code code = sluice_open(argv[1], NULL, &s, &error);
    if (!code) {
        struct sluice_send message = {.body = argv[3], .body_len = strlen(argv[3])};
        struct sluice_sent sent;
        code = sluice_queue_create(s, argv[2], NULL, 0, &error);
        if (!code) code = sluice_send(s, argv[2], &message, 1, NULL, &sent, &error);
        if (!code) printf("%s\n", sent.id);
        sluice_close(s);
    }
    if (code) (void)fprintf(stderr, "send: %s\n", error.message);
    return sluice_code_exit(code);
}
