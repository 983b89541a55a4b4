/* Lists of networks: what is in them, and what is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "network.h"

static bool in(const struct zc_networks *networks, const char *text)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
        return zc_networks_contain(networks, (struct sockaddr *)&v4);
    assert_int_equal(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
    return zc_networks_contain(networks, (struct sockaddr *)&v6);
}

static void test_members(void **state)
{
    static const struct {
        const char *list, *address;
        bool member;
    } rows[] = {
        {"10.0.0.0/8", "10.255.1.2", true},
        {"10.0.0.0/8", "11.0.0.0", false},
        {"10.0.0.0/8", "::ffff:10.1.2.3", true},    /* what a listener on [::] sees of an IPv4 peer */
        {"::ffff:10.0.0.0/104", "10.1.2.3", true},
        {"10.0.0.0/8", "a00::", false},
        {"192.168.7.3", "192.168.7.3", true},
        {"192.168.7.3", "192.168.7.2", false},
        {"192.168.7.2/31", "192.168.7.3", true},
        {"192.168.7.2/31", "192.168.7.4", false},
        {"0.0.0.0/0", "203.0.113.9", true},
        {"0.0.0.0/0", "2001:db8::1", false},
        {"::/0", "2001:db8::1", true},
        {"::/0", "203.0.113.9", true},
        {"fd00::/8", "fd12:3456::7", true},
        {"fd00::/8", "fe80::1", false},
        {"2001:db8::/33", "2001:db8:7fff::1", true},
        {"2001:db8::/33", "2001:db8:8000::1", false},
        {" 10.9.0.1 ,\tfd00::/8", "10.9.0.1", true},
        {"10.9.0.1,fd00::/8", "fd00::1", true},
        {"10.9.0.1,fd00::/8", "10.9.0.2", false},
        {"", "10.9.0.1", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct zc_networks networks;
        struct zc_error err = {0};
        if (zc_networks_parse(rows[i].list, &networks, &err) != 0)
            fail_msg("%s: %s", rows[i].list, err.message);
        if (in(&networks, rows[i].address) != rows[i].member)
            fail_msg("%s in '%s'?", rows[i].address, rows[i].list);
    }
    struct zc_networks all;
    assert_int_equal(zc_networks_parse("0.0.0.0/0,::/0", &all, NULL), 0);
    assert_false(zc_networks_contain(&all, &(struct sockaddr){.sa_family = AF_UNIX}));
}

static void test_no_networks(void **state)
{
    static const char *const bad[] = {
        "10.0.0.0/33", "10.0.0.1/8", "fd00::/129", "fd00::1/64", "10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/8x", "10.0.0", "host.example",
        ",", "10.0.0.1,", "10.0.0.1,,10.0.0.2", "10.0.0.1 10.0.0.2", "10.0.0.1;", "/8",
        "00000000000000000000000000000000000000000000000000000000000000000000000000000000000",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct zc_networks networks = {.count = 77};
        struct zc_error err = {0};
        if (zc_networks_parse(bad[i], &networks, &err) == 0)
            fail_msg("'%s' passed", bad[i]);
        assert_int_equal(err.kind, ZC_ERR_INVALID);
        assert_int_equal(networks.count, 77);
    }
}

static void test_too_many(void **state)
{
    (void)state;
    char list[ZC_NETWORKS_MAX * 10 + 10] = "10.0.0.1";
    struct zc_networks networks;
    for (int i = 1; i < ZC_NETWORKS_MAX; i++)
        strcat(list, ",10.0.0.1");
    assert_int_equal(zc_networks_parse(list, &networks, NULL), 0);
    assert_int_equal(networks.count, ZC_NETWORKS_MAX);
    strcat(list, ",10.0.0.1");
    assert_true(zc_networks_parse(list, &networks, NULL) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_members),
        cmocka_unit_test(test_no_networks),
        cmocka_unit_test(test_too_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
