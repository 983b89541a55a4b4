/* Configuration file and command line. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "config.h"
#include "options.h"
#include "log.h"

static char file[] = "/tmp/zc-config-XXXXXX";

static void write_file(const char *text)
{
    FILE *out = fopen(file, "w");
    assert_non_null(out);
    fputs(text, out);
    assert_int_equal(fclose(out), 0);
}

/* Arguments, NULL-terminated, behind the program's name. */
static int load(struct config *config, enum config_action *action, struct zc_error *err, char **arguments)
{
    static char *argv[16];
    int argc = 1;
    argv[0] = "zcrdmad";
    while (arguments && *arguments)
        argv[argc++] = *arguments++;
    argv[argc] = NULL;
    memset(err, 0, sizeof *err);
    return config_load(argc, argv, config, action, err);
}
#define ARGS(...) ((char *[]){ __VA_ARGS__, NULL })

static void loads(struct config *config, char **arguments)
{
    enum config_action action;
    struct zc_error err;
    if (load(config, &action, &err, arguments) != 0)
        fail_msg("%s", err.message);
}

static void refuses(const char *text, const char *field, const char *words, char **arguments)
{
    struct config config;
    enum config_action action;
    struct zc_error err;
    write_file(text);
    assert_true(load(&config, &action, &err, arguments) < 0);
    assert_int_equal(err.kind, ZC_ERR_INVALID);
    if (!strstr(err.message, words))
        fail_msg("'%s' is not in '%s'", words, err.message);
    if (field)
        assert_string_equal(err.field, field);
}

static void test_defaults(void **state)
{
    (void)state;
    struct config config;
    write_file("");
    loads(&config, ARGS("--config", file));
    assert_string_equal(config.socket, "/run/zcrdmad/control.sock");
    assert_string_equal(config.state_dir, "/var/lib/zcrdmad");
    assert_string_equal(config.device, "auto");
    assert_string_equal(config.listen.address, "0.0.0.0");
    assert_int_equal(config.listen.port, 17471);
    assert_int_equal(config.region_size_bytes, 256 << 20);
    assert_int_equal(config.region_pages, ZC_PAGES_DEFAULT);
    assert_int_equal(config.log_level, ZC_LOG_INFO);
    assert_string_equal(config.socket_group, "zcrdma");
    assert_int_equal(config.socket_mode, 0660);
    assert_int_equal(config.max_clients, 64);
    assert_int_equal(config.max_results, 10000);
    assert_string_equal(config.metrics_file, "");
    assert_int_equal(config.metrics_interval_s, 15);
}

static void test_file_and_command_line(void **state)
{
    (void)state;
    struct config config;
    write_file("# comment\n; another\n[zcrdmad]\n  socket = /tmp/from-file\nregion_size = 1M ; behind\nlisten = 10.0.0.1:0\n"
               "device=mlx5_0\nlog_level = debug\n");
    loads(&config, ARGS("--config", file));
    assert_string_equal(config.socket, "/tmp/from-file");
    assert_int_equal(config.region_size_bytes, 1 << 20);
    assert_string_equal(config.listen.address, "10.0.0.1");
    assert_int_equal(config.listen.port, 0);
    assert_string_equal(config.device, "mlx5_0");
    assert_int_equal(config.log_level, ZC_LOG_DEBUG);
    loads(&config, ARGS("--socket=/tmp/from-line", "--config", file, "--listen", "[::1]:80", "--region-size", "2M"));
    assert_string_equal(config.socket, "/tmp/from-line");
    assert_string_equal(config.listen.address, "::1");
    assert_int_equal(config.listen.port, 80);
    assert_int_equal(config.region_size_bytes, 2 << 20);
    assert_string_equal(config.device, "mlx5_0");
}

static void test_bad_file(void **state)
{
    (void)state;
    char **args = ARGS("--config", file);
    refuses("[zcrdmad]\n\nsockt = /x\n", "sockt", ":3: unknown key sockt (did you mean socket?)", args);
    refuses("[zcrdma]\nsocket = /x\n", "socket", ":2: unknown section [zcrdma]", args);
    refuses("socket = /x\n", "socket", ":1: no section", args);
    refuses("[zcrdmad]\nregion_size = lots\n", "region_size", ":2: region_size 'lots'", args);
    refuses("[zcrdmad]\nregion_size = 1\n", "region_size", ":2: region_size '1'", args);
    refuses("[zcrdmad]\nlisten = 1.2.3.4\n", "listen", ":2: listen '1.2.3.4' is not ADDR:PORT", args);
    refuses("[zcrdmad]\nlisten = host:1\n", "listen", "no numeric address", args);
    refuses("[zcrdmad]\nlisten = 1.2.3.4:70000\n", "listen", "no port", args);
    refuses("[zcrdmad]\nlisten = ::1:5\n", "listen", "no numeric address", args);
    refuses("[zcrdmad]\nregion_pages = 4k\n", "region_pages", ":2: region_pages '4k' is not one of default, thp, 2m or 1g", args);
    refuses("[zcrdmad]\nlog_level = loud\n", "log_level", ":2: log_level 'loud' is not one of error", args);
    refuses("[zcrdmad]\nmax_clients = 0\n", "max_clients", ":2: max_clients '0' is not a number from 1 to 4096", args);
    refuses("[zcrdmad]\nmax_clients = -1\n", "max_clients", "is not a number", args);
    refuses("[zcrdmad]\nmax_results = 10x\n", "max_results", "is not a number", args);
    refuses("[zcrdmad]\nmax_results = 99999999999999999999\n", "max_results", "is not a number", args);
    refuses("[zcrdmad]\nmetrics_file =\n", "metrics_file", "is empty", args);
    refuses("[zcrdmad]\nmetrics_interval =\n", "metrics_interval", "is not a number", args);
    refuses("[zcrdmad]\nmax_qps_per_session = 65\n", "max_qps_per_session", "is not a number from 1 to 64", args);
    refuses("[zcrdmad]\nallow = 10.0.0.1/8\n", "allow", ":2: allow: '10.0.0.1/8' is no network", args);
    refuses("[zcrdmad]\nallow = everybody\n", "allow", "'everybody' is no numeric address", args);
    refuses("[zcrdmad]\nrkey_scope = qp\n", "rkey_scope", "is not one of auto, session or region", args);
    refuses("[zcrdmad]\nsocket_mode = 0888\n", "socket_mode", ":2: socket_mode '0888' is not an octal mode", args);
    refuses("[zcrdmad]\nsocket_mode = 1777\n", "socket_mode", "is not an octal mode from 0 to 0777", args);
    refuses("[zcrdmad]\nsocket_group =\n", "socket_group", "is empty", args);
    refuses("[zcrdmad]\nsocket =\n", "socket", "socket is empty", args);
    refuses("[zcrdmad]\nsocket = /a\nsocket = /b\n", "socket", ":3: socket is given twice", args);
    refuses("[zcrdmad]\nsocket = /a\n  socket = /b\n", "socket", ":3: socket is given twice", args);
    refuses("[zcrdmad]\nnonsense\nsockt = /x\n", "config", ":2: neither [section] nor key = value", args);
    char longline[20000];
    memset(longline, 'x', sizeof longline);
    memcpy(longline, "[zcrdmad]\nsocket = ", 19);
    longline[sizeof longline - 1] = 0;
    refuses(longline, NULL, ":2: line is longer than", args);
}

static void test_bad_command_line(void **state)
{
    (void)state;
    refuses("", NULL, "unknown option --sockt (did you mean --socket?)", ARGS("--sockt", "/x"));
    refuses("", NULL, "unknown option --region-sise=1M (did you mean --region-size?)", ARGS("--region-sise=1M"));
    refuses("", NULL, "--socket needs a value", ARGS("--socket"));
    refuses("", NULL, "unexpected argument 'now'", ARGS("now"));
    refuses("", "region_size", "--region-size: region_size '-1'", ARGS("--region-size", "-1"));
}

static void test_missing_file(void **state)
{
    (void)state;
    struct config config;
    enum config_action action;
    struct zc_error err;
    assert_true(load(&config, &action, &err, ARGS("--config", "/nonexistent/zcrdmad.conf")) < 0);
    assert_non_null(strstr(err.message, "/nonexistent/zcrdmad.conf"));
    if (access(CONFIG_DEFAULT_FILE, F_OK) != 0)
        assert_int_equal(load(&config, &action, &err, NULL), 0);
}

static void test_actions(void **state)
{
    (void)state;
    struct config config;
    enum config_action action;
    struct zc_error err;
    write_file("");
    assert_int_equal(load(&config, &action, &err, ARGS("--help")), 0);
    assert_int_equal(action, CONFIG_SHOW_HELP);
    assert_int_equal(load(&config, &action, &err, ARGS("--version")), 0);
    assert_int_equal(action, CONFIG_SHOW_VERSION);
    assert_int_equal(load(&config, &action, &err, ARGS("--check-config", "--config", file)), 0);
    assert_int_equal(action, CONFIG_CHECK);
}

static int reported;
static void report(const char *key)
{
    assert_string_equal(key, "region_size");
    reported++;
}

static void test_reload(void **state)
{
    (void)state;
    struct config config;
    struct zc_error err;
    size_t fixed;
    write_file("[zcrdmad]\nlog_level = info\n");
    loads(&config, ARGS("--config", file));
    write_file("[zcrdmad]\nlog_level = debug\nregion_size = 4M\nmax_clients = 7\nmetrics_file = /m\n");
    assert_int_equal(config_reload(&config, report, &fixed, &err), 0);
    assert_int_equal(fixed, 1);
    assert_int_equal(reported, 1);
    assert_int_equal(config.log_level, ZC_LOG_DEBUG);
    assert_int_equal(config.region_size_bytes, 256 << 20);
    assert_int_equal(config.max_clients, 7);
    assert_string_equal(config.metrics_file, "/m");
    write_file("[zcrdmad]\nlog_level = debug\nmax_clients = 7\n");
    assert_int_equal(config_reload(&config, report, &fixed, &err), 0);
    assert_string_equal(config.metrics_file, "");
    write_file("[zcrdmad]\nlog_level = error\nbroken\n");
    assert_true(config_reload(&config, report, &fixed, &err) < 0);
    assert_int_equal(config.log_level, ZC_LOG_DEBUG);
}

/* Every key of the shipped file is known, and shown with its default. */
static void test_shipped_file(void **state)
{
    (void)state;
    struct config config, defaults;
    char line[512], text[16384] = "", *shown = NULL, *plain = NULL;
    size_t length, keys = 0;
    FILE *in = fopen(ZC_SOURCE_DIR "/etc/zcrdmad.conf", "r");
    assert_non_null(in);
    while (fgets(line, sizeof line, in)) {
        bool key = line[0] == '#' && line[1] != ' ' && line[1] != '\n';
        keys += key;
        strcat(text, key ? line + 1 : line);
    }
    fclose(in);
    write_file("");
    loads(&defaults, ARGS("--config", file));
    write_file(text);
    loads(&config, ARGS("--config", file));
    FILE *out = open_memstream(&shown, &length);
    config_print(&config, out);
    fclose(out);
    out = open_memstream(&plain, &length);
    config_print(&defaults, out);
    fclose(out);
    assert_string_equal(shown, plain);
    for (const char *at = shown; (at = strchr(at, '=')); at++)
        keys--;
    assert_int_equal(keys, 0);
    free(shown);
    free(plain);
}

static int setup(void **state)
{
    (void)state;
    int fd = mkstemp(file);
    return fd < 0 ? -1 : close(fd);
}

static int teardown(void **state)
{
    (void)state;
    return unlink(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults), cmocka_unit_test(test_file_and_command_line), cmocka_unit_test(test_bad_file),
        cmocka_unit_test(test_bad_command_line), cmocka_unit_test(test_missing_file), cmocka_unit_test(test_actions),
        cmocka_unit_test(test_reload), cmocka_unit_test(test_shipped_file),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
