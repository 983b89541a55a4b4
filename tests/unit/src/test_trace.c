/* The rings of a trace - whose they are, what is dropped - and the file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trace.h"

static struct zc_trace *make(uint32_t threads, uint64_t records)
{
    struct zc_trace *trace;
    struct zc_error err;
    assert_int_equal(zc_trace_create(threads, records, &trace, &err), 0);
    return trace;
}

/* The file's text, in static memory. */
static const char *text_of(const struct zc_trace *trace, uint64_t start_ns)
{
    static char text[1 << 20];
    char path[] = "/tmp/zc-trace-XXXXXX";
    struct zc_error err;
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(zc_trace_write(trace, path, "a \"title\"", start_ns, &err), 0);
    const ssize_t length = pread(fd, text, sizeof text - 1, 0);
    assert_true(length > 0);
    text[length] = '\0';
    close(fd);
    unlink(path);
    return text;
}

static unsigned count(const char *text, const char *what)
{
    unsigned found = 0;
    for (; (text = strstr(text, what)); text += strlen(what))
        found++;
    return found;
}

static void test_every_stage(void **state)
{
    (void)state;
    struct zc_trace *trace = make(1, 100);
    struct zc_trace_counts counts;
    zc_trace_add(trace, 0, ZC_TRACE_SUBMITTED, 900, 900, 7, 0, 4096);
    zc_trace_add(trace, 0, ZC_TRACE_REGISTERED, 1000, 3500, 7, 1, 4096);
    zc_trace_add(trace, 0, ZC_TRACE_POSTED, 4000, 4100, 7, 1, 4096);
    zc_trace_add(trace, 0, ZC_TRACE_COMPLETED, 9000, 9000, 7, 1, 4096);
    zc_trace_add(trace, 0, ZC_TRACE_COPIED, 9000, 9500, 7, 1, 4096);
    zc_trace_add(trace, 0, ZC_TRACE_DEREGISTERED, 9500, 9900, 7, 1, 4096);
    zc_trace_add(trace, 0, ZC_TRACE_RECLAIMED, 10000, 10000, 7, 0, UINT64_C(1) << 33);
    zc_trace_counts(trace, &counts);
    assert_int_equal(counts.records, 7);
    assert_int_equal(counts.dropped, 0);
    assert_int_equal(counts.threads, 1);
    const char *text = text_of(trace, 1000);
    for (int i = 0; i < ZC_TRACE_STAGE_COUNT; i++) {
        char name[64];
        snprintf(name, sizeof name, "\"name\":\"%s\"", zc_trace_stage_names[i]);
        assert_int_equal(count(text, name), 1);
    }
    assert_non_null(strstr(text, "\"ts\":-0.100"));     /* before the window */
    assert_non_null(strstr(text, "\"ts\":0.000,\"dur\":2.500,\"cat\":\"chunk\",\"args\":{\"caller\":0,\"request\":7,\"chunk\":1,\"bytes\":4096}}"));
    assert_non_null(strstr(text, "\"ph\":\"b\",\"name\":\"READ\""));
    assert_non_null(strstr(text, "\"ph\":\"e\",\"name\":\"READ\""));
    assert_int_equal(count(text, "\"id\":\"0.7.1\""), 2);
    assert_non_null(strstr(text, "\"bytes\":4294967295"));
    assert_non_null(strstr(text, "a ?title?"));
    zc_trace_destroy(trace);
}

static void test_the_newest_stay(void **state)
{
    (void)state;
    struct zc_trace *trace = make(1, 64);
    struct zc_trace_counts counts;
    for (uint64_t i = 0; i < 1000; i++)
        zc_trace_add(trace, 0, ZC_TRACE_COPIED, i, i, i, 0, 1);
    zc_trace_counts(trace, &counts);
    assert_int_equal(counts.records, 64);
    assert_int_equal(counts.dropped, 936);
    const char *text = text_of(trace, 0);
    assert_int_equal(count(text, "copied"), 64);
    assert_non_null(strstr(text, "\"request\":936,"));
    assert_non_null(strstr(text, "\"request\":999,"));
    assert_null(strstr(text, "\"request\":935,"));
    zc_trace_destroy(trace);
}

static void *record_some(void *arg)
{
    pthread_setname_np(pthread_self(), "a-worker");
    for (uint64_t i = 0; i < 50; i++)
        zc_trace_add(arg, 0, ZC_TRACE_REGISTERED, i, i + 1, i, 0, 1);
    return NULL;
}

static void test_a_ring_each(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    struct zc_trace *trace = make(THREADS, 400);
    struct zc_trace_counts counts;
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, record_some, trace), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    zc_trace_counts(trace, &counts);
    assert_int_equal(counts.records, 200);
    assert_int_equal(counts.threads, THREADS);
    zc_trace_add(trace, 0, ZC_TRACE_POSTED, 0, 0, 0, 0, 0);    /* this thread comes too late for a ring */
    zc_trace_counts(trace, &counts);
    assert_int_equal(counts.records, 200);
    assert_int_equal(counts.dropped, 1);
    const char *text = text_of(trace, 0);
    assert_int_equal(count(text, "a-worker"), THREADS);
    assert_int_equal(count(text, "thread_name"), THREADS);
    zc_trace_destroy(trace);
}

/* The next trace may lie where the last one lay; the thread takes a ring of it all the same. */
static void test_one_after_another(void **state)
{
    (void)state;
    struct zc_trace_counts counts;
    for (int i = 0; i < 3; i++) {
        struct zc_trace *trace = make(1, 64);
        zc_trace_add(trace, 0, ZC_TRACE_COPIED, 1, 2, 3, 0, 0);
        zc_trace_counts(trace, &counts);
        assert_int_equal(counts.records, 1);
        zc_trace_destroy(trace);
    }
    zc_trace_destroy(NULL);
}

static void test_no_file(void **state)
{
    (void)state;
    struct zc_trace *trace = make(1, 64);
    struct zc_error err = {0};
    assert_true(zc_trace_write(trace, "/nowhere/at/all", "t", 0, &err) < 0);
    assert_int_equal(err.kind, ZC_ERR_RESOURCE);
    assert_non_null(strstr(err.message, "/nowhere/at/all"));
    zc_trace_destroy(trace);
}

static void test_cost(void **state)
{
    (void)state;
    const double cost_ns = zc_trace_cost_ns();
    print_message("    a record costs %.1f ns\n", cost_ns);
    assert_true(cost_ns > 0 && cost_ns < 1e6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_stage), cmocka_unit_test(test_the_newest_stay), cmocka_unit_test(test_a_ring_each),
        cmocka_unit_test(test_one_after_another), cmocka_unit_test(test_no_file), cmocka_unit_test(test_cost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
