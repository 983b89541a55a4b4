/* The error value: return values, truncation, one line of UTF-8 whatever went in. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "error.h"

static void test_returns_negative_errno(void **state)
{
    struct zc_error err;

    (void)state;
    assert_int_equal(zc_error_set(&err, ZC_ERR_PEER, ECONNREFUSED, NULL, "x"), -ECONNREFUSED);
    assert_int_equal(err.errnum, -ECONNREFUSED);
    assert_int_equal(zc_error_set(&err, ZC_ERR_PEER, -ECONNREFUSED, NULL, "x"), -ECONNREFUSED);
    assert_int_equal(zc_error_set(&err, ZC_ERR_INVALID, 0, "size", "x"), -EINVAL);
    assert_int_equal(err.errnum, 0);
    assert_string_equal(err.field, "size");
    assert_int_equal(zc_error_set(NULL, ZC_ERR_INVALID, ERANGE, "size", "x"), -ERANGE);
}

static void test_message_may_quote_itself(void **state)
{
    struct zc_error err;

    (void)state;
    zc_error_set(&err, ZC_ERR_PEER, 0, "peer", "refused");
    zc_error_set(&err, ZC_ERR_PEER, 0, err.field, "host a: %s", err.message);
    assert_string_equal(err.message, "host a: refused");
    assert_string_equal(err.field, "peer");
}

static void test_long_message_is_cut_between_characters(void **state)
{
    struct zc_error err;
    char text[2 * ZC_ERROR_MESSAGE_MAX];

    (void)state;
    for (size_t i = 0; i + 1 < sizeof(text); i++)
        text[i] = "\xc3\xa9"[i % 2];
    text[sizeof(text) - 1] = '\0';
    zc_error_set(&err, ZC_ERR_PEER, 0, NULL, "%s", text);
    assert_int_equal(strlen(err.message), ZC_ERROR_MESSAGE_MAX - 1);
    assert_int_equal(err.message[ZC_ERROR_MESSAGE_MAX - 2], '?');
}

static void test_text_clean(void **state)
{
    static const struct { const char *in, *out; } cases[] = {
        { "plain", "plain" },
        { "two\nlines\t\x1b[31m\x7f", "two?lines??[31m?" },
        { "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80" },
        { "\xff\xc3", "??" },                       /* stray byte, cut sequence */
        { "\xc0\xaf", "??" },                       /* overlong '/' */
        { "\xed\xa0\x80", "???" },                  /* surrogate */
        { "\xf4\x90\x80\x80", "????" },             /* beyond U+10FFFF */
        { "\xc2\x9b" "1m", "??1m" },                /* C1 control: CSI */
    };
    char text[64];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        strcpy(text, cases[i].in);
        assert_string_equal(zc_text_clean(text), cases[i].out);
    }
}

static void test_kind_names(void **state)
{
    (void)state;
    for (int kind = ZC_ERR_NONE; kind <= ZC_ERR_INTERNAL; kind++)
        assert_int_equal(zc_error_kind_find(zc_error_kind_name((enum zc_error_kind)kind)), kind);
    assert_int_equal(zc_error_kind_find("no such kind"), ZC_ERR_INTERNAL);
    assert_int_equal(zc_error_kind_find(NULL), ZC_ERR_INTERNAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_returns_negative_errno),
        cmocka_unit_test(test_message_may_quote_itself),
        cmocka_unit_test(test_long_message_is_cut_between_characters),
        cmocka_unit_test(test_text_clean),
        cmocka_unit_test(test_kind_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
