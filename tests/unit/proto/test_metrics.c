/* Counters as metrics: both formats, labels, and what was not measured. */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "zc_metrics.h"

static const char stats[] =
    "{\"device_present\": true, \"port\": {\"active\": false, \"events\": {\"down\": 2, \"up\": 1}},"
    " \"uptime_s\": 1.5, \"clients\": 3, \"sessions\": {\"open\": 2, \"total\": 9, \"ended\": {\"bye\": 5, \"error\": 2}},"
    " \"objects\": {\"mr_bytes\": 9007199254740993}, \"process\": {\"rss_bytes\": null},"
    " \"runs\": {\"strategies\": {\"copy_async\": {\"ended\": {\"done\": 4, \"failed\": 0}, \"gib_per_s\": 0.5},"
    " \"a\\\"\\\\b\": {\"ended\": {\"done\": 1}, \"gib_per_s\": null}}}}";

static char *render(const char *text, enum zc_metrics_format format)
{
    json_t *json = json_loads(text, 0, NULL);
    assert_non_null(json);
    char *metrics = zc_metrics(json, format);
    assert_non_null(metrics);
    json_decref(json);
    return metrics;
}

static void has(const char *text, const char *line)
{
    if (strstr(text, line) == NULL)
        fail_msg("'%s' is not in\n%s", line, text);
}

static void test_openmetrics(void **state)
{
    (void)state;
    char *text = render(stats, ZC_METRICS_OPENMETRICS);
    has(text, "# TYPE zcrdma_uptime_seconds gauge\n");
    has(text, "\nzcrdma_device_present 1\n");
    has(text, "\nzcrdma_port_active 0\n");
    has(text, "\nzcrdma_port_events_total{event=\"down\"} 2\nzcrdma_port_events_total{event=\"up\"} 1\n");
    has(text, "\nzcrdma_uptime_seconds 1.5\n");
    has(text, "# TYPE zcrdma_sessions_opened counter\n");
    has(text, "\nzcrdma_sessions_opened_total 9\n");
    has(text, "\nzcrdma_sessions_ended_total{reason=\"bye\"} 5\nzcrdma_sessions_ended_total{reason=\"error\"} 2\n");
    has(text, "\nzcrdma_registered_bytes 9007199254740993\n");     /* no double on the way */
    has(text, "\nzcrdma_runs_total{strategy=\"copy_async\",state=\"done\"} 4\n");
    has(text, "\nzcrdma_runs_total{strategy=\"ab\",state=\"done\"} 1\n");
    has(text, "\nzcrdma_last_read_bytes_per_second{strategy=\"copy_async\"} 536870912\n");
    assert_string_equal(text + strlen(text) - 6, "# EOF\n");
    assert_null(strstr(text, "resident"));      /* null: neither a sample nor a head */
    assert_null(strstr(text, "null"));
    free(text);
}

static void test_prometheus(void **state)
{
    (void)state;
    char *text = render(stats, ZC_METRICS_PROMETHEUS);
    has(text, "# TYPE zcrdma_sessions_opened_total counter\n# HELP zcrdma_sessions_opened_total ");
    has(text, "\nzcrdma_sessions_opened_total 9\n");
    assert_null(strstr(text, "# EOF"));
    free(text);
}

static void test_nothing(void **state)
{
    (void)state;
    char *text = render("{}", ZC_METRICS_OPENMETRICS);
    assert_string_equal(text, "# EOF\n");
    free(text);
    text = render("{\"sessions\": 5, \"runs\": []}", ZC_METRICS_PROMETHEUS);
    assert_string_equal(text, "");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_openmetrics), cmocka_unit_test(test_prometheus), cmocka_unit_test(test_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
