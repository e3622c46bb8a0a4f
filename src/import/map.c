// SPDX-License-Identifier: Apache-2.0
// Maps what beanstalkd has to what Sluice has.
#include "import/map.h"

#include "base/check.h"
#include "base/digits.h"
#include "base/hash.h"
#include "import/answer.h"

#include <stdio.h>
#include <string.h>

#define SCHEME       "beanstalkd://"
#define DEFAULT_PORT "11300"
#define KEY_HEAD     "import:"

static bool refuse(char *why, size_t why_len, const char *url, const char *what)
{
    (void)snprintf(why, why_len, "%.200s %s: write beanstalkd://HOST:PORT/TUBE", url, what);
    return false;
}

// Copies a part of the URL. Returns false if it is empty or does not fit.
static bool take(char *to, size_t size, const char *from, size_t len)
{
    if (len == 0 || len >= size) return false;
    memcpy(to, from, len);
    to[len] = '\0';
    return true;
}

static bool port_ok(const char *port)
{
    uint64_t n;
    return answer_digits(bytes_str(port), &n) && n > 0 && n < 65536;
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
    *out = (struct tube_place){.port = DEFAULT_PORT};
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
    bool bracket = host[0] == '[';
    const char *closing = bracket ? memchr(host, ']', (size_t)(slash - host)) : NULL;
    const char *from = closing ? closing : host;
    const char *colon = memchr(from, ':', (size_t)(slash - from)), *end = colon ? colon : slash;
    if (colon && !take(out->port, sizeof out->port, colon + 1, (size_t)(slash - colon) - 1))
        return refuse(why, why_len, url, "has no port after its colon");
    if (bracket && (!closing || end != closing + 1))
        return refuse(why, why_len, url, "has an address without its closing bracket");
    if (bracket) {
        host++;
        end--;
    }
    if (!take(out->host, sizeof out->host, host, (size_t)(end - host)))
        return refuse(why, why_len, url, "names no host");
    if (!port_ok(out->port)) return refuse(why, why_len, url, "has a port that is none (1-65535)");
    if (!take(out->tube, sizeof out->tube, slash + 1, strlen(slash + 1)))
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
    struct buf all CLEANUP(buf_done);
    buf_init(&all, 4096);
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
