/* Series and bars, in block characters and in ASCII; and where block characters are allowed at all. */
#include "../proto/unit.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "draw.h"

static char *series(const double *values, size_t count, size_t columns, bool unicode, size_t *group)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    *group = draw_series(out, values, count, columns, unicode);
    fclose(out);
    return text;
}

static void assert_series(const double *values, size_t count, size_t columns, bool unicode, size_t group, const char *wanted)
{
    size_t got;
    char *text = series(values, count, columns, unicode, &got);

    assert_string_equal(text, wanted);
    assert_int_equal(got, group);
    free(text);
}

static void test_series(void **state)
{
    static const double rising[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8 }, tiny[] = { 0.001, 1000 }, zero[] = { 0, 0 };
    static const double many[] = { 1, 3, 8, 8, 4 };

    (void)state;
    assert_series(rising, 9, 20, true, 1, " ▁▂▃▄▅▆▇█");
    assert_series(rising, 9, 20, false, 1, " _.:-=+*#");
    assert_series(tiny, 2, 20, false, 1, "_#");         /* little is not nothing */
    assert_series(many, 5, 3, false, 2, ".#-");         /* means of two, the last one alone */
    assert_series(zero, 2, 20, true, 0, "");
    assert_series(zero, 0, 20, true, 0, "");
}

static void assert_bar(double share, bool unicode, const char *wanted)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    draw_bar(out, share, 4, unicode);
    fclose(out);
    assert_string_equal(text, wanted);
    free(text);
}

static void test_bar(void **state)
{
    (void)state;
    assert_bar(0, true, "    ");
    assert_bar(1, true, "████");
    assert_bar(2, false, "####");
    assert_bar(0.5, false, "##  ");
    assert_bar(0.59375, true, "██▍ ");
    assert_bar(1.0 / 32, true, "▏   ");
    assert_bar(1.0 / 32, false, "    ");
}

static void test_unicode(void **state)
{
    (void)state;
    setenv("TERM", "xterm", 1);
    setlocale(LC_CTYPE, "C");
    assert_false(draw_unicode());
    assert_non_null(setlocale(LC_CTYPE, "C.UTF-8"));
    assert_true(draw_unicode());
    setenv("TERM", "dumb", 1);
    assert_false(draw_unicode());
    unsetenv("TERM");       /* no terminal at all: a file or a pipe */
    assert_true(draw_unicode());
    setlocale(LC_CTYPE, "C");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_series),
        cmocka_unit_test(test_bar),
        cmocka_unit_test(test_unicode),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
