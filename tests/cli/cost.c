// SPDX-License-Identifier: Apache-2.0
// Prices in, dollars out.
#include "cli/cost.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>

// Ten thousand messages: 100 puts and 4,000 gets, all of it in this hour, which is half over.
static struct sluice_stats sample(void)
{
    return (struct sluice_stats){.sent = 20000,
                                 .processed = 10000,
                                 .spent = {.writes = 100, .reads = 4000, .deletes = 7},
                                 .spent_this_hour = {.writes = 100, .reads = 4000, .deletes = 7},
                                 .hour_ms = 1800 * 1000};
}

// To a millionth: these are sums of decimal fractions.
static void about(double a, double b)
{
    double difference = a > b ? a - b : b - a;
    if (difference > 1e-6) fail_msg("%g is not %g", a, b);
}

static void figures_follow_from_counts_and_prices(void **state)
{
    (void)state;
    struct prices p = PRICES_S3_STANDARD;
    struct sluice_stats v = sample();
    struct queue_cost c = queue_cost_of(&v, &p);
    assert_int_equal(c.requests, 4107);
    assert_int_equal(c.messages, 10000);
    assert_false(c.of_sent);
    about(c.per_message, 0.4107);
    about(c.puts_a_message, 0.01);
    // 0.1 thousand at $0.005 and 4 thousand at $0.0004 make $0.0021, for a hundredth of a million.
    about(c.per_million, 0.21);
    about(c.per_day, 0.0021 * 24);
}

static void a_day_is_24_times_the_last_60_minutes(void **state)
{
    (void)state;
    struct prices p = {.put = 1};
    struct sluice_stats v = {.spent = {.writes = 9000}, .hour_ms = 900 * 1000};
    v.spent_this_hour.writes = 1000; // in 15 minutes
    v.spent_last_hour.writes = 4000; // 45 minutes of it count
    about(queue_cost_of(&v, &p).per_day, (1 + 3) * 24);
    v.hour_ms = 0;
    about(queue_cost_of(&v, &p).per_day, (1 + 4) * 24);
}

static void messages_sent_count_until_one_is_processed(void **state)
{
    (void)state;
    struct prices p = PRICES_S3_STANDARD;
    struct sluice_stats v = sample();
    v.processed = 0;
    assert_true(queue_cost_of(&v, &p).of_sent);
    assert_int_equal(queue_cost_of(&v, &p).messages, 20000);
    v.sent = 0;
    about(queue_cost_of(&v, &p).per_message, 0); // and no division by zero
}

static void prices_are_read_part_by_part(void **state)
{
    (void)state;
    char problem[200];
    struct prices p = PRICES_S3_STANDARD;
    assert_true(prices_parse("put=0.0045", &p, problem, sizeof problem));
    about(p.put, 0.0045);
    about(p.get, 0.0004);
    assert_true(prices_parse("storage=0,get=1,put=12.5", &p, problem, sizeof problem));
    about(p.put, 12.5);
    about(p.get, 1);
    about(p.storage, 0);
}

static void a_bad_price_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *says;
    } rows[] = {
        {"", "\"\""},
        {"0.005", "\"0.005\""},
        {"puts=1", "\"puts=1\""},
        {"put", "put=0.005"},
        {"put=", "\"put=\""},
        {"get=1,put=x", "\"put=x\""},
        {"put=1,", "\"\""},
        {"put=-1", "\"put=-1\""},
        {"put=inf", "\"put=inf\""},
        {"put=0x1p3", "put"},
        {"put=1e3", "put"},
        {"put=1.2.3", "put"},
        {"put=.", "put"},
        {"put= 1", "put"},
        {"get=99999999999", "get"},
        {"storage=0.023GB", "storage"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char problem[200] = "";
        struct prices p = PRICES_S3_STANDARD;
        if (prices_parse(rows[i].text, &p, problem, sizeof problem))
            fail_msg("\"%s\" was taken", rows[i].text);
        if (!strstr(problem, rows[i].says)) fail_msg("\"%s\": %s", rows[i].text, problem);
    }
}

static char *printed(const struct sluice_stats *v)
{
    char *text = NULL;
    size_t len = 0;
    struct prices p = PRICES_S3_STANDARD;
    FILE *out = open_memstream(&text, &len);
    cost_print(out, 14, v, &p);
    (void)fclose(out);
    return text;
}

static void the_block_says_how_much_and_at_which_prices(void **state)
{
    (void)state;
    struct sluice_stats v = sample();
    char *text = printed(&v);
    assert_string_equal(text, "requests               4,107  0.41 per message processed\n"
                              "  put, list              100  0.0100 per message; $0.005 per 1,000\n"
                              "  get                  4,000  $0.0004 per 1,000\n"
                              "  delete                   7  free\n"
                              "cost                   $0.21  per million messages processed\n"
                              "                     $0.0504  per day, as in the last 60 minutes\n");
    free(text);
}

static void a_store_that_charges_nothing_shows_no_block(void **state)
{
    (void)state;
    struct sluice_stats v = {.sent = 3, .processed = 3};
    struct prices p = PRICES_S3_STANDARD;
    char *text = printed(&v);
    assert_string_equal(text, "");
    assert_null(cost_json(&v, &p));
    free(text);
}

static void the_same_as_json(void **state)
{
    (void)state;
    struct sluice_stats v = sample();
    struct prices p = PRICES_S3_STANDARD;
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    json_print(cost_json(&v, &p), out);
    (void)fclose(out);
    assert_non_null(strstr(text, "\"writes\":100,\"reads\":4000,\"deletes\":7,"));
    assert_non_null(strstr(text, "\"perMessage\":\"processed\",\"requestsPerMessage\":0.4107,"));
    assert_non_null(strstr(text, "\"prices\":{\"put\":0.005,\"get\":0.0004,\"storage\":0.023}"));
    free(text);
}

static void dollars_are_shown_to_the_digit_that_matters(void **state)
{
    (void)state;
    char out[TEXT_MAX];
    assert_string_equal(dollars_text(0, out), "$0.00");
    assert_string_equal(dollars_text(0.00001, out), "<$0.0001");
    assert_string_equal(dollars_text(0.0042, out), "$0.0042");
    assert_string_equal(dollars_text(1.255, out), "$1.25");
    assert_string_equal(dollars_text(1234.4, out), "$1234");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_follow_from_counts_and_prices),
        cmocka_unit_test(a_day_is_24_times_the_last_60_minutes),
        cmocka_unit_test(messages_sent_count_until_one_is_processed),
        cmocka_unit_test(prices_are_read_part_by_part),
        cmocka_unit_test(a_bad_price_is_named),
        cmocka_unit_test(the_block_says_how_much_and_at_which_prices),
        cmocka_unit_test(a_store_that_charges_nothing_shows_no_block),
        cmocka_unit_test(the_same_as_json),
        cmocka_unit_test(dollars_are_shown_to_the_digit_that_matters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
