// SPDX-License-Identifier: Apache-2.0
// Any bytes as a node's file of settings, and as a tokens file. What is refused is refused with a
// sentence that names the line; what is taken can be shown.
#include "base/check.h"
#include "fuzz.h"
#include "server/config.h"
#include "server/tokens.h"

#include <string.h>

static void as_settings(const char *text, size_t len)
{
    struct sluice_error error = {0};
    char shown[2048];
    struct conf *c = conf_new();
    if (conf_read_text(c, text, len, "fuzz", &error)) {
        for (enum conf_key i = 0; i < CONF_KEYS; i++) {
            bool given = strcmp(conf_source(c, i), "default") != 0;
            CHECK(!given || strncmp(conf_source(c, i), "fuzz:", 5) == 0);
            CHECK(strlen(conf_shown(c, i, shown, sizeof shown)) <= strlen(conf_text(c, i)) + 3);
        }
    } else {
        CHECK(error.code == SLUICE_INVALID);
        CHECK(strncmp(error.message, "fuzz:", 5) == 0);
    }
    conf_free(c);
}

static void as_tokens(struct bytes text)
{
    char why[400] = "";
    struct tokens *t = tokens_new();
    bool good = tokens_add_lines(t, text, "fuzz", why, sizeof why);
    CHECK(good || strncmp(why, "fuzz:", 5) == 0);
    CHECK(tokens_len(t) <= TOKENS_MAX);
    CHECK(!tokens_find(t, "sluice_unknown"));
    tokens_free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    as_settings((const char *)data, len);
    as_tokens(bytes_of(data, len));
    return 0;
}
