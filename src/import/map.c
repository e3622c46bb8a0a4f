// SPDX-License-Identifier: Apache-2.0
// Maps what beanstalkd has to what Sluice has.
#include "import/map.h"

#include "base/authority.h"
#include "base/check.h"
#include "base/digits.h"
#include "base/hash.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

#define SCHEME       "beanstalkd://"
#define DEFAULT_PORT 11300
#define KEY_HEAD     "import:"

static bool refuse(char *why, size_t why_len, const char *url, const char *what)
{
    (void)snprintf(why, why_len, "%.200s %s: write beanstalkd://HOST:PORT/TUBE", url, what);
    return false;
}

// A name of a tube, by the protocol's rules.
static bool tube_ok(const char *tube)
{
    static const char others[] = "-+/;.$_()";
    if (tube[0] == '-') return false;
    for (const char *at = tube; *at; at++) {
        bool letter = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z');
        if (!letter && !(*at >= '0' && *at <= '9') && !strchr(others, *at)) return false;
    }
    return true;
}

bool tube_place_read(const char *url, struct tube_place *out, char *why, size_t why_len)
{
    *out = (struct tube_place){0};
    size_t scheme = sizeof SCHEME - 1;
    if (strncmp(url, SCHEME, scheme) != 0) {
        (void)snprintf(why, why_len,
                       "%.200s cannot be imported: write beanstalkd://HOST:PORT/TUBE, or a file of "
                       "JSON lines",
                       url);
        return false;
    }
    const char *host = url + scheme, *slash = strchr(host, '/');
    if (!slash || !slash[1]) return refuse(why, why_len, url, "names no tube");
    struct authority at;
    bool split = authority_split(bytes_of(host, (size_t)(slash - host)), &at);
    if (at.bracketed && !split && !at.port.data)
        return refuse(why, why_len, url, "has an address without its closing bracket");
    if (!authority_has_host(&at) ||
        !text_copy_len(out->host, sizeof out->host, (const char *)at.host.data, at.host.len))
        return refuse(why, why_len, url, "names no host");
    if (!split || (at.port.data && at.number == 0))
        return refuse(why, why_len, url, "has a port that is none (1-65535)");
    (void)snprintf(out->port, sizeof out->port, "%u", at.port.data ? at.number : DEFAULT_PORT);
    if (!text_copy(out->tube, sizeof out->tube, slash + 1))
        return refuse(why, why_len, url, "names a tube of more than 200 bytes");
    if (!tube_ok(out->tube)) return refuse(why, why_len, url, "names a tube that cannot exist");
    CHECK(out->host[0] && out->port[0] && out->tube[0]);
    return true;
}

unsigned jobs_state(struct bytes name)
{
    if (bytes_equal(name, bytes_str("ready"))) return JOBS_READY;
    if (bytes_equal(name, bytes_str("delayed"))) return JOBS_DELAYED;
    if (bytes_equal(name, bytes_str("buried"))) return JOBS_BURIED;
    return 0;
}

unsigned jobs_states(const char *text)
{
    unsigned states = 0;
    if (strcmp(text, "all") == 0) return JOBS_ALL;
    for (;;) {
        const char *comma = strchr(text, ',');
        size_t len = comma ? (size_t)(comma - text) : strlen(text);
        unsigned state = jobs_state(bytes_of(text, len));
        if (!state) return 0;
        states |= state;
        if (!comma) return states;
        text = comma + 1;
    }
}

int jobs_priority(uint64_t beanstalk)
{
    static const uint32_t below[] = {1024, 256, 128, 64, 32, 16, 8, 4, 1};
    int priority = 0;
    for (size_t i = 0; i < sizeof below / sizeof *below; i++)
        if (beanstalk < below[i]) priority++;
    CHECK(priority >= 0 && priority <= 9);
    return priority;
}

void import_key(const char *lineage, const char *tube, uint64_t id, char out[IMPORT_KEY_LEN + 1])
{
    LOCAL(buf, all, 4096);
    buf_put_sized(&all, bytes_str(lineage));
    buf_put_sized(&all, bytes_str(tube));
    buf_put_u64(&all, id);
    CHECK(!all.bad);
    struct hash128 h = hash128_of(buf_bytes(&all));
    char *at = out + sizeof KEY_HEAD - 1;
    memcpy(out, KEY_HEAD, sizeof KEY_HEAD - 1);
    at = digits_put_hex64(at, h.hi);
    at = digits_put_hex64(at, h.lo);
    *at = '\0';
    CHECK(at - out == IMPORT_KEY_LEN);
}
