// SPDX-License-Identifier: Apache-2.0
// The answer table, row by row.
#include "store/s3/answer.h"
#include "unit.h"

static const enum s3_ask asks[] = {S3_CREATE, S3_WRITE, S3_READ, S3_LIST, S3_DELETE};
#define ASKS (sizeof asks / sizeof *asks)

// One column per ask, in the order above; '-': not asked in that way.
//   O ok  C conflict  N not found  U unavailable  ? unknown  D denied  L limit  I invalid
static char letter(enum err e)
{
    switch (e) {
    case ERR_OK:
        return 'O';
    case ERR_CONFLICT:
        return 'C';
    case ERR_NOT_FOUND:
        return 'N';
    case ERR_UNAVAILABLE:
        return 'U';
    case ERR_UNKNOWN:
        return '?';
    case ERR_DENIED:
        return 'D';
    case ERR_LIMIT:
        return 'L';
    case ERR_INVALID:
        return 'I';
    default:
        return '!';
    }
}

struct line {
    int status;
    const char *code;
    const char *want;
    enum s3_next next;
};

static const struct line answered[] = {
    {200, "", "OOOOO", S3_FINAL},
    {204, "", "OOOOO", S3_FINAL},
    {206, "", "OOOOO", S3_FINAL},
    {412, "PreconditionFailed", "C----", S3_FINAL},
    {412, "", "C----", S3_FINAL},
    {304, "", "C----", S3_FINAL},
    {409, "ConditionalRequestConflict", "UU---", S3_AGAIN},
    {409, "OperationAborted", "UU---", S3_AGAIN},
    {404, "NoSuchKey", "--N-O", S3_FINAL},
    {404, "", "DDNDO", S3_FINAL},
    {404, "NoSuchBucket", "DDDDD", S3_FINAL},
    {416, "InvalidRange", "--O--", S3_FINAL},
    {403, "AccessDenied", "DDDDD", S3_FINAL},
    {403, "SignatureDoesNotMatch", "DDDDD", S3_FINAL},
    {403, "", "DDDDD", S3_FINAL},
    {401, "", "DDDDD", S3_FINAL},
    {403, "RequestTimeTooSkewed", "DDDDD", S3_SET_CLOCK},
    {403, "InvalidAccessKeyId", "DDDDD", S3_NEW_KEYS},
    {400, "ExpiredToken", "DDDDD", S3_NEW_KEYS},
    {403, "ExpiredToken", "DDDDD", S3_NEW_KEYS},
    {400, "InvalidToken", "DDDDD", S3_NEW_KEYS},
    {301, "PermanentRedirect", "DDDDD", S3_MOVE},
    {307, "TemporaryRedirect", "DDDDD", S3_MOVE},
    {400, "AuthorizationHeaderMalformed", "DDDDD", S3_MOVE},
    {400, "EntityTooLarge", "LLLLL", S3_FINAL},
    {413, "", "LL---", S3_FINAL},
    {403, "QuotaExceeded", "LL---", S3_FINAL},
    {507, "", "LL---", S3_FINAL},
    {400, "BadDigest", "UU--U", S3_AGAIN},
    {400, "XAmzContentSHA256Mismatch", "UU--U", S3_AGAIN},
    {400, "IncompleteBody", "UU--U", S3_AGAIN},
    {400, "RequestTimeout", "??UU?", S3_AGAIN},
    {408, "", "??UU?", S3_AGAIN},
    {501, "NotImplemented", "IIIII", S3_FINAL},
    {400, "NotImplemented", "IIIII", S3_FINAL},
    {400, "InvalidArgument", "IIIII", S3_FINAL},
    {405, "MethodNotAllowed", "DDDDD", S3_FINAL},
    {429, "TooManyRequests", "??UU?", S3_AGAIN_SLOW},
    {503, "SlowDown", "??UU?", S3_AGAIN_SLOW},
    {503, "", "??UU?", S3_AGAIN_SLOW},
    {500, "InternalError", "??UU?", S3_AGAIN},
    {502, "", "??UU?", S3_AGAIN},
    {504, "", "??UU?", S3_AGAIN},
    {599, "", "??UU?", S3_AGAIN},
    {100, "", "??UU?", S3_AGAIN},
    {999, "", "??UU?", S3_AGAIN},
};

static void each_answer_means_what_the_table_says(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof answered / sizeof *answered; i++)
        for (size_t k = 0; k < ASKS; k++) {
            const struct line *l = &answered[i];
            if (l->want[k] == '-') continue;
            struct s3_class v = s3_classify(asks[k], HTTP_ANSWERED, l->status, l->code, 1);
            if (letter(v.err) != l->want[k] || v.next != l->next)
                print_error("%d %s asked as %zu: %c, next %d\n", l->status, l->code, k,
                            letter(v.err), v.next);
            assert_int_equal(letter(v.err), l->want[k]);
            assert_int_equal(v.next, l->next);
        }
}

static void without_an_answer_only_what_never_left_is_certain(void **state)
{
    (void)state;
    for (size_t k = 0; k < ASKS; k++) {
        assert_int_equal(letter(s3_classify(asks[k], HTTP_NOT_SENT, 0, "", 0).err), 'U');
        assert_int_equal(letter(s3_classify(asks[k], HTTP_LOST, 0, "", 1).err), "??UU?"[k]);
        // A status that came before the connection broke proves nothing.
        assert_int_equal(letter(s3_classify(asks[k], HTTP_LOST, 200, "", 1).err), "??UU?"[k]);
        assert_int_equal(letter(s3_classify(asks[k], HTTP_LOST, 412, "", 1).err), "??UU?"[k]);
    }
}

static void reads_are_never_unknown_and_writes_never_unavailable_by_5xx(void **state)
{
    (void)state;
    for (int status = 100; status < 600; status++) {
        assert_int_not_equal(s3_classify(S3_READ, HTTP_ANSWERED, status, "", 1).err, ERR_UNKNOWN);
        assert_int_not_equal(s3_classify(S3_LIST, HTTP_ANSWERED, status, "", 2).err, ERR_UNKNOWN);
        if (status < 500 || status == 501 || status == 507) continue;
        assert_int_equal(s3_classify(S3_CREATE, HTTP_ANSWERED, status, "", 1).err, ERR_UNKNOWN);
        assert_int_equal(s3_classify(S3_WRITE, HTTP_ANSWERED, status, "", 1).err, ERR_UNKNOWN);
    }
}

static void a_refusal_of_a_put_that_was_sent_twice_is_unknown(void **state)
{
    (void)state;
    static const int refusals[] = {412, 304, 409, 403, 400, 413, 501};
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        assert_int_equal(s3_classify(S3_CREATE, HTTP_ANSWERED, refusals[i], "", 2).err,
                         ERR_UNKNOWN);
    assert_int_equal(s3_classify(S3_CREATE, HTTP_ANSWERED, 200, "", 2).err, ERR_OK);
    assert_int_equal(s3_classify(S3_READ, HTTP_ANSWERED, 404, "", 2).err, ERR_NOT_FOUND);
}

static void too_long_an_answer_is_a_limit_for_reads_and_done_for_writes(void **state)
{
    (void)state;
    assert_int_equal(s3_classify(S3_READ, HTTP_TOO_LONG, 200, "", 1).err, ERR_LIMIT);
    assert_int_equal(s3_classify(S3_LIST, HTTP_TOO_LONG, 200, "", 1).err, ERR_LIMIT);
    assert_int_equal(s3_classify(S3_CREATE, HTTP_TOO_LONG, 200, "", 1).err, ERR_OK);
    assert_int_equal(s3_classify(S3_CREATE, HTTP_TOO_LONG, 412, "", 1).err, ERR_CONFLICT);
    assert_int_equal(s3_classify(S3_READ, HTTP_TOO_LONG, 503, "", 1).err, ERR_UNAVAILABLE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_answer_means_what_the_table_says),
        cmocka_unit_test(without_an_answer_only_what_never_left_is_certain),
        cmocka_unit_test(reads_are_never_unknown_and_writes_never_unavailable_by_5xx),
        cmocka_unit_test(a_refusal_of_a_put_that_was_sent_twice_is_unknown),
        cmocka_unit_test(too_long_an_answer_is_a_limit_for_reads_and_done_for_writes),
    };
    return cmocka_run_group_tests_name("s3 answers", tests, NULL, NULL);
}
