/* Checks of the host: memory, CPUs, environment. See doctor_private.h. */
#include "doctor_private.h"

#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CAP_IPC_LOCK_BIT = 14,          /* linux/capability.h */
    CPUS_MAX = 4096,
    IDLE_LATENCY_US = 10,           /* leaving a deeper state is seen in a latency */
    USUAL_MEMORY = 256 << 20,       /* the default footprint of a run */
};

/* ---- memory ---- */

/* With CAP_IPC_LOCK neither the kernel nor the software device asks for the limit. */
static bool memlock_exempt(const struct zc_doctor_facts *facts)
{
    char mask[64];
    return doctor_value(facts, "/proc/self/status", "CapEff", mask, sizeof mask) &&
           (strtoull(mask, NULL, 16) >> CAP_IPC_LOCK_BIT & 1);
}

bool doctor_memlock(const struct zc_doctor_facts *facts, struct zc_finding *finding)
{
    const uint64_t limit = facts->memlock_limit_bytes;
    if (limit == UINT64_MAX) {
        doctor_say(finding, ZC_FINDING_OK, "zcrdmad may lock all memory");
    } else if (memlock_exempt(facts)) {
        doctor_say(finding, ZC_FINDING_OK, "RLIMIT_MEMLOCK is %" PRIu64 " MiB, and zcrdmad is exempt from it (CAP_IPC_LOCK)", limit >> 20);
    } else {
        const uint64_t left = limit > facts->region_bytes ? limit - facts->region_bytes : 0;
        doctor_say(finding, left < USUAL_MEMORY ? ZC_FINDING_BAD : ZC_FINDING_WARN, "RLIMIT_MEMLOCK of zcrdmad is %" PRIu64
                   " MiB, its region takes %" PRIu64 ": runs that register more than %" PRIu64 " MiB fail", limit >> 20,
                   facts->region_bytes >> 20, left >> 20);
        doctor_fix(finding, "LimitMEMLOCK=infinity in zcrdmad.service, or `ulimit -l unlimited` before starting it");
    }
    return true;
}

bool doctor_huge_pages(const struct zc_doctor_facts *facts, struct zc_finding *finding)
{
    double total, spare;
    if (!doctor_number(facts, &total, "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages") ||
        !doctor_number(facts, &spare, "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages")) {
        doctor_say(finding, ZC_FINDING_UNKNOWN, "the kernel tells of no pool of 2 MiB pages");
    } else if (spare < 1) {
        doctor_say(finding, ZC_FINDING_NOTE, "%.0f of %.0f reserved pages of 2 MiB are free: --pages 2m has none", spare, total);
        doctor_fix(finding, "echo 256 > /proc/sys/vm/nr_hugepages reserves 512 MiB");
    } else {
        doctor_say(finding, ZC_FINDING_OK, "%.0f of %.0f reserved pages of 2 MiB are free", spare, total);
    }
    return true;
}

bool doctor_thp(const struct zc_doctor_facts *facts, struct zc_finding *finding)
{
    char line[128];
    if (!doctor_line(facts, line, sizeof line, "/sys/kernel/mm/transparent_hugepage/enabled")) {
        doctor_say(finding, ZC_FINDING_UNKNOWN, "the kernel does not tell whether it gives transparent huge pages");
    } else if (strstr(line, "[always]")) {
        doctor_say(finding, ZC_FINDING_WARN, "transparent huge pages are always on: whether a buffer gets them differs from run to run, and "
                   "registering costs several times less with them");
        doctor_fix(finding, "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled; then --pages thp asks for them and --pages default does not");
    } else if (strstr(line, "[madvise]")) {
        doctor_say(finding, ZC_FINDING_OK, "transparent huge pages are given to who asks (--pages thp)");
    } else if (strstr(line, "[never]")) {
        doctor_say(finding, ZC_FINDING_NOTE, "transparent huge pages are off: --pages thp is refused");
        doctor_fix(finding, "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled");
    } else {
        doctor_say(finding, ZC_FINDING_UNKNOWN, "transparent huge pages are set to \"%.40s\"", line);
    }
    return true;
}

static bool is_set(const char *value)
{
    return value[0] != '\0' && strcmp(value, "0") != 0;
}

bool doctor_fork_safe(const struct zc_doctor_facts *facts, struct zc_finding *finding)
{
    if (is_set(facts->fork_safe)) {
        doctor_say(finding, ZC_FINDING_WARN, "RDMAV_FORK_SAFE is set for zcrdmad: each registration makes madvise(2) calls besides");
        doctor_fix(finding, "unset it where zcrdmad is started, unless the program that is modelled forks with it set");
    } else {
        doctor_say(finding, ZC_FINDING_OK, "not set");
    }
    return true;
}

bool doctor_hugepages_safe(const struct zc_doctor_facts *facts, struct zc_finding *finding)
{
    if (is_set(facts->hugepages_safe)) {
        doctor_say(finding, ZC_FINDING_WARN, "RDMAV_HUGEPAGES_SAFE is set for zcrdmad: each registration looks its pages up in /proc");
        doctor_fix(finding, "unset it where zcrdmad is started");
    } else if (is_set(facts->fork_safe)) {
        doctor_say(finding, ZC_FINDING_NOTE, "not set, while RDMAV_FORK_SAFE is: registering a part of a huge page may fail with EINVAL");
        doctor_fix(finding, "unset RDMAV_FORK_SAFE, or set RDMAV_HUGEPAGES_SAFE=1 as well");
    } else {
        doctor_say(finding, ZC_FINDING_OK, "not set");
    }
    return true;
}

/* ---- CPUs ---- */

/* Does a list of CPUs ("0-3,8") have one in common with another? */
static bool lists_meet(const char *one, const char *other)
{
    for (const char *a = one; isdigit((unsigned char)*a); a += *a == ',') {
        char *end;
        const unsigned long first = strtoul(a, &end, 10), last = *end == '-' ? strtoul(end + 1, &end, 10) : first;
        for (const char *b = other; isdigit((unsigned char)*b); b += *b == ',') {
            char *end_b;
            const unsigned long from = strtoul(b, &end_b, 10), to = *end_b == '-' ? strtoul(end_b + 1, &end_b, 10) : from;
            if (first <= to && from <= last)
                return true;
            b = end_b;
        }
        a = end;
    }
    return false;
}

/* The largest number of a line of distances: the way to the farthest node. */
static long farthest(const char *distances)
{
    long most = 0;
    for (char *end; *distances != '\0'; distances = end) {
        const long distance = strtol(distances, &end, 10);
        if (end == distances)
            break;
        most = distance > most ? distance : most;
    }
    return most;
}

bool doctor_numa(const struct zc_doctor_facts *facts, struct zc_finding *finding)
{
    char cpus[512], allowed[512], distances[256] = "";
    const int node = facts->device.numa_node;
    if (!doctor_exists(facts, "/sys/devices/system/node/node0")) {
        doctor_say(finding, ZC_FINDING_UNKNOWN, "the kernel tells of no NUMA nodes");
        return true;
    }
    if (!doctor_exists(facts, "/sys/devices/system/node/node1")) {
        doctor_say(finding, ZC_FINDING_OK, "there is one NUMA node");
        return true;
    }
    if (node < 0 || facts->device.name[0] == '\0' || facts->device.kind == ZC_DEVICE_SOFTWARE) {
        doctor_say(finding, ZC_FINDING_UNKNOWN, "there are several NUMA nodes, and where the device is, is not known");
        doctor_fix(finding, "--numa NODE says where threads and memory belong");
        return true;
    }
    doctor_line(facts, distances, sizeof distances, "/sys/devices/system/node/node%d/distance", node);
    if (!doctor_line(facts, cpus, sizeof cpus, "/sys/devices/system/node/node%d/cpulist", node) ||
        !doctor_value(facts, "/proc/self/status", "Cpus_allowed_list", allowed, sizeof allowed)) {
        doctor_say(finding, ZC_FINDING_UNKNOWN, "which CPUs are near %s (node %d) is not told", facts->device.name, node);
    } else if (!lists_meet(cpus, allowed)) {
        doctor_say(finding, ZC_FINDING_WARN, "%s is on NUMA node %d with CPUs %.60s, zcrdmad may run on %.60s only: up to %.1f times as far",
                   facts->device.name, node, cpus, allowed, (double)farthest(distances) / 10);
        doctor_fix(finding, "CPUAffinity=%.60s in zcrdmad.service, or start it with numactl --cpunodebind=%d", cpus, node);
    } else {
        doctor_say(finding, ZC_FINDING_OK, "zcrdmad may run where %s is, on NUMA node %d; runs are placed there (--numa auto)",
                   facts->device.name, node);
    }
    return true;
}

/* The busiest of the strategies with everything at its default: who calls, who registers and deregisters or copies - and the software
 * device's own thread. */
static unsigned busy_threads(const struct zc_doctor_facts *facts)
{
    struct zc_run_options options;
    zc_run_options_init(&options);
    const uint64_t pools = options.concurrency_reg + options.concurrency_dereg;
    const uint64_t helpers = options.concurrency > pools ? options.concurrency : pools;
    return (unsigned)(1 + helpers + (facts->device.kind == ZC_DEVICE_SOFTWARE && facts->device.name[0] != '\0'));
}

bool doctor_cores(const struct zc_doctor_facts *facts, struct zc_finding *finding)
{
    const unsigned busy = busy_threads(facts);
    if (facts->cpus < busy) {
        doctor_say(finding, ZC_FINDING_WARN, "zcrdmad may use %u CPU%s, and the non-blocking strategies have up to %u busy threads: those that "
                   "wait will sleep instead of polling", facts->cpus, facts->cpus == 1 ? "" : "s", busy);
        doctor_fix(finding, "give zcrdmad %u CPUs, or compare blocking strategies only", busy);
    } else {
        doctor_say(finding, ZC_FINDING_OK, "%u CPUs for up to %u busy threads", facts->cpus, busy);
    }
    return true;
}

bool doctor_governor(const struct zc_doctor_facts *facts, struct zc_finding *finding)
{
    char governor[64], other[64] = "";
    unsigned seen = 0, others = 0;
    for (unsigned cpu = 0; cpu < CPUS_MAX && doctor_exists(facts, "/sys/devices/system/cpu/cpu%u", cpu); cpu++) {
        if (!doctor_line(facts, governor, sizeof governor, "/sys/devices/system/cpu/cpu%u/cpufreq/scaling_governor", cpu))
            continue;
        seen++;
        if (strcmp(governor, "performance") == 0)
            continue;
        others++;
        memcpy(other, governor, sizeof other);
    }
    if (seen == 0) {
        doctor_say(finding, ZC_FINDING_UNKNOWN, "the kernel does not set the CPUs' frequency here: firmware or hypervisor does");
    } else if (others > 0) {
        doctor_say(finding, ZC_FINDING_WARN, "%u of %u CPUs have the governor %s: copying and registering run at a frequency that changes",
                   others, seen, other);
        doctor_fix(finding, "cpupower frequency-set -g performance");
    } else {
        doctor_say(finding, ZC_FINDING_OK, "all %u CPUs have the governor performance", seen);
    }
    return true;
}

bool doctor_idle_states(const struct zc_doctor_facts *facts, struct zc_finding *finding)
{
    char name[32] = "", deepest[32] = "";
    double latency_us, disabled, worst_us = 0;
    unsigned seen = 0;
    for (unsigned state = 0; doctor_number(facts, &latency_us, "/sys/devices/system/cpu/cpu0/cpuidle/state%u/latency", state); state++) {
        seen++;
        if (!doctor_number(facts, &disabled, "/sys/devices/system/cpu/cpu0/cpuidle/state%u/disable", state) || disabled != 0 ||
            latency_us <= worst_us)
            continue;
        worst_us = latency_us;
        doctor_line(facts, name, sizeof name, "/sys/devices/system/cpu/cpu0/cpuidle/state%u/name", state);
        memcpy(deepest, name, sizeof deepest);
    }
    if (seen == 0) {
        doctor_say(finding, ZC_FINDING_UNKNOWN, "the kernel does not choose idle states here: firmware or hypervisor does");
    } else if (worst_us > IDLE_LATENCY_US) {
        doctor_say(finding, ZC_FINDING_WARN, "idle CPUs may fall into %s, which takes %.0f us to leave: --wait event and latencies show it",
                   deepest, worst_us);
        doctor_fix(finding, "cpupower idle-set -D %d while measuring (-E undoes it)", IDLE_LATENCY_US);
    } else {
        doctor_say(finding, ZC_FINDING_OK, "no idle state takes more than %.0f us to leave", worst_us);
    }
    return true;
}

/* Others are read by a system call or over a bus, microseconds each. */
bool doctor_clock(const struct zc_doctor_facts *facts, struct zc_finding *finding)
{
    static const char *const quick[] = { "tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter" };
    char source[64];
    if (!doctor_line(facts, source, sizeof source, "/sys/devices/system/clocksource/clocksource0/current_clocksource")) {
        doctor_say(finding, ZC_FINDING_UNKNOWN, "the kernel does not tell its clock source");
        return true;
    }
    for (size_t i = 0; i < sizeof quick / sizeof quick[0]; i++)
        if (strcmp(source, quick[i]) == 0) {
            doctor_say(finding, ZC_FINDING_OK, "%s, which is read without a system call", source);
            return true;
        }
    doctor_say(finding, ZC_FINDING_WARN, "time comes from %s: reading it takes a system call, and short latencies grow by it", source);
    doctor_fix(finding, "`dmesg | grep -i clocksource` says why it is not tsc; boot with tsc=reliable if that is known to be wrong");
    return true;
}
