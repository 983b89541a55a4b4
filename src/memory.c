/* Buffers (mmap, placement, touching) and their registration with its one clear error: see memory.h. */
#include "memory.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#if ZC_HAVE_HWLOC
#include <hwloc.h>
#endif

#include "counters.h"

enum { AMOUNT_MAX = 24 };

/* For messages: "256 MiB", "1.5 GiB", "0 B". */
static const char *amount(uint64_t bytes, char text[AMOUNT_MAX])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        value /= 1024;
        unit++;
    }
    bool whole = value == (double)(uint64_t)value;
    snprintf(text, AMOUNT_MAX, whole ? "%.0f %s" : "%.1f %s", value, units[unit]);
    return text;
}

#if ZC_HAVE_HWLOC
/* Loaded once: it takes tens of milliseconds. Read-only afterwards, so any thread may use it. */
static hwloc_topology_t topology;
static pthread_once_t topology_once = PTHREAD_ONCE_INIT;

static void topology_load(void)
{
    if (hwloc_topology_init(&topology) == 0 && hwloc_topology_load(topology) == 0)
        return;
    topology = NULL;
}

static bool bind_to_node(void *address, size_t length, int numa_node)
{
    pthread_once(&topology_once, topology_load);
    if (!topology)
        return false;
    hwloc_obj_t node = hwloc_get_numanode_obj_by_os_index(topology, (unsigned)numa_node);
    return node && hwloc_set_area_membind(topology, address, length, node->nodeset, HWLOC_MEMBIND_BIND,
                                          HWLOC_MEMBIND_BYNODESET | HWLOC_MEMBIND_STRICT) == 0;
}
#else
static bool bind_to_node(void *address, size_t length, int numa_node)
{
    (void)address, (void)length, (void)numa_node;
    return false;
}
#endif

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

int zc_buffer_create(size_t length_bytes, int numa_node, struct zc_buffer *buffer, struct zc_error *err)
{
    size_t page = page_bytes();
    char text[AMOUNT_MAX];
    if (length_bytes == 0 || length_bytes > SIZE_MAX / 2)
        return zc_error_set(err, ZC_ERR_INVALID, -EINVAL, NULL, "a buffer of %zu bytes cannot be made", length_bytes);

    /* An inaccessible page on either side: an overrun faults at once, and the kernel merges neighbouring mappings into no other,
     * so that /proc/self/smaps tells about this buffer alone. */
    size_t mapped = (length_bytes + page - 1) / page * page;
    uint8_t *base = mmap(NULL, mapped + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return zc_error_set(err, ZC_ERR_RESOURCE, -errno, NULL, "cannot map %s of memory: %m", amount(length_bytes, text));
    if (mprotect(base + page, mapped, PROT_READ | PROT_WRITE) != 0) {
        int rc = -errno;
        munmap(base, mapped + 2 * page);
        return zc_error_set(err, ZC_ERR_RESOURCE, rc, NULL, "cannot allocate %s of memory: %s", amount(length_bytes, text),
                            strerror(-rc));
    }

    *buffer = (struct zc_buffer){.address = base + page, .length_bytes = length_bytes, .mapped_bytes = mapped, .numa_node = -1};
    if (numa_node >= 0 && bind_to_node(buffer->address, mapped, numa_node))
        buffer->numa_node = numa_node;
    for (size_t at = 0; at < mapped; at += page)
        ((volatile uint8_t *)buffer->address)[at] = 0;
    return 0;
}

void zc_buffer_destroy(struct zc_buffer *buffer)
{
    if (!buffer || !buffer->address)
        return;
    size_t page = page_bytes();
    munmap((uint8_t *)buffer->address - page, buffer->mapped_bytes + 2 * page);
    *buffer = (struct zc_buffer){.address = NULL, .numa_node = -1};
}

uint64_t zc_buffer_huge_bytes(const struct zc_buffer *buffer)
{
    FILE *smaps = fopen("/proc/self/smaps", "re");
    if (!smaps)
        return ZC_UNMEASURED;

    uint64_t low = (uint64_t)(uintptr_t)buffer->address, high = low + buffer->mapped_bytes;
    uint64_t huge = 0, start, end, kib;
    bool ours = false, found = false;
    char *line = NULL;
    size_t size = 0;
    while (getline(&line, &size, smaps) > 0) {
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &start, &end) == 2) {
            ours = start < high && end > low;
            found |= ours;
        } else if (ours && (sscanf(line, "AnonHugePages: %" SCNu64 " kB", &kib) == 1 ||
                            sscanf(line, "Private_Hugetlb: %" SCNu64 " kB", &kib) == 1)) {
            huge += kib * 1024;
        }
    }
    free(line);
    fclose(smaps);
    return found ? huge : ZC_UNMEASURED;
}

/* ibv_reg_mr(3) says ENOMEM both when memory is short and when the limit forbids pinning more; only the limit is ours to raise. */
static int register_error(const struct zc_device *device, size_t length_bytes, const char *what, int errnum,
                          struct zc_error *err)
{
    char need[AMOUNT_MAX], limit[AMOUNT_MAX], held[AMOUNT_MAX];
    uint64_t held_bytes = atomic_load_explicit(&zc_counters.mr_bytes, memory_order_relaxed);
    struct rlimit memlock;
    bool limited = getrlimit(RLIMIT_MEMLOCK, &memlock) == 0 && memlock.rlim_cur != RLIM_INFINITY;

    amount(length_bytes, need);
    amount(held_bytes, held);
    if ((errnum == ENOMEM || errnum == EAGAIN) && limited)
        return zc_error_set(err, ZC_ERR_MEMLOCK, -errnum, NULL,
                            "cannot register %s of %s: RLIMIT_MEMLOCK is %s and %s are registered already; raise it "
                            "(ulimit -l unlimited, or LimitMEMLOCK=infinity in zcrdmad.service)",
                            need, what, amount(memlock.rlim_cur, limit), held);
    return zc_error_set(err, errnum == ENOMEM || errnum == EAGAIN ? ZC_ERR_RESOURCE : ZC_ERR_DEVICE, -errnum, NULL,
                        "cannot register %s of %s with %s (%s are registered already): %s", need, what,
                        zc_device_info(device)->name, held, strerror(errnum));
}

int zc_mr_register(const struct zc_device *device, void *address, size_t length_bytes, int access, const char *what,
                   struct ibv_mr **mr, struct zc_error *err)
{
    struct ibv_mr *m = ibv_reg_mr(zc_device_pd(device), address, length_bytes, (unsigned)access);
    if (!m)
        return register_error(device, length_bytes, what, errno, err);
    zc_count(&zc_counters.mrs, 1);
    zc_count(&zc_counters.mr_bytes, (int64_t)length_bytes);
    zc_count(&zc_counters.registrations, 1);
    *mr = m;
    return 0;
}

void zc_mr_deregister(struct ibv_mr *mr)
{
    if (!mr)
        return;
    int64_t length_bytes = (int64_t)mr->length;
    if (ibv_dereg_mr(mr) != 0)
        return;     /* still pinned, and the counters go on saying so */
    zc_count(&zc_counters.mrs, -1);
    zc_count(&zc_counters.mr_bytes, -length_bytes);
}
