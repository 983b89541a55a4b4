/* The facts about the host that a result records: see environment.h. Called by measure.c. */
#include "environment.h"

#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "version.h"

/* First line of a file, without its newline. */
static bool read_line(const char *path, char *line, size_t length)
{
    FILE *const file = fopen(path, "re");
    if (!file)
        return false;
    const bool read = fgets(line, (int)length, file) != NULL;
    fclose(file);
    if (read)
        line[strcspn(line, "\n")] = '\0';
    return read;
}

/* The text behind "KEY ... : " in the first line that begins with KEY. */
static bool find_value(const char *path, const char *key, char *value, size_t length)
{
    FILE *const file = fopen(path, "re");
    if (!file)
        return false;
    char line[512];
    bool found = false;
    while (!found && fgets(line, sizeof line, file)) {
        const char *const colon = strchr(line, ':');
        if (!colon || strncmp(line, key, strlen(key)) != 0)
            continue;
        line[strcspn(line, "\n")] = '\0';
        snprintf(value, length, "%s", colon + 1 + strspn(colon + 1, " \t"));
        found = true;
    }
    fclose(file);
    return found;
}

/* "32768K", "16 MB", "123 kB", "max" -> bytes; ZC_UNMEASURED if it is no number. */
static uint64_t parse_bytes(const char *text)
{
    char *end;
    if (!isdigit((unsigned char)text[0]))
        return ZC_UNMEASURED;
    const uint64_t number = strtoull(text, &end, 10);
    end += strspn(end, " ");
    switch (*end) {
    case 'k': case 'K': return number << 10;
    case 'M': return number << 20;
    case 'G': return number << 30;
    default: return number;
    }
}

static uint64_t file_bytes(const char *path)
{
    char line[64];
    return read_line(path, line, sizeof line) ? parse_bytes(line) : ZC_UNMEASURED;
}

/* The cache of the highest level that CPU 0 sees. */
static uint64_t last_level_cache(void)
{
    uint64_t size = ZC_UNMEASURED;
    long highest = 0;
    for (int index = 0; index < 16; index++) {
        char path[96], line[32];
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/level", index);
        if (!read_line(path, line, sizeof line))
            break;
        const long level = strtol(line, NULL, 10);
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", index);
        if (level > highest) {
            highest = level;
            size = file_bytes(path);
        }
    }
    const long level3 = sysconf(_SC_LEVEL3_CACHE_SIZE);
    return size == ZC_UNMEASURED && level3 > 0 ? (uint64_t)level3 : size;
}

static uint32_t numa_nodes(void)
{
    uint32_t nodes = 0;
    DIR *const directory = opendir("/sys/devices/system/node");
    if (!directory)
        return 1;
    for (const struct dirent *entry; (entry = readdir(directory));)
        nodes += strncmp(entry->d_name, "node", 4) == 0 && isdigit((unsigned char)entry->d_name[4]);
    closedir(directory);
    return nodes > 0 ? nodes : 1;
}

/* "always [madvise] never" -> "madvise" */
static void transparent_hugepage(char *setting, size_t length)
{
    char line[128];
    setting[0] = '\0';
    if (!read_line("/sys/kernel/mm/transparent_hugepage/enabled", line, sizeof line))
        return;
    const char *const open = strchr(line, '[');
    const char *const close = open ? strchr(open, ']') : NULL;
    if (close)
        snprintf(setting, length, "%.*s", (int)(close - open - 1), open + 1);
}

static void copy_variable(const char *name, char *text, size_t length)
{
    const char *const value = getenv(name);
    snprintf(text, length, "%s", value ? value : "");
}

static uint64_t meminfo(const char *key)
{
    char value[64];
    return find_value("/proc/meminfo", key, value, sizeof value) ? parse_bytes(value) : ZC_UNMEASURED;
}

/* What the control group of this process still allows; ZC_UNMEASURED without a limit. Limits further up are not looked for: a
 * container's own is the group it sees as its root. */
static uint64_t cgroup_free_bytes(void)
{
    char group[256], path[320];
    if (!find_value("/proc/self/cgroup", "0:", group, sizeof group) || group[0] != ':')
        return ZC_UNMEASURED;
    const char *const name = strcmp(group + 1, "/") == 0 ? "" : group + 1;
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.max", name);
    const uint64_t max = file_bytes(path);
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.current", name);
    const uint64_t current = file_bytes(path);
    if (max == ZC_UNMEASURED || current == ZC_UNMEASURED)
        return ZC_UNMEASURED;
    return current < max ? max - current : 0;
}

uint64_t zc_memory_free_bytes(void)
{
    const uint64_t available = meminfo("MemAvailable"), group = cgroup_free_bytes();
    return group < available ? group : available;
}

void zc_environment_read(struct zc_environment *environment)
{
    struct utsname name = {0};
    struct rlimit memlock = {.rlim_cur = RLIM_INFINITY};
    uname(&name);
    getrlimit(RLIMIT_MEMLOCK, &memlock);
    const struct zc_device_info device = environment->device;
    *environment = (struct zc_environment){.device = device};

    snprintf(environment->host, sizeof environment->host, "%.*s", ZC_NAME_MAX - 1, name.nodename);
    snprintf(environment->kernel, sizeof environment->kernel, "%.30s %.90s", name.sysname, name.release);
    if (!find_value("/proc/cpuinfo", "model name", environment->cpu, sizeof environment->cpu))
        snprintf(environment->cpu, sizeof environment->cpu, "%.60s", name.machine);
    snprintf(environment->zcrdma_version, sizeof environment->zcrdma_version, "%s", ZC_VERSION);
    environment->cpus_online = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
    environment->numa_nodes = numa_nodes();
    environment->memory_bytes = meminfo("MemTotal");
    environment->memory_free_bytes = zc_memory_free_bytes();
    environment->page_size_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    environment->llc_bytes = last_level_cache();
    transparent_hugepage(environment->transparent_hugepage, sizeof environment->transparent_hugepage);
    environment->memlock_limit_bytes = memlock.rlim_cur == RLIM_INFINITY ? UINT64_MAX : memlock.rlim_cur;
    copy_variable("RDMAV_FORK_SAFE", environment->fork_safe, sizeof environment->fork_safe);
    copy_variable("RDMAV_HUGEPAGES_SAFE", environment->hugepages_safe, sizeof environment->hugepages_safe);
}
