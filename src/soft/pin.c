/* Pinning as registration does it: the range is locked, its pages counted. munlock() does not nest and two MRs may
 * share a page, so every page has a reference count in a table of three levels indexed by page number; runs that go
 * from 0 to 1 are locked, runs that go back are unlocked. Each MR is charged in full against RLIMIT_MEMLOCK, as the
 * kernel charges pinned pages, huge pages included. The system calls are made directly: the sanitizers replace mlock()
 * with nothing. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memory.h"

#define PAGE 4096u
#define LEAF_BITS 12
#define LEAF_PAGES (1u << LEAF_BITS)
#define LEVEL_SIZE 4096u
#define MAX_PAGE (1ull << 36)

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

struct leaf {
    uint32_t count[LEAF_PAGES];
};

static pthread_mutex_t pin_lock = PTHREAD_MUTEX_INITIALIZER;
static struct leaf **levels[LEVEL_SIZE];
static size_t charged_total;
static int maps_fd = -1;
static bool maps_query = true;

void zs_memory_fork_prepare(void)
{
    pthread_mutex_lock(&pin_lock);
}

void zs_memory_fork_done(bool child)
{
    if (child && maps_fd >= 0) {
        close(maps_fd);
        maps_fd = -1;
    }
    pthread_mutex_unlock(&pin_lock);
}

static struct leaf *leaf_of(uint64_t page, bool create)
{
    struct leaf ***top = &levels[(page >> (2 * LEAF_BITS)) % LEVEL_SIZE];
    if (!*top) {
        if (!create || !(*top = calloc(LEVEL_SIZE, sizeof **top)))
            return NULL;
    }
    struct leaf **mid = &(*top)[(page >> LEAF_BITS) % LEVEL_SIZE];
    if (!*mid && create)
        *mid = calloc(1, sizeof **mid);
    return *mid;
}

/* Allocates what the range needs, so that counting cannot fail half-way. */
static bool leaves_ready(uint64_t first, uint64_t end)
{
    for (uint64_t p = first; p < end; p = (p | (LEAF_PAGES - 1)) + 1)
        if (!leaf_of(p, true))
            return false;
    return true;
}

static uint32_t *count_of(uint64_t page)
{
    return &leaf_of(page, false)->count[page % LEAF_PAGES];
}

/* --- may the range be pinned at all? -------------------------------------------------------------------------------- */

/* PROCMAP_QUERY of Linux 6.11: the permissions of the mapping that covers an address, without reading all of maps. */
struct map_query {
    uint64_t size, query_flags, query_addr;
    uint64_t vma_start, vma_end, vma_flags;
    uint64_t rest[16];
};
#define MAP_QUERY_SIZE 104u
#define MAP_QUERY_IOCTL (((3u) << 30) | (MAP_QUERY_SIZE << 16) | ((unsigned int)'f' << 8) | 17u)
#define MAP_READABLE 1u
#define MAP_WRITABLE 2u

/* -1: the kernel cannot tell */
static int check_by_query(uintptr_t start, uintptr_t end, bool writable)
{
    if (maps_fd < 0)
        maps_fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (maps_fd < 0)
        return -1;
    while (start < end) {
        struct map_query q = {.size = MAP_QUERY_SIZE, .query_addr = start};
        if (ioctl(maps_fd, MAP_QUERY_IOCTL, &q) < 0)
            return errno == ENOENT ? EFAULT : -1;
        if (!(q.vma_flags & (writable ? MAP_WRITABLE : MAP_READABLE)))
            return EFAULT;
        start = q.vma_end;
    }
    return 0;
}

static int check_range(uintptr_t start, uintptr_t end, bool writable)
{
    if (maps_query) {
        int r = check_by_query(start, end, writable);
        if (r >= 0)
            return r;
        maps_query = false;
    }
    /* An older kernel: faulting the pages in as the access demands tells the same, at the cost of a walk. */
    if (madvise((void *)start, end - start, writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0)
        return 0;
    return errno == EAGAIN ? EAGAIN : EFAULT;
}

static bool limited(void)
{
    struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    struct __user_cap_data_struct d[2] = {{0}};
    if (syscall(SYS_capget, &h, d) < 0)
        return true;
    return !(d[CAP_IPC_LOCK / 32].effective & (1u << (CAP_IPC_LOCK % 32)));
}

static int charge(size_t bytes)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_MEMLOCK, &r) == 0 && r.rlim_cur != RLIM_INFINITY && charged_total + bytes > r.rlim_cur &&
        limited())
        return ENOMEM;
    charged_total += bytes;
    return 0;
}

/* --- locking ------------------------------------------------------------------------------------------------------------ */

/* Every locked run between unlocked pages splits a mapping, and the application needs its max_map_count (65,530) too: from
 * MAX_RUNS on, and when mlock() itself finds no more, pages are faulted in and counted but not locked. */
#define MAX_RUNS 16384

static long runs;

static int lock_run(uint64_t first, uint64_t end)
{
    void *p = (void *)(first * PAGE);
    size_t n = (size_t)(end - first) * PAGE;
    runs++;
    if (runs < MAX_RUNS && syscall(SYS_mlock, p, n) == 0)
        return 0;
    if (madvise(p, n, MADV_POPULATE_READ) == 0)
        return 0;
    runs--;
    return errno == ENOMEM || errno == EAGAIN ? ENOMEM : EFAULT;
}

static void unlock_run(uint64_t first, uint64_t end)
{
    runs--;
    syscall(SYS_munlock, (void *)(first * PAGE), (size_t)(end - first) * PAGE); /* unmapped by now? then nothing to do */
}

static void count_down(uint64_t first, uint64_t end)
{
    uint64_t run = end;
    for (uint64_t p = first; p < end; p++) {
        if (--*count_of(p) == 0) {
            if (run == end)
                run = p;
        } else if (run != end) {
            unlock_run(run, p);
            run = end;
        }
    }
    if (run != end)
        unlock_run(run, end);
}

static int count_up(uint64_t first, uint64_t end)
{
    uint64_t run = end, p;
    int e = 0;
    for (p = first; p < end; p++) {
        if ((*count_of(p))++ == 0) {
            if (run == end)
                run = p;
        } else if (run != end) {
            e = lock_run(run, p);
            run = end;
            if (e)
                break;
        }
    }
    if (!e && run != end)
        e = lock_run(run, end);
    if (e)
        count_down(first, p < end ? p + 1 : end);
    return e;
}

int zs_pin(uintptr_t addr, size_t length, bool writable, size_t *charged)
{
    if (addr + length < addr)
        return EINVAL;
    uint64_t first = addr / PAGE, end = (addr + length + PAGE - 1) / PAGE;
    if (end > MAX_PAGE)
        return EFAULT;
    size_t bytes = (size_t)(end - first) * PAGE;
    pthread_mutex_lock(&pin_lock);
    int e = charge(bytes);
    if (e) {
        pthread_mutex_unlock(&pin_lock);
        return e;
    }
    e = check_range(first * PAGE, end * PAGE, writable);
    if (!e)
        e = leaves_ready(first, end) ? count_up(first, end) : ENOMEM;
    if (e)
        charged_total -= bytes;
    else
        *charged = bytes;
    pthread_mutex_unlock(&pin_lock);
    return e;
}

void zs_unpin(uintptr_t addr, size_t length, size_t charged)
{
    pthread_mutex_lock(&pin_lock);
    count_down(addr / PAGE, (addr + length + PAGE - 1) / PAGE);
    charged_total -= charged;
    pthread_mutex_unlock(&pin_lock);
}
