/* The command line: every form of an option, errors that name it, and the option table driving `run`. */
#include "../proto/unit.h"

#include <stdio.h>
#include <string.h>

#include "args.h"

static const char *output_path;
static bool detach, json;
static const struct args_option own[] = {
    { .name = "output", .letter = 'o', .metavar = "FILE", .help = "x", .value = &output_path },
    { .name = "detach", .help = "x", .flag = &detach },
    { .name = NULL },
};
static const struct args_option common[] = { { .name = "json", .letter = 'j', .help = "x", .flag = &json }, { .name = NULL } };

static struct zc_run_options run;
static struct args args;
static struct zc_error err;

/* Words separated by blanks; parsed with everything accepted. */
static int parse(const char *line)
{
    static char words[512], *argv[32];
    int argc = 0;

    strcpy(words, line);
    for (char *word = strtok(words, " "); word != NULL; word = strtok(NULL, " "))
        argv[argc++] = word;
    output_path = NULL;
    detach = json = false;
    zc_run_options_init(&run);
    args = (struct args){ .common = common, .own = own, .run = &run, .stop_at_operand = args.stop_at_operand };
    return args_parse(&args, argc, argv, &err);
}

static void test_forms(void **state)
{
    (void)state;
    assert_int_equal(parse("run --size 64K --wait=event -o file --detach one -j two"), 0);
    assert_int_equal(run.size_bytes, 65536);
    assert_int_equal(run.wait, ZC_WAIT_EVENT);
    assert_string_equal(output_path, "file");
    assert_true(detach && json);
    assert_int_equal(args.operand_count, 2);
    assert_string_equal(args.operands[0], "one");
    assert_string_equal(args.operands[1], "two");
    assert_int_equal(__builtin_popcountll(args.given), 2);

    assert_int_equal(parse("run -ofile --mr_size 1K -- --size -"), 0);
    assert_string_equal(output_path, "file");
    assert_int_equal(run.mr_size_bytes, 1024);
    assert_int_equal(args.operand_count, 2);
    assert_string_equal(args.operands[0], "--size");

    assert_int_equal(parse("run -s 4K -q4 -t 7 -D 0.5 -d rxe0"), 0);   /* perftest's letters */
    assert_int_equal(run.size_bytes, 4096);
    assert_int_equal(run.qps, 4);
    assert_int_equal(run.operations_max, 7);
    assert_true(run.measure_s == 0.5);
    assert_string_equal(run.device, "rxe0");
    assert_int_equal(__builtin_popcountll(args.given), 5);

    assert_int_equal(parse("run"), 0);
    assert_int_equal(args.operand_count, 0);
    assert_true(args.given == 0);
}

static void test_stop_at_operand(void **state)
{
    (void)state;
    args.stop_at_operand = true;
    assert_int_equal(parse("zcctl --json run --unknown"), 0);
    args.stop_at_operand = false;
    assert_true(json);
    assert_int_equal(args.operand_count, 2);
    assert_string_equal(args.operands[0], "run");
}

static void test_errors(void **state)
{
    static const struct { const char *line, *message; } cases[] = {
        { "run --szie 1M", "unknown option --szie (did you mean --size?)" },
        { "run --skip-validaton", "unknown option --skip-validaton (did you mean --skip-validation?)" },
        { "run --detatch", "unknown option --detatch (did you mean --detach?)" },
        { "run -peer self", "unknown option -peer (did you mean --peer?)" },
        { "run --outptu x", "unknown option --outptu (did you mean --output?)" },
        { "run --colour", "unknown option --colour" },
        { "run --colour=x", "unknown option --colour=x" },
        { "run --siz 1M", "unknown option --siz (did you mean --size?)" },      /* no abbreviations */
        { "run -x", "unknown option -x" },
        { "run --size", "the value of --size is missing" },
        { "run -o", "the value of -o is missing" },
        { "run --detach=yes", "--detach takes no value" },
        { "run --skip-latency=1", "--skip-latency takes no value" },
        { "run --size 1e30", "size: \"1e30\" is not a size (use for instance 64K, 1M, 1MiB or 1000000)" },
        { "run --size -1", "size: \"-1\" is not a size (use for instance 64K, 1M, 1MiB or 1000000)" },
        { "run --size=", "size: \"\" is not a size (use for instance 64K, 1M, 1MiB or 1000000)" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_true(parse(cases[i].line) < 0);
        assert_string_equal(err.message, cases[i].message);
    }
}

/* Every row of the option table is an option of the command line. */
static void test_walks_the_table(void **state)
{
    size_t count;
    const struct zc_option *table = zc_options(&count);
    char line[128];

    (void)state;
    for (size_t i = 0; i < count; i++) {
        const char *value = table[i].type == ZC_OPTION_FLAG ? NULL : table[i].default_text != NULL ? table[i].default_text :
                            table[i].type == ZC_OPTION_CHOICE ? table[i].choices[0] : "self";
        snprintf(line, sizeof(line), "run --%s %s", table[i].name, value != NULL ? value : "");
        for (char *c = line; *c != '\0'; c++)
            *c = *c == '_' ? '-' : *c;
        assert_int_equal(parse(line), 0);
        assert_true(args.given == UINT64_C(1) << i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_stop_at_operand),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_walks_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
