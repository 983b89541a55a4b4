/* The table of checks, and how they read and speak: see doctor.h. */
#include "doctor.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "doctor_private.h"
#include "environment.h"
#include "memory.h"

enum { PATH_LENGTH = 4096 };

const char *const zc_finding_level_names[] = {
    [ZC_FINDING_OK] = "ok",   [ZC_FINDING_NOTE] = "note",       [ZC_FINDING_WARN] = "warn",
    [ZC_FINDING_BAD] = "bad", [ZC_FINDING_UNKNOWN] = "unknown", NULL,
};

/* In the order in which they are shown: what makes runs fail, the card, the host, the peer. */
static const struct {
    const char *id, *what;
    doctor_check *check;
} checks[] = {
    { "device", "which kind of device is in use", doctor_device },
    { "port", "the state of its port", doctor_port },
    { "memlock", "memory that may be locked", doctor_memlock },
    { "rate", "width and speed of the port", doctor_rate },
    { "pcie", "width and speed of the card's PCIe link", doctor_pcie },
    { "mtu", "MTU of the port", doctor_mtu },
    { "rd_atomic", "READs that may be outstanding", doctor_rd_atomic },
    { "relaxed_ordering", "relaxed PCIe ordering", doctor_relaxed_ordering },
    { "odp", "on-demand paging", doctor_odp },
    { "iommu", "mode of the IOMMU", doctor_iommu },
    { "others", "other users of the port", doctor_others },
    { "numa", "distance between the card and the CPUs", doctor_numa },
    { "cores", "CPUs against busy threads", doctor_cores },
    { "governor", "CPU frequency", doctor_governor },
    { "idle_states", "idle states of the CPUs", doctor_idle_states },
    { "clock", "clock source", doctor_clock },
    { "huge_pages", "pool of huge pages", doctor_huge_pages },
    { "thp", "transparent huge pages", doctor_thp },
    { "fork_safe", "RDMAV_FORK_SAFE", doctor_fork_safe },
    { "hugepages_safe", "RDMAV_HUGEPAGES_SAFE", doctor_hugepages_safe },
    { "peer", "the peer", doctor_peer },
    { "peer_mtu", "MTU of the path to the peer", doctor_peer_mtu },
    { "peer_gid", "addresses of the path to the peer", doctor_peer_gid },
    { "peer_reads", "READs that the peer answers at once", doctor_peer_reads },
};
_Static_assert(sizeof checks / sizeof checks[0] <= ZC_FINDINGS_MAX, "every check has its row");

/* ---- reading ---- */

static void path_make(const struct zc_doctor_facts *facts, char path[PATH_LENGTH], const char *format, va_list args)
{
    const int length = snprintf(path, PATH_LENGTH, "%s", facts->root);
    if (length >= 0 && length < PATH_LENGTH)
        vsnprintf(path + length, (size_t)(PATH_LENGTH - length), format, args);
}

static bool first_line(const char *path, char *line, size_t size)
{
    FILE *const file = fopen(path, "re");
    if (!file)
        return false;
    const bool read = fgets(line, (int)size, file) != NULL;
    fclose(file);
    if (read)
        line[strcspn(line, "\n")] = '\0';
    return read && line[0] != '\0';
}

bool doctor_line(const struct zc_doctor_facts *facts, char *line, size_t size, const char *format, ...)
{
    char path[PATH_LENGTH];
    va_list args;
    va_start(args, format);
    path_make(facts, path, format, args);
    va_end(args);
    return first_line(path, line, size);
}

bool doctor_number(const struct zc_doctor_facts *facts, double *number, const char *format, ...)
{
    char path[PATH_LENGTH], line[128], *end;
    va_list args;
    va_start(args, format);
    path_make(facts, path, format, args);
    va_end(args);
    if (!first_line(path, line, sizeof line))
        return false;
    *number = strtod(line, &end);
    return end != line;
}

bool doctor_exists(const struct zc_doctor_facts *facts, const char *format, ...)
{
    char path[PATH_LENGTH];
    va_list args;
    va_start(args, format);
    path_make(facts, path, format, args);
    va_end(args);
    return access(path, F_OK) == 0;
}

bool doctor_value(const struct zc_doctor_facts *facts, const char *path, const char *key, char *value, size_t size)
{
    char whole[PATH_LENGTH], line[512];
    const size_t length = strlen(key);
    bool found = false;
    snprintf(whole, sizeof whole, "%s%s", facts->root, path);
    FILE *const file = fopen(whole, "re");
    if (!file)
        return false;
    while (!found && fgets(line, sizeof line, file)) {
        if (strncmp(line, key, length) != 0 || line[length] != ':')
            continue;
        line[strcspn(line, "\n")] = '\0';
        snprintf(value, size, "%s", line + length + 1 + strspn(line + length + 1, " \t"));
        found = true;
    }
    fclose(file);
    return found;
}

/* ---- speaking ---- */

void doctor_say(struct zc_finding *finding, enum zc_finding_level level, const char *format, ...)
{
    va_list args;
    finding->level = level;
    va_start(args, format);
    vsnprintf(finding->finding, sizeof finding->finding, format, args);
    va_end(args);
}

void doctor_fix(struct zc_finding *finding, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(finding->fix, sizeof finding->fix, format, args);
    va_end(args);
}

/* ---- */

static void pause_a_second(void *arg)
{
    const struct timespec second = { .tv_sec = 1 };
    (void)arg;
    nanosleep(&second, NULL);
}

void zc_doctor_facts_read(const struct zc_device *device, struct zc_doctor_facts *facts)
{
    struct zc_environment environment;
    cpu_set_t set;
    zc_environment_init(&environment);
    zc_environment_read(&environment);
    *facts = (struct zc_doctor_facts){ .root = "", .relaxed_ordering = -1, .pause = pause_a_second, .pause_s = 1,
                                       .memlock_limit_bytes = environment.memlock_limit_bytes };
    memcpy(facts->fork_safe, environment.fork_safe, sizeof facts->fork_safe);
    memcpy(facts->hugepages_safe, environment.hugepages_safe, sizeof facts->hugepages_safe);
    facts->cpus = sched_getaffinity(0, sizeof set, &set) == 0 ? (uint32_t)CPU_COUNT(&set) : environment.cpus_online;
    if (!device)
        return;
    struct zc_error ignored;
    facts->device = *zc_device_info(device);
    zc_device_look(device, &facts->device, &ignored);
    /* The flag is optional: libibverbs drops it for devices that do not know it, and only a refusal says no. */
    facts->relaxed_ordering = zc_mr_probe(device, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING) == 0;
}

size_t zc_doctor_check(const struct zc_doctor_facts *facts, struct zc_finding findings[ZC_FINDINGS_MAX])
{
    size_t count = 0;
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) {
        struct zc_finding *const finding = &findings[count];
        *finding = (struct zc_finding){ .id = checks[i].id, .what = checks[i].what, .level = ZC_FINDING_UNKNOWN };
        count += checks[i].check(facts, finding);
    }
    return count;
}
