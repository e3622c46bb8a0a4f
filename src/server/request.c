// SPDX-License-Identifier: Apache-2.0
// Reads the path, headers, query and JSON body of a request, and checks them.
#include "base/digits.h"
#include "protocol/wire.h"
#include "server/inside.h"
#include "json/weigh.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

bool is_type(const char *header, const char *type)
{
    size_t len = strlen(type);
    return header && strncasecmp(header, type, len) == 0 && strchr(" ;,", header[len]);
}

static bool refuse_with(struct exchange *x, enum sluice_code code, const char *field,
                        const char *text, const char *why)
{
    return refuse_request(x, code, "", field, "\"%.100s\" %s", text, why);
}

struct header_check {
    unsigned singles; // bits of the headers below that were seen
    const char *twice;
    const char *foreign; // its value is not UTF-8
};

static void see_field(struct header_check *f, const char *name, const char *value)
{
    // These headers decide the identity of the client and the meaning of the request. Of two
    // values, a proxy might read the other one.
#define SINGLE(name)                                                                               \
    {                                                                                              \
        name, sizeof name - 1                                                                      \
    }
    static const struct {
        const char *name;
        size_t len;
    } singles[] = {SINGLE("Authorization"), SINGLE("Content-Type"),   SINGLE("Last-Event-ID"),
                   SINGLE("Origin"),        SINGLE("Sec-Fetch-Mode"), SINGLE("Sec-Fetch-Site"),
                   SINGLE(REQUEST_HEADER),  SINGLE(WORKER_HEADER)};
#undef SINGLE
    size_t len = strlen(name);
    if (!utf8_ok(value, strlen(value))) f->foreign = name;
    for (unsigned i = 0; i < sizeof singles / sizeof *singles; i++) {
        if (singles[i].len != len || strcasecmp(singles[i].name, name) != 0) continue;
        if (f->singles & 1U << i) f->twice = name;
        f->singles |= 1U << i;
    }
}

bool read_framing(struct exchange *x)
{
    const struct httpd_fault *fault = httpd_fault(x->http);
    struct header_check f = {0};
    struct httpd_pair row;
    struct sluice_error e;
    for (size_t i = 0; fault->status == 0 && httpd_nth_header(x->http, i, &row); i++)
        see_field(&f, row.name, row.value);
    if (fault->status == 400)
        e = error_of(SLUICE_INVALID, "malformed", fault->field, "%s %s", fault->field, fault->why);
    else if (fault->status != 0)
        e = error_of(SLUICE_LIMIT, "head-too-large", fault->field, "%s %s", fault->field,
                     fault->why);
    else if (f.twice)
        e = error_of(SLUICE_INVALID, "repeated", f.twice, "%.40s is given twice", f.twice);
    else if (f.foreign)
        e = error_of(SLUICE_INVALID, "malformed", f.foreign, "%.40s is not UTF-8", f.foreign);
    else
        return true;
    answer_problem(x, fault->status != 0 ? fault->status : 400, &e, NULL);
    return false;
}

static bool read_request_id(struct exchange *x)
{
    const char *text = httpd_header(x->http, REQUEST_HEADER);
    if (!text) return true;
    if (!digits_read_hex(text, x->request.bytes, sizeof x->request.bytes))
        return refuse_with(x, SLUICE_INVALID, REQUEST_HEADER, text,
                           "is not a request id: 32 hex digits");
    x->has_request = true;
    return true;
}

// Reads 16 hex digits. Returns 0 if there are none.
uint64_t read_instance(const char *text)
{
    uint8_t bytes[8];
    uint64_t instance = 0;
    if (!digits_read_hex(text, bytes, sizeof bytes)) return 0;
    for (size_t i = 0; i < sizeof bytes; i++)
        instance = instance << 8 | bytes[i];
    return instance;
}

static bool read_joined(struct exchange *x)
{
    const char *text = httpd_header(x->http, WORKER_HEADER);
    char digits[INSTANCE_DIGITS + 1] = "";
    if (!text) return true;
    const char *space = strchr(text, ' ');
    if (space && space - text == INSTANCE_DIGITS) memcpy(digits, text, INSTANCE_DIGITS);
    x->joined.instance = read_instance(digits);
    bool good = x->joined.instance != 0 && worker_check(space + 1, NULL) == SLUICE_OK;
    if (!good)
        return refuse_with(x, SLUICE_INVALID, WORKER_HEADER, text,
                           "is not 16 hex digits of an instance, a space and a worker's name");
    memcpy(x->joined.name, space + 1, strlen(space + 1) + 1);
    return true;
}

// If a page of another site makes a browser send a request here, the browser adds Origin.
static bool is_foreign(const struct exchange *x)
{
    const char *origin = httpd_header(x->http, "Origin");
    if (!origin) return false;
    const char *host = httpd_header(x->http, "Host"), *from = strstr(origin, "://");
    return !from || !host || strcasecmp(from + 3, host) != 0;
}

// A browser sends no Origin with a GET, but Sec-Fetch-Site names the relation of the page that
// asks. Other sites may link to the dashboard, and may not load anything else.
static bool is_cross_site(const struct exchange *x)
{
    const char *site = httpd_header(x->http, "Sec-Fetch-Site");
    if (!site || strcasecmp(site, "same-origin") == 0 || strcasecmp(site, "none") == 0)
        return false;
    const char *mode = httpd_header(x->http, "Sec-Fetch-Mode");
    bool page = x->route->handle == handle_dashboard || x->route->handle == handle_asset;
    return !page || !mode || strcasecmp(mode, "navigate") != 0;
}

// DNS rebinding: any site can point its own name at our address, and its pages then count as ours.
// So a node that requires no tokens accepts only an address or localhost as Host.
static bool is_misnamed(const struct exchange *x)
{
    const char *host = httpd_header(x->http, "Host");
    if (!host || x->server->config.insecure || auth_asks_tokens(x->server)) return false;
    size_t len = strcspn(host, ":");
    bool local = len == strlen("localhost") && strncasecmp(host, "localhost", len) == 0;
    bool address = host[0] == '[' || (len > 0 && strspn(host, "0123456789.") == len);
    return !local && !address;
}

bool read_head(struct exchange *x)
{
    const char *type = httpd_header(x->http, "Content-Type");
    const char *accept = httpd_header(x->http, "Accept");
    x->wire_in = is_type(type, WIRE_TYPE);
    x->wire_out = is_type(accept, WIRE_TYPE);
    if (is_foreign(x))
        return refuse_with(x, SLUICE_DENIED, "Origin", httpd_header(x->http, "Origin"),
                           "may not use this node from a browser");
    if (is_cross_site(x))
        return refuse_with(x, SLUICE_DENIED, "Sec-Fetch-Site",
                           httpd_header(x->http, "Sec-Fetch-Site"),
                           "requests from pages of other sites are refused");
    if (is_misnamed(x))
        return refuse_with(x, SLUICE_DENIED, "Host", httpd_header(x->http, "Host"),
                           "is a name, and a node without tokens accepts only an address or "
                           "localhost; use its address");
    const char *queue = x->target.queue, *id = x->target.id;
    if (queue && !queue_name_ok(queue))
        return refuse_with(x, SLUICE_INVALID, "queue", queue,
                           "is not a queue name: a letter or digit, then letters, digits, '_', "
                           "'.' or '-', 80 at most");
    if (id &&
        (!*id || strlen(id) >= SLUICE_ID_MAX || strspn(id, "0123456789abcdef-") != strlen(id)))
        return refuse_with(x, SLUICE_INVALID, "id", id,
                           "is not a message id; one looks like 3f9a01cc-0-17");
    if (queue) (void)strcpy(x->queue, queue); // both fit: their checks limit the length
    if (id) (void)strcpy(x->id, id);
    const char *workflow = x->target.workflow;
    if (workflow && (!*workflow || strlen(workflow) > MESSAGE_WORKFLOW_MAX))
        return refuse_with(x, SLUICE_INVALID, "workflow", workflow,
                           "is not the id of a workflow: 1 to 256 bytes");
    if (workflow) x->workflow = strcpy(kept_new(&x->kept, strlen(workflow) + 1), workflow);
    if (x->target.name)
        x->named = strcpy(kept_new(&x->kept, strlen(x->target.name) + 1), x->target.name);
    if (x->target.signal)
        x->signal = strcpy(kept_new(&x->kept, strlen(x->target.signal) + 1), x->target.signal);
    const char *last = httpd_header(x->http, "Last-Event-ID");
    if (last && strlen(last) >= LAST_EVENT_MAX)
        return refuse_with(x, SLUICE_INVALID, "Last-Event-ID", last, "is longer than any event id");
    if (last) x->last_event = strcpy(kept_new(&x->kept, strlen(last) + 1), last);
    return read_request_id(x) && read_joined(x);
}

static bool unknown_parameter(struct exchange *x, const char *name, const struct fields *table)
{
    char names[FIELD_NAMES_MAX], why[FIELD_NAMES_MAX + 64];
    fields_names(table, names);
    (void)snprintf(why, sizeof why, "is not a parameter of this request: %s", names);
    return refuse_with(x, SLUICE_INVALID, name, name, why);
}

bool read_query(struct exchange *x, const struct fields *table, void *out)
{
    struct sluice_error error;
    for (size_t i = 0; i < x->target.pairs_len; i++) {
        const struct target_pair *pair = &x->target.pairs[i];
        const struct field *f = fields_find(table, pair->name);
        if (!f) return unknown_parameter(x, pair->name, table);
        if (f->kind != FIELD_TEXTS && target_value(&x->target, pair->name) != pair->value)
            return refuse_with(x, SLUICE_INVALID, pair->name, pair->name, "is given twice");
        enum sluice_code code = field_read_text(pair->value, f, out, &x->kept, &error);
        if (!answer_unless(x, code, &error)) return false;
    }
    return true;
}

static void refuse_weight(struct exchange *x, const struct json_weight *w)
{
    size_t all = x->server->config.body_memory_max;
    struct sluice_error e = error_of(
        SLUICE_LIMIT, "json-too-large", "body",
        "as JSON the %zu values of this body take about %zu MiB; with limits.bodyMemory at %zu MiB "
        "a request gets %zu MiB. Send fewer at a time, or one message as a body that is not JSON",
        w->values, (w->bytes >> 20) + 1, all >> 20, (all - all / 4) >> 20);
    answer_problem(x, 413, &e, NULL);
}

bool admit_json(struct exchange *x)
{
    struct bytes body = httpd_body(x->http);
    struct json_weight w = json_weigh((const char *)body.data, body.len);
    if (w.depth > JSON_DEPTH_MAX)
        return refuse_request(
            x, SLUICE_INVALID, "json-too-deep", "body",
            "the values of the body are nested %zu deep; at most %d levels are allowed", w.depth,
            JSON_DEPTH_MAX);
    enum httpd_lost lost = httpd_reserve(x->http, w.bytes);
    if (lost == HTTPD_TOO_LARGE) refuse_weight(x, &w);
    if (lost == HTTPD_NO_ROOM) refuse_body(x);
    return lost == HTTPD_WHOLE;
}

void refuse_body(struct exchange *x)
{
    (void)refuse_request(
        x, SLUICE_UNAVAILABLE, NO_ROOM, "body",
        "the bodies of other requests take all memory that this node has for them, "
        "or those of this client take half of it (limits.bodyMemory)");
}

void forget_body(struct exchange *x)
{
    json_free(x->kept.json);
    x->kept.json = NULL;
    httpd_forget_body(x->http);
}

struct json *read_json(struct exchange *x)
{
    struct bytes body = httpd_body(x->http);
    char why[256];
    if (x->kept.json) return x->kept.json; // parsed before
    if (!admit_json(x)) return NULL;
    x->kept.json =
        body.len > 0 ? json_parse((const char *)body.data, body.len, why, sizeof why) : json_new();
    if (!x->kept.json)
        (void)refuse_request(x, SLUICE_INVALID, "malformed", "body", "the body is not JSON: %s",
                             why);
    else if (json_kind(x->kept.json) != JSON_KIND_OBJECT)
        (void)refuse_request(x, SLUICE_INVALID, "malformed", "body",
                             "the body is %s; it should be an object",
                             json_kind_name(json_kind(x->kept.json)));
    else
        return x->kept.json;
    return NULL;
}

bool read_object(struct exchange *x, struct json *object, const char *path,
                 const struct fields *table, void *out)
{
    struct sluice_error error;
    enum sluice_code code = fields_read(object, path, table, out, &x->kept, &error);
    return answer_unless(x, code, &error);
}

bool read_request(struct exchange *x, void *out)
{
    const struct route *c = x->route->row;
    const struct fields *query = c->query ? c->query : &no_fields;
    const struct fields *body = c->body ? c->body : &no_fields;
    fields_defaults(query, out);
    fields_defaults(body, out);
    if (!read_query(x, query, out)) return false;
    if (strcmp(c->method, "GET") == 0) return true;
    struct json *object = read_json(x);
    return object && read_object(x, object, "", body, out);
}

bool check_fields(struct exchange *x, void *in)
{
    struct sluice_error error;
    return answer_unless(x, fields_check(x->route->row->body, in, &error), &error);
}
