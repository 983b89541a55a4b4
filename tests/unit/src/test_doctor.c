/* The doctor's checks, each both ways, against trees of /sys and /proc that are made here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <errno.h>
#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "doctor.h"

static char root[64];
static struct zc_doctor_facts facts;
static struct zc_finding findings[ZC_FINDINGS_MAX];
static unsigned pauses;

/* ---- the tree */

static void put(const char *path, const char *content)
{
    char whole[512];
    snprintf(whole, sizeof whole, "%s%s", root, path);
    for (char *slash = strchr(whole + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        assert_true(mkdir(whole, 0755) == 0 || errno == EEXIST);
        *slash = '/';
    }
    FILE *const file = fopen(whole, "w");
    assert_non_null(file);
    fprintf(file, "%s\n", content);
    fclose(file);
}

static void drop(const char *path)
{
    char whole[512];
    snprintf(whole, sizeof whole, "%s%s", root, path);
    assert_int_equal(remove(whole), 0);
}

static int remove_one(const char *path, const struct stat *about, int type, struct FTW *walk)
{
    (void)about, (void)type, (void)walk;
    return remove(path);
}

#define DEVICE "/sys/class/infiniband/mlx5_0"
#define CPU "/sys/devices/system/cpu"
#define NODE "/sys/devices/system/node"

static void put_cpus(const char *governor, const char *deep_disabled)
{
    put(CPU "/cpu0/cpufreq/scaling_governor", "performance");
    put(CPU "/cpu1/cpufreq/scaling_governor", governor);
    put(CPU "/cpu0/cpuidle/state0/latency", "0");
    put(CPU "/cpu0/cpuidle/state0/name", "POLL");
    put(CPU "/cpu0/cpuidle/state0/disable", "0");
    put(CPU "/cpu0/cpuidle/state1/latency", "133");
    put(CPU "/cpu0/cpuidle/state1/name", "C6");
    put(CPU "/cpu0/cpuidle/state1/disable", deep_disabled);
    put("/sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc");
}

/* A host that spoils nothing. */
static void put_all(void)
{
    put(DEVICE "/ports/1/rate", "100 Gb/sec (4X EDR)");
    put(DEVICE "/ports/1/counters/port_xmit_data", "1000000");
    put(DEVICE "/ports/1/counters/port_rcv_data", "2000000");
    put(DEVICE "/ports/1/gid_attrs/types/3", "RoCE v2");
    put(DEVICE "/device/current_link_speed", "16.0 GT/s PCIe");
    put(DEVICE "/device/max_link_speed", "16.0 GT/s PCIe");
    put(DEVICE "/device/current_link_width", "16");
    put(DEVICE "/device/max_link_width", "16");
    put(DEVICE "/device/iommu_group/type", "identity");
    put(NODE "/node0/cpulist", "0-3");
    put(NODE "/node1/cpulist", "4-7");
    put(NODE "/node0/distance", "10 21");
    put(NODE "/node1/distance", "21 10");
    put("/proc/self/status", "Name:\tzcrdmad\nCapEff:\t0000000000000000\nCpus_allowed_list:\t0-7");
    put("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "256");
    put("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "250");
    put("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never");
    put_cpus("performance", "1");
}

static void on_pause(void *arg)
{
    pauses++;
    if (arg)
        put(DEVICE "/ports/1/counters/port_rcv_data", arg);
}

static void fill_device(struct zc_device_info *device)
{
    *device = (struct zc_device_info){
        .name = "mlx5_0", .kind = ZC_DEVICE_HARDWARE, .firmware = "20.31.1014", .port = 1, .port_state = "ACTIVE",
        .link_layer = "Ethernet", .netdev = "eth2", .address = "10.9.0.1", .active_mtu = 4096, .max_mtu = 4096,
        .rate_gbit_per_s = 100, .numa_node = 1, .max_qp_rd_atom = 16, .max_qp_init_rd_atom = 16, .odp = true,
    };
}

static union ibv_gid gid(const char *text)
{
    union ibv_gid made;
    assert_int_equal(inet_pton(AF_INET6, text, made.raw), 1);
    return made;
}

static int set_up(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "%s/zc-doctor-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");   /* many small files */
    assert_non_null(mkdtemp(root));
    put_all();
    pauses = 0;
    facts = (struct zc_doctor_facts){
        .root = root, .memlock_limit_bytes = UINT64_MAX, .region_bytes = 256 << 20, .relaxed_ordering = 1, .cpus = 8,
        .pause = on_pause, .pause_s = 1,
        .peer = { .asked = true, .name = "there", .short_read = true, .long_read = true, .long_read_bytes = 65536, .path_mtu = 4096,
                  .gids = true, .own_gid_index = 3, .outstanding_reads = 16 },
    };
    facts.peer.own_gid = gid("::ffff:10.9.0.1");
    facts.peer.peer_gid = gid("::ffff:10.9.0.2");
    fill_device(&facts.device);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- what is expected */

static const struct zc_finding *find(const char *id)
{
    const size_t count = zc_doctor_check(&facts, findings);
    for (size_t i = 0; i < count; i++)
        if (strcmp(findings[i].id, id) == 0)
            return &findings[i];
    return NULL;
}

/* `words` is in the finding or its fix; what is wrong has a fix, but for what nobody can change. */
static void expect(const char *id, enum zc_finding_level level, const char *words)
{
    const struct zc_finding *const finding = find(id);
    if (!finding)
        fail_msg("%s: no finding", id);
    if (finding->level != level || (!strstr(finding->finding, words) && !strstr(finding->fix, words)))
        fail_msg("%s: %s: %s -> %s", id, zc_finding_level_names[finding->level], finding->finding, finding->fix);
    if (level == ZC_FINDING_WARN || level == ZC_FINDING_BAD)
        assert_true(finding->fix[0] != '\0');
    if (level == ZC_FINDING_OK)
        assert_true(finding->fix[0] == '\0');
}

static void test_nothing_spoils(void **state)
{
    (void)state;
    const size_t count = zc_doctor_check(&facts, findings);
    assert_int_equal(count, 24);
    for (size_t i = 0; i < count; i++) {
        if (findings[i].level != ZC_FINDING_OK)
            fail_msg("%s: %s", findings[i].id, findings[i].finding);
        assert_true(findings[i].what[0] != '\0' && findings[i].finding[0] != '\0');
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(findings[i].id, findings[j].id);
    }
    assert_int_equal(pauses, 1);
}

/* An empty tree and no facts: nothing is guessed. */
static void test_nothing_known(void **state)
{
    (void)state;
    char empty[80];
    snprintf(empty, sizeof empty, "%s/empty", root);
    facts.root = empty;
    facts.peer.gids = false;
    facts.peer.path_mtu = 0;
    facts.device.active_mtu = 0;
    facts.device.rate_gbit_per_s = NAN;
    facts.relaxed_ordering = -1;
    static const char *const unknown[] = { "rate", "pcie", "mtu", "relaxed_ordering", "iommu", "others", "numa", "governor", "idle_states",
                                           "clock", "huge_pages", "thp", "peer_mtu", "peer_gid" };
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++)
        expect(unknown[i], ZC_FINDING_UNKNOWN, "");
    assert_int_equal(pauses, 0);
}

static void test_no_device(void **state)
{
    (void)state;
    facts.device = (struct zc_device_info){ .rate_gbit_per_s = NAN, .numa_node = -1 };
    facts.relaxed_ordering = -1;
    facts.peer.asked = false;
    expect("device", ZC_FINDING_BAD, "no RDMA device");
    static const char *const unknown[] = { "port", "rate", "pcie", "mtu", "rd_atomic", "odp", "relaxed_ordering", "iommu" };
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++)
        expect(unknown[i], ZC_FINDING_UNKNOWN, "");
}

static void test_device(void **state)
{
    (void)state;
    facts.device.kind = ZC_DEVICE_SOFTWARE;
    snprintf(facts.device.model, sizeof facts.device.model, "100 Gbit/s");
    expect("device", ZC_FINDING_WARN, "100 Gbit/s");
    static const char *const spared[] = { "rate", "pcie", "iommu", "relaxed_ordering", "others" };
    for (size_t i = 0; i < sizeof spared / sizeof spared[0]; i++)
        expect(spared[i], ZC_FINDING_OK, "software");
    facts.device.kind = ZC_DEVICE_RXE;
    expect("device", ZC_FINDING_WARN, "Soft-RoCE");
    expect("iommu", ZC_FINDING_OK, "does not apply");
}

static void test_port(void **state)
{
    (void)state;
    snprintf(facts.device.port_state, ZC_NAME_MAX, "DOWN");
    expect("port", ZC_FINDING_BAD, "ip link set eth2 up");
    snprintf(facts.device.link_layer, ZC_NAME_MAX, "InfiniBand");
    expect("port", ZC_FINDING_BAD, "subnet manager");
    fill_device(&facts.device);
    facts.device.address[0] = '\0';
    expect("port", ZC_FINDING_BAD, "ip address add");
}

static void test_rate(void **state)
{
    (void)state;
    put(DEVICE "/ports/1/rate", "25 Gb/sec (1X EDR)");
    expect("rate", ZC_FINDING_OK, "25 Gb/sec");         /* an Ethernet port of 25 Gbit/s has one lane */
    snprintf(facts.device.link_layer, ZC_NAME_MAX, "InfiniBand");
    expect("rate", ZC_FINDING_WARN, "1X EDR");
    put(DEVICE "/ports/1/rate", "10 Gb/sec (4X SDR)");
    expect("rate", ZC_FINDING_WARN, "4X SDR");
    put(DEVICE "/ports/1/rate", "100 Gb/sec (4X EDR)");
    expect("rate", ZC_FINDING_OK, "4X EDR");
    put(DEVICE "/ports/1/rate", "nonsense");
    expect("rate", ZC_FINDING_UNKNOWN, "port 1");
}

static void test_pcie(void **state)
{
    (void)state;
    put(DEVICE "/device/current_link_width", "8");
    expect("pcie", ZC_FINDING_WARN, "8 lanes of 16 GT/s, the card can do 16");
    put(DEVICE "/device/current_link_width", "16");
    put(DEVICE "/device/current_link_speed", "8.0 GT/s PCIe");
    expect("pcie", ZC_FINDING_WARN, "16 lanes of 8 GT/s");
    put(DEVICE "/device/max_link_speed", "8.0 GT/s PCIe");
    expect("pcie", ZC_FINDING_OK, "126 Gbit/s");
    facts.device.rate_gbit_per_s = 200;
    expect("pcie", ZC_FINDING_WARN, "126 Gbit/s at most");
    put(DEVICE "/device/current_link_width", "0");      /* a virtual function */
    expect("pcie", ZC_FINDING_UNKNOWN, "virtual");
    put(DEVICE "/device/current_link_speed", "Unknown");
    expect("pcie", ZC_FINDING_UNKNOWN, "PCIe");
}

static void test_mtu(void **state)
{
    (void)state;
    facts.device.active_mtu = 1024;
    expect("mtu", ZC_FINDING_WARN, "ip link set eth2 mtu 9000");
    snprintf(facts.device.link_layer, ZC_NAME_MAX, "InfiniBand");
    expect("mtu", ZC_FINDING_WARN, "subnet manager");
}

static void test_reads(void **state)
{
    (void)state;
    facts.device.max_qp_init_rd_atom = 0;
    expect("rd_atomic", ZC_FINDING_BAD, "none completes");
    facts.device.max_qp_init_rd_atom = 16;
    facts.device.max_qp_rd_atom = 3;
    expect("rd_atomic", ZC_FINDING_WARN, "--qps 3");
    facts.peer.outstanding_reads = 4;
    expect("peer_reads", ZC_FINDING_WARN, "4 READs");
}

static void test_odp_and_ordering(void **state)
{
    (void)state;
    facts.device.odp = false;
    expect("odp", ZC_FINDING_NOTE, "cannot page");
    facts.relaxed_ordering = 0;
    expect("relaxed_ordering", ZC_FINDING_NOTE, "refuses");
}

static void test_iommu(void **state)
{
    (void)state;
    put(DEVICE "/device/iommu_group/type", "DMA-FQ");
    expect("iommu", ZC_FINDING_WARN, "iommu=pt");
    drop(DEVICE "/device/iommu_group/type");
    expect("iommu", ZC_FINDING_UNKNOWN, "does not tell");
    drop(DEVICE "/device/iommu_group");
    expect("iommu", ZC_FINDING_OK, "no IOMMU");
}

static void test_others(void **state)
{
    (void)state;
    facts.pause_arg = (char[]){ "2524288" };    /* 512 Ki units of 4 bytes more */
    expect("others", ZC_FINDING_WARN, "2.0 MiB/s");
    put(DEVICE "/ports/1/counters/port_rcv_data", "2000000");
    facts.pause_arg = (char[]){ "2000100" };
    expect("others", ZC_FINDING_OK, "400 bytes/s");
    facts.sessions_open = 2;
    expect("others", ZC_FINDING_WARN, "2 sessions");
    facts.runs_active = 1;
    expect("others", ZC_FINDING_UNKNOWN, "run of our own");
    facts.sessions_open = facts.runs_active = 0;
    facts.pause_arg = NULL;
    drop(DEVICE "/ports/1/counters/port_rcv_data");
    expect("others", ZC_FINDING_UNKNOWN, "counters");
    put("/sys/class/net/eth2/statistics/tx_bytes", "5");        /* a driver whose port counts nothing */
    put("/sys/class/net/eth2/statistics/rx_bytes", "5");
    expect("others", ZC_FINDING_OK, "0 bytes/s");
}

static void test_memlock(void **state)
{
    (void)state;
    facts.memlock_limit_bytes = 8 << 20;
    expect("memlock", ZC_FINDING_BAD, "LimitMEMLOCK=infinity");
    facts.memlock_limit_bytes = UINT64_C(1) << 30;
    expect("memlock", ZC_FINDING_WARN, "more than 768 MiB");
    put("/proc/self/status", "CapEff:\t0000000000004000");
    expect("memlock", ZC_FINDING_OK, "exempt");
}

static void test_numa(void **state)
{
    (void)state;
    put("/proc/self/status", "Cpus_allowed_list:\t0,2-3");
    expect("numa", ZC_FINDING_WARN, "2.1 times");
    expect("numa", ZC_FINDING_WARN, "--cpunodebind=1");
    put("/proc/self/status", "Cpus_allowed_list:\t1,7");
    expect("numa", ZC_FINDING_OK, "node 1");
    facts.device.numa_node = -1;
    expect("numa", ZC_FINDING_UNKNOWN, "--numa");
    drop(NODE "/node1/cpulist");
    drop(NODE "/node1/distance");
    drop(NODE "/node1");
    expect("numa", ZC_FINDING_OK, "one NUMA node");
}

static void test_cpus(void **state)
{
    (void)state;
    put_cpus("powersave", "0");
    expect("governor", ZC_FINDING_WARN, "1 of 2 CPUs have the governor powersave");
    expect("idle_states", ZC_FINDING_WARN, "C6, which takes 133 us");
    put("/sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet");
    expect("clock", ZC_FINDING_WARN, "hpet");
    facts.cpus = 1;
    expect("cores", ZC_FINDING_WARN, "1 CPU,");
    drop(CPU "/cpu0/cpufreq/scaling_governor");
    drop(CPU "/cpu1/cpufreq/scaling_governor");
    expect("governor", ZC_FINDING_UNKNOWN, "hypervisor");
}

static void test_pages(void **state)
{
    (void)state;
    put("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "0");
    expect("huge_pages", ZC_FINDING_NOTE, "0 of 256");
    put("/sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never");
    expect("thp", ZC_FINDING_WARN, "echo madvise");
    put("/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]");
    expect("thp", ZC_FINDING_NOTE, "--pages thp");
    put("/sys/kernel/mm/transparent_hugepage/enabled", "something else");
    expect("thp", ZC_FINDING_UNKNOWN, "something else");
}

static void test_variables(void **state)
{
    (void)state;
    snprintf(facts.fork_safe, ZC_NAME_MAX, "0");
    expect("fork_safe", ZC_FINDING_OK, "not set");
    snprintf(facts.fork_safe, ZC_NAME_MAX, "1");
    expect("fork_safe", ZC_FINDING_WARN, "madvise");
    expect("hugepages_safe", ZC_FINDING_NOTE, "EINVAL");
    snprintf(facts.hugepages_safe, ZC_NAME_MAX, "1");
    expect("hugepages_safe", ZC_FINDING_WARN, "/proc");
}

static void test_peer(void **state)
{
    (void)state;
    expect("peer", ZC_FINDING_OK, "there answers");
    facts.peer.self = true;
    expect("peer", ZC_FINDING_NOTE, "share");
    zc_error_set(&facts.peer.error, ZC_ERR_PEER, -ETIMEDOUT, "peer", "peer there: no answer");
    expect("peer", ZC_FINDING_BAD, "no answer");
    assert_null(find("peer_mtu"));
    assert_null(find("peer_gid"));
    assert_null(find("peer_reads"));
    facts.peer = (struct zc_doctor_peer){ .asked = false };
    expect("peer", ZC_FINDING_UNKNOWN, "--peer HOST");
    assert_null(find("peer_mtu"));
}

static void test_peer_mtu(void **state)
{
    (void)state;
    expect("peer_mtu", ZC_FINDING_OK, "the peer, an earlier release");
    facts.peer.active_mtu = 4096;
    expect("peer_mtu", ZC_FINDING_OK, "both ports have an MTU of 4096");
    facts.peer.active_mtu = 1024;
    expect("peer_mtu", ZC_FINDING_WARN, "the peer's port has an MTU of 1024 bytes, this one 4096");
    facts.peer.long_read = false;
    expect("peer_mtu", ZC_FINDING_BAD, "packets of 4096 bytes do not pass; the peer's port has an MTU of 1024");
    facts.peer.long_read = true;
    facts.peer.active_mtu = 4096;
    facts.peer.path_mtu = 1024;
    expect("peer_mtu", ZC_FINDING_WARN, "the path has an MTU of 1024");
    facts.peer.active_mtu = 0;
    expect("peer_mtu", ZC_FINDING_WARN, "1024");
    facts.peer.long_read = false;
    snprintf(facts.peer.why, ZC_FINDING_MAX, "retries exceeded");
    expect("peer_mtu", ZC_FINDING_BAD, "packets of 1024 bytes do not pass");
    facts.peer.short_read = false;
    expect("peer_mtu", ZC_FINDING_BAD, "retries exceeded");
}

static void test_peer_gid(void **state)
{
    (void)state;
    put(DEVICE "/ports/1/gid_attrs/types/3", "IB/RoCE v1");
    expect("peer_gid", ZC_FINDING_WARN, "cma_roce_mode -d mlx5_0");
    facts.peer.own_gid = gid("fe80::1");
    expect("peer_gid", ZC_FINDING_WARN, "link-local");
    snprintf(facts.device.link_layer, ZC_NAME_MAX, "InfiniBand");       /* where GIDs are no IP addresses */
    expect("peer_gid", ZC_FINDING_OK, "fe80::1");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_nothing_spoils), TEST(test_nothing_known), TEST(test_no_device), TEST(test_device), TEST(test_port), TEST(test_rate),
        TEST(test_pcie), TEST(test_mtu), TEST(test_reads), TEST(test_odp_and_ordering), TEST(test_iommu), TEST(test_others),
        TEST(test_memlock), TEST(test_numa), TEST(test_cpus), TEST(test_pages), TEST(test_variables), TEST(test_peer),
        TEST(test_peer_mtu), TEST(test_peer_gid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
