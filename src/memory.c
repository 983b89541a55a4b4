/* Buffers (mmap, placement, touching) and their registration with its one clear error: see memory.h. */
#include "memory.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/mman.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "counters.h"
#include "placement.h"

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

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

size_t zc_pages_bytes(enum zc_pages pages)
{
    switch (pages) {
    case ZC_PAGES_THP:
    case ZC_PAGES_2M:
        return 2 << 20;
    case ZC_PAGES_1G:
        return 1 << 30;
    case ZC_PAGES_DEFAULT:
        break;
    }
    return page_bytes();
}

static bool from_pool(enum zc_pages pages)
{
    return pages == ZC_PAGES_2M || pages == ZC_PAGES_1G;
}

/* One number of the pool of pages of this size; -1 where the kernel has no such pool. */
static long pool_count(size_t page, const char *name)
{
    char path[128];
    long count = -1;
    snprintf(path, sizeof(path), "/sys/kernel/mm/hugepages/hugepages-%zukB/%s", page / 1024, name);
    FILE *file = fopen(path, "re");
    if (!file)
        return -1;
    if (fscanf(file, "%ld", &count) != 1)
        count = -1;
    fclose(file);
    return count;
}

static int pool_error(size_t mapped, size_t page, int errnum, struct zc_error *err)
{
    char text[AMOUNT_MAX], size[AMOUNT_MAX];
    const long have = pool_count(page, "free_hugepages");
    amount(mapped, text);
    amount(page, size);
    if (have < 0)
        return zc_error_set(err, ZC_ERR_RESOURCE, -errnum, "pages", "this kernel has no pages of %s", size);
    return zc_error_set(err, ZC_ERR_RESOURCE, -errnum, "pages", "%s need %zu pages of %s and %ld are free: reserve more with %s%s",
                        text, mapped / page, size, have, "/proc/sys/vm/nr_hugepages",
                        page == 1 << 30 ? " (those of 1 GiB: /sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages)" : "");
}

/* Transparent huge pages, or the reason why this kernel gives none. */
static int advise_huge(const struct zc_buffer *buffer, struct zc_error *err)
{
    char state[64] = "";
    FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "re");
    if (file && !fgets(state, sizeof(state), file))
        state[0] = '\0';
    if (file)
        fclose(file);
    if (!state[0] || strstr(state, "[never]"))
        return zc_error_set(err, ZC_ERR_RESOURCE, -EOPNOTSUPP, "pages", "transparent huge pages are off: "
                            "/sys/kernel/mm/transparent_hugepage/enabled %s", state[0] ? "says never" : "is missing");
    if (madvise(buffer->address, buffer->mapped_bytes, MADV_HUGEPAGE) != 0)
        return zc_error_set(err, ZC_ERR_RESOURCE, -errno, "pages", "transparent huge pages are refused: %m");
    return 0;
}

/* From the pool wherever the kernel likes. Not into a reserve as below: a MAP_FIXED that finds too few huge pages has unmapped the place by
 * then, and another thread's memory may be there before the reserve is given back. Such mappings are never merged with others. */
static int map_from_pool(struct zc_buffer *buffer, enum zc_pages pages, struct zc_error *err)
{
    const int huge = MAP_HUGETLB | (pages == ZC_PAGES_2M ? MAP_HUGE_2MB : MAP_HUGE_1GB);
    buffer->reserved_bytes = buffer->mapped_bytes;
    buffer->reserved = mmap(NULL, buffer->mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | huge, -1, 0);
    buffer->address = buffer->reserved;
    return buffer->reserved == MAP_FAILED ? pool_error(buffer->mapped_bytes, buffer->page_bytes, errno, err) : 0;
}

/* An inaccessible page or more on either side: an overrun faults at once, and the kernel merges neighbouring mappings into no other,
 * so that /proc/self/smaps tells about this buffer alone. */
static int map(struct zc_buffer *buffer, enum zc_pages pages, struct zc_error *err)
{
    const size_t page = buffer->page_bytes;
    char text[AMOUNT_MAX];
    if (from_pool(pages))
        return map_from_pool(buffer, pages, err);
    buffer->reserved_bytes = buffer->mapped_bytes + 2 * page;
    buffer->reserved = mmap(NULL, buffer->reserved_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (buffer->reserved == MAP_FAILED)
        return zc_error_set(err, ZC_ERR_RESOURCE, -errno, NULL, "cannot map %s of memory: %m", amount(buffer->mapped_bytes, text));
    /* Behind at least a small page, at the next boundary: what is left of the reserve is at least a small page, too. */
    const uintptr_t first = (uintptr_t)buffer->reserved + page_bytes();
    buffer->address = (uint8_t *)buffer->reserved + ((first + page - 1) / page * page - (uintptr_t)buffer->reserved);
    /* Opened up in place, so that no moment exists in which the place is anybody's. */
    if (mprotect(buffer->address, buffer->mapped_bytes, PROT_READ | PROT_WRITE) != 0)
        return zc_error_set(err, ZC_ERR_RESOURCE, -errno, NULL, "cannot allocate %s of memory: %m", amount(buffer->mapped_bytes, text));
    return pages == ZC_PAGES_THP ? advise_huge(buffer, err) : 0;
}

/* Written once on every page. A pool that is not empty may be so on the node that the buffer is bound to, and then a plain write
 * would end the process with SIGBUS: there the kernel does the writing, and answers. */
static int touch(const struct zc_buffer *buffer, enum zc_pages pages, struct zc_error *err)
{
    const size_t page = page_bytes();
    if (from_pool(pages) && madvise(buffer->address, buffer->mapped_bytes, MADV_POPULATE_WRITE) != 0)
        return pool_error(buffer->mapped_bytes, buffer->page_bytes, errno, err);
    for (size_t at = 0; at < buffer->mapped_bytes; at += page)
        ((volatile uint8_t *)buffer->address)[at] = 0;
    return 0;
}

int zc_buffer_create_pages(size_t length_bytes, enum zc_pages pages, int numa_node, struct zc_buffer *buffer, struct zc_error *err)
{
    const size_t page = zc_pages_bytes(pages);
    if (length_bytes == 0 || length_bytes > SIZE_MAX / 2)
        return zc_error_set(err, ZC_ERR_INVALID, -EINVAL, NULL, "a buffer of %zu bytes cannot be made", length_bytes);

    struct zc_buffer made = {
        .length_bytes = length_bytes, .mapped_bytes = (length_bytes + page - 1) / page * page, .page_bytes = page, .numa_node = -1,
    };
    int rc = map(&made, pages, err);
    if (rc == 0 && numa_node >= 0 && zc_placement_bind_memory(made.address, made.mapped_bytes, numa_node))
        made.numa_node = numa_node;
    if (rc == 0)
        rc = touch(&made, pages, err);
    if (rc < 0)
        zc_buffer_destroy(&made);
    else
        *buffer = made;
    return rc;
}

int zc_buffer_create(size_t length_bytes, int numa_node, struct zc_buffer *buffer, struct zc_error *err)
{
    return zc_buffer_create_pages(length_bytes, ZC_PAGES_DEFAULT, numa_node, buffer, err);
}

void zc_buffer_destroy(struct zc_buffer *buffer)
{
    if (!buffer)
        return;
    if (buffer->reserved && buffer->reserved != MAP_FAILED)
        munmap(buffer->reserved, buffer->reserved_bytes);
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

int zc_mr_deregister(struct ibv_mr *mr)
{
    if (!mr)
        return 0;
    int64_t length_bytes = (int64_t)mr->length;
    const int rc = ibv_dereg_mr(mr);
    if (rc != 0)
        return rc > 0 ? -rc : rc;   /* still pinned, and the counters go on saying so */
    zc_count(&zc_counters.mrs, -1);
    zc_count(&zc_counters.mr_bytes, -length_bytes);
    return 0;
}

int zc_mr_probe(const struct zc_device *device, int access)
{
    struct zc_buffer page;
    struct zc_error err;
    struct ibv_mr *mr;
    int rc = zc_buffer_create(1, -1, &page, &err);
    if (rc < 0)
        return rc;
    mr = ibv_reg_mr(zc_device_pd(device), page.address, page.mapped_bytes, (unsigned)access);
    rc = mr ? 0 : errno ? -errno : -EIO;
    if (mr && ibv_dereg_mr(mr) != 0)
        return -EIO;    /* it stays pinned, and so the page stays mapped */
    zc_buffer_destroy(&page);
    return rc;
}
