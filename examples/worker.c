// SPDX-License-Identifier: Apache-2.0
// Works on a queue until it is empty: worker STORE QUEUE. Bodies that start with "bad" fail.
#include <sluice.h>
#include <stdio.h>
#include <string.h>

// Does the job and says what became of it.
static enum sluice_code work(struct sluice *s, const char *queue, const struct sluice_message *m,
                             struct sluice_error *error)
{
    const char *token = m->token;
    printf("%s attempt %u: %s\n", m->id, (unsigned)m->attempt, (const char *)m->body);
    if (strncmp(m->body, "bad", 3) == 0)
        return sluice_fail(s, queue, &token, 1, "it is bad", NULL, error);
    return sluice_ack(s, queue, &token, 1, NULL, error);
}

static enum sluice_code work_all(struct sluice *s, const char *queue, struct sluice_error *error)
{
    for (;;) {
        struct sluice_receive ask = {.worker = "example", .max = 10, .wait_ms = 100};
        struct sluice_batch *batch;
        enum sluice_code code = sluice_receive(s, queue, &ask, &batch, error);
        if (code) return code;
        size_t len = batch->len;
        for (size_t i = 0; !code && i < len; i++)
            code = work(s, queue, &batch->messages[i], error);
        sluice_batch_free(batch);
        if (code || len == 0) return code;
    }
}

int main(int argc, char **argv)
{
    struct sluice *s;
    struct sluice_error error;
    if (argc != 3) {
        (void)fprintf(stderr, "usage: worker STORE QUEUE\n");
        return 2;
    }
    enum sluice_code code = sluice_open(argv[1], NULL, &s, &error);
    if (!code) {
        code = work_all(s, argv[2], &error);
        sluice_close(s);
    }
    if (code) (void)fprintf(stderr, "worker: %s\n", error.message);
    return sluice_code_exit(code);
}
