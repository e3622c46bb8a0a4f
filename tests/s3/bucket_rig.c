// SPDX-License-Identifier: Apache-2.0
#include "bucket_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

void rig_environment(void)
{
    static const char *const gone[] = {
        "AWS_PROFILE",        "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION",
        "AWS_DEFAULT_REGION", "AWS_CA_BUNDLE",    "AWS_SESSION_TOKEN",   "http_proxy",
        "https_proxy",        "HTTPS_PROXY",      "ALL_PROXY",           "all_proxy"};
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++)
        (void)unsetenv(gone[i]);
    (void)setenv("AWS_CONFIG_FILE", "/dev/null", 1);
    (void)setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null", 1);
    (void)setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
    (void)setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE", 1);
    (void)setenv("AWS_SECRET_ACCESS_KEY", RIG_SECRET, 1);
}

struct store *rig_open(const char *url, const struct s3_options *options)
{
    struct store *s = NULL;
    char why[STORE_WHY_MAX] = "";
    enum err e = store_s3_open_with(url, options, &s, why, sizeof why);
    if (e) print_error("%s: %s\n", url, why);
    assert_int_equal(e, ERR_OK);
    return s;
}

void rig_answers(enum err want, enum err got, const struct store_answer *a, const char *file,
                 int line)
{
    if (want != got)
        print_error("%s:%d: answered %s, not %s (%s)\n", file, line, err_name(got), err_name(want),
                    a->why);
    const char *secret = getenv("AWS_SECRET_ACCESS_KEY");
    bool told = strstr(a->why, RIG_SECRET) || strstr(a->why, RIG_TOKEN) ||
                (secret && strstr(a->why, secret)) || strstr(a->why, "Signature=");
    if (want != got || told) _fail(file, line);
    bool expected = got == ERR_OK || got == ERR_CONFLICT || got == ERR_NOT_FOUND;
    if (expected == (a->why[0] != 0)) {
        print_error("%s:%d: says \"%s\"\n", file, line, a->why);
        _fail(file, line);
    }
}

void rig_costs(const struct store_answer *a, unsigned writes, unsigned reads, unsigned deletes,
               const char *file, int line)
{
    if (a->cost.writes == writes && a->cost.reads == reads && a->cost.deletes == deletes) return;
    print_error("%s:%d: cost %lu writes, %lu reads, %lu deletes\n", file, line, a->cost.writes,
                a->cost.reads, a->cost.deletes);
    _fail(file, line);
}
