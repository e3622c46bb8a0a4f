// SPDX-License-Identifier: Apache-2.0
#include "peer/owner_name.h"
#include "protocol/owner_map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_plain(const char *text)
{
    size_t len = strlen(text);
    for (const char *at = text; *at; at++)
        if (*at <= ' ' || *at > '~') return false;
    return len > 0 && len < JOURNAL_ADDRESS_MAX;
}

bool owner_print(const struct owner_name *name, char out[JOURNAL_ADDRESS_MAX + 1])
{
    if (!is_plain(name->url) || !is_plain(name->node) || !is_plain(name->incarnation)) return false;
    int len = snprintf(out, JOURNAL_ADDRESS_MAX + 1, "%s %s %s", name->url, name->node,
                       name->incarnation);
    return len > 0 && len <= JOURNAL_ADDRESS_MAX;
}

static bool take_word(const char **at, char stop, char out[JOURNAL_ADDRESS_MAX])
{
    const char *end = strchr(*at, stop);
    if (!end || end - *at >= JOURNAL_ADDRESS_MAX) return false;
    (void)snprintf(out, JOURNAL_ADDRESS_MAX, "%.*s", (int)(end - *at), *at);
    *at = end + (stop != 0);
    return is_plain(out);
}

bool owner_parse(const char *address, struct owner_name *out)
{
    const char *at = address;
    *out = (struct owner_name){.url = ""};
    return take_word(&at, ' ', out->url) && take_word(&at, ' ', out->node) &&
           take_word(&at, 0, out->incarnation) && owner_url_is_good(out->url);
}

bool owner_name_equal(const struct owner_name *a, const struct owner_name *b)
{
    return strcmp(a->incarnation, b->incarnation) == 0 && strcmp(a->url, b->url) == 0 &&
           strcmp(a->node, b->node) == 0;
}
