/* Memory regions: keys, the table of slots that the device reads without a lock, and hazards, which make
 * ibv_dereg_mr() wait for the piece that the device is moving and no longer. Windows (window.c) have slots too. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "memory.h"
#include "model.h"

#define REUSE_DISTANCE 4096u /* freed slots rest this long: a key repeats after 256 times as many registrations */

pthread_mutex_t zs_table_lock = PTHREAD_MUTEX_INITIALIZER;
static struct zs_mr_slot *_Atomic table;
static uint8_t *generations;
static void **owners;
static uint32_t *free_ring; /* freed slots, oldest first */
static uint32_t free_head, free_tail, slots_used = 1; /* slot 0 is never given: key 0 means none */
static _Atomic uint32_t hazards[ZS_HAZARDS] = {ZS_NO_SLOT, ZS_NO_SLOT};

static void *reserve(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static bool table_ready(void)
{
    if (table)
        return true;
    struct zs_mr_slot *t = reserve(sizeof *t * ZS_MAX_MR);
    generations = reserve(ZS_MAX_MR);
    free_ring = reserve(sizeof *free_ring * ZS_MAX_MR);
    owners = reserve(sizeof *owners * ZS_MAX_MR);
    if (!t || !generations || !free_ring || !owners)
        return false;
    table = t;
    return true;
}

const void *zs_mr_table(void)
{
    pthread_mutex_lock(&zs_table_lock);
    bool ready = table_ready();
    pthread_mutex_unlock(&zs_table_lock);
    return ready ? table : NULL;
}

static uint32_t slot_free(void)
{
    if (!table_ready())
        return ZS_NO_SLOT;
    uint32_t resting = free_tail - free_head;
    if (slots_used < ZS_MAX_MR && resting < REUSE_DISTANCE)
        return slots_used++;
    if (!resting)
        return ZS_NO_SLOT;
    return free_ring[free_head++ % ZS_MAX_MR];
}

uint32_t zs_slot_take(void *owner)
{
    uint32_t slot = slot_free();
    if (slot != ZS_NO_SLOT)
        owners[slot] = owner;
    return slot;
}

void zs_slot_give(uint32_t slot)
{
    owners[slot] = NULL;
    free_ring[free_tail++ % ZS_MAX_MR] = slot;
}

void *zs_slot_owner(uint32_t slot)
{
    return table_ready() ? owners[slot] : NULL;
}

struct zs_mr_slot *zs_slot(uint32_t slot)
{
    return &table[slot];
}

uint32_t zs_slot_next_key(uint32_t slot)
{
    return (slot << 8) | ++generations[slot];
}

void zs_slot_last_key(uint32_t slot, uint32_t key)
{
    generations[slot] = (uint8_t)key;
}

static void slot_publish(struct zs_mr *mr, uint64_t iova, unsigned int access)
{
    struct zs_mr_slot *s = &table[mr->slot];
    uint32_t key = zs_slot_next_key(mr->slot);
    s->access = access | ZS_ACCESS_LOCAL;
    s->iova = iova;
    s->length = mr->mr.length;
    s->addr = (uintptr_t)mr->mr.addr;
    s->pd = (uintptr_t)zs_container(mr->mr.pd, struct zs_pd, pd);
    s->qpn = 0;
    mr->mr.lkey = mr->mr.rkey = key;
    atomic_store_explicit(&s->key, key, memory_order_release);
}

static int access_valid(unsigned int access)
{
    const unsigned int known = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                               IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |
                               IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB | IBV_ACCESS_OPTIONAL_RANGE;
    if (access & ~known)
        return EINVAL;
    /* Whoever grants a remote write must be able to write locally (IB specification, 10.6.3.1). */
    if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) && !(access & IBV_ACCESS_LOCAL_WRITE))
        return EINVAL;
    return 0;
}

/* On demand: nothing is pinned, charged or even looked at. The device touches the pages when a request does, and faults
 * them in like any thread (guard.c: or fails the request). Only explicit ranges: not the whole address space. */
static int range_pin(void *addr, size_t length, unsigned int access, size_t *pinned)
{
    *pinned = 0;
    if (access & IBV_ACCESS_ON_DEMAND)
        return length == SIZE_MAX ? EINVAL : 0;
    return zs_pin((uintptr_t)addr, length, (access & IBV_ACCESS_LOCAL_WRITE) != 0, pinned);
}

static void range_unpin(void *addr, size_t length, size_t pinned)
{
    if (pinned)
        zs_unpin((uintptr_t)addr, length, pinned);
}

struct ibv_mr *zs_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
    int e = access_valid(access);
    if (!e && (!length || (uintptr_t)addr + length < (uintptr_t)addr || iova + length < iova))
        e = EINVAL;
    if (!zs_usable())
        return NULL;
    if (!e && zs_faults_on[ZS_FAULT_REG])
        e = zs_fault(ZS_FAULT_REG);
    struct zs_mr *mr = e ? NULL : calloc(1, sizeof *mr);
    if (!mr) {
        errno = e ? e : ENOMEM;
        return NULL;
    }
    e = range_pin(addr, length, access, &mr->pinned);
    if (e)
        goto free_mr;
    pthread_mutex_lock(&zs_table_lock);
    mr->slot = zs_slot_take(mr);
    if (mr->slot == ZS_NO_SLOT) {
        pthread_mutex_unlock(&zs_table_lock);
        e = ENOMEM;
        goto unpin;
    }
    zs_guard_install();
    mr->mr.context = pd->context;
    mr->mr.pd = pd;
    mr->mr.addr = addr;
    mr->mr.length = length;
    mr->mr.handle = mr->slot;
    slot_publish(mr, access & IBV_ACCESS_ZERO_BASED ? 0 : iova, access);
    pthread_mutex_unlock(&zs_table_lock);
    atomic_fetch_add(&zs_container(pd, struct zs_pd, pd)->users, 1);
    zs_model_register();
    return &mr->mr;

unpin:
    range_unpin(addr, length, mr->pinned);
free_mr:
    free(mr);
    errno = e;
    return NULL;
}

#undef ibv_reg_mr
ZS_EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
    return zs_reg_mr(pd, addr, length, (uintptr_t)addr, (unsigned int)access);
}

#undef ibv_reg_mr_iova
ZS_EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
    return zs_reg_mr(pd, addr, length, iova, (unsigned int)access);
}

ZS_EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                          unsigned int access)
{
    return zs_reg_mr(pd, addr, length, iova, access);
}

void zs_slot_wait(uint32_t slot)
{
    for (int h = 0; h < ZS_HAZARDS; h++)
        while (atomic_load(&hazards[h]) == slot)
            sched_yield();
}

ZS_EXPORT int ibv_dereg_mr(struct ibv_mr *ibmr)
{
    if (!zs_usable())
        return errno;
    struct zs_mr *mr = zs_container(ibmr, struct zs_mr, mr);
    pthread_mutex_lock(&zs_table_lock);
    if (mr->windows) { /* as the kernel refuses it: windows go before their region */
        pthread_mutex_unlock(&zs_table_lock);
        return errno = EINVAL;
    }
    atomic_store(&table[mr->slot].key, 0); /* from here on nobody finds it; who found it before has a hazard */
    pthread_mutex_unlock(&zs_table_lock);
    zs_slot_wait(mr->slot);
    pthread_mutex_lock(&zs_table_lock);
    zs_slot_give(mr->slot);
    pthread_mutex_unlock(&zs_table_lock);
    range_unpin(ibmr->addr, ibmr->length, mr->pinned);
    atomic_fetch_sub(&zs_container(ibmr->pd, struct zs_pd, pd)->users, 1);
    free(mr);
    return 0;
}

/* --- registering anew -------------------------------------------------------------------------------------------------- */

static int rereg(struct zs_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, unsigned int access)
{
    struct ibv_mr *ib = &mr->mr;
    struct zs_mr_slot *s = &table[mr->slot];
    size_t pinned;
    bool moves = flags & IBV_REREG_MR_CHANGE_TRANSLATION;
    struct ibv_mr old = *ib, new = old;
    uint64_t iova = moves ? (uintptr_t)addr : s->iova;
    if (moves)
        new.addr = addr, new.length = length;
    if (flags & IBV_REREG_MR_CHANGE_PD)
        new.pd = pd;
    if (!(flags & IBV_REREG_MR_CHANGE_ACCESS))
        access = s->access & ~ZS_ACCESS_LOCAL;
    int e = access_valid(access);
    if (!e && (!new.length || (uintptr_t)new.addr + new.length < (uintptr_t)new.addr))
        e = EINVAL;
    if (!e)
        e = range_pin(new.addr, new.length, access, &pinned);
    if (e)
        return e;
    pthread_mutex_lock(&zs_table_lock);
    e = mr->windows ? EINVAL : 0;
    if (!e)
        atomic_store(&s->key, 0);
    pthread_mutex_unlock(&zs_table_lock);
    if (e) {
        range_unpin(new.addr, new.length, pinned);
        return e;
    }
    zs_slot_wait(mr->slot);
    range_unpin(old.addr, old.length, mr->pinned);
    mr->pinned = pinned;
    *ib = new;
    pthread_mutex_lock(&zs_table_lock);
    slot_publish(mr, iova, access);
    pthread_mutex_unlock(&zs_table_lock);
    atomic_fetch_add(&zs_container(new.pd, struct zs_pd, pd)->users, 1);
    atomic_fetch_sub(&zs_container(old.pd, struct zs_pd, pd)->users, 1);
    return 0;
}

/* The keys are new. Whatever is refused leaves the old region as it was. */
ZS_EXPORT int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
{
    bool valid = flags && !(flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) && (!(flags & IBV_REREG_MR_CHANGE_PD) || pd);
    if (!zs_usable())
        return IBV_REREG_MR_ERR_INPUT;
    int e = valid ? rereg(zs_container(mr, struct zs_mr, mr), flags, pd, addr, length, (unsigned int)access) : EINVAL;
    if (!e)
        return 0;
    errno = e;
    return IBV_REREG_MR_ERR_INPUT;
}

/* --- advice: pages of regions on demand, before they are needed ------------------------------------------------------------ */

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

/* 0, or what is wrong with the range: no such key in the PD, not on demand, not inside, not writable. */
static int advice_check(struct ibv_pd *pd, const struct ibv_sge *g, bool write, uintptr_t *at)
{
    const struct zs_mr *mr = ZS_KEY_SLOT(g->lkey) < ZS_MAX_MR ? zs_slot_owner(ZS_KEY_SLOT(g->lkey)) : NULL;
    if (!mr || mr->kind != ZS_OWNER_MR || mr->mr.lkey != g->lkey || mr->mr.pd != pd)
        return ENOENT;
    const struct zs_mr_slot *s = &table[mr->slot];
    if (!(s->access & IBV_ACCESS_ON_DEMAND))
        return EINVAL;
    if (write && !(s->access & IBV_ACCESS_LOCAL_WRITE))
        return EPERM;
    if (g->addr < s->iova || g->addr - s->iova > s->length || g->length > s->length - (g->addr - s->iova))
        return EFAULT;
    *at = (uintptr_t)(s->addr + (g->addr - s->iova));
    return 0;
}

static int prefetch(uintptr_t at, size_t length, bool write)
{
    uintptr_t first = at & ~(uintptr_t)4095, end = (at + length + 4095) & ~(uintptr_t)4095;
    if (!length || madvise((void *)first, end - first, write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0)
        return 0;
    return errno == EINVAL && zs_touch((void *)at, length) ? 0 : EFAULT; /* a kernel without it */
}

/* Done at once, also without IBV_ADVISE_MR_FLAG_FLUSH; then, as the man page has it, failing to fault pages in is no error. */
int zs_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *list, uint32_t n)
{
    bool write = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
    if (advice != IBV_ADVISE_MR_ADVICE_PREFETCH && !write && advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
        return EOPNOTSUPP;
    if (flags & ~(uint32_t)IBV_ADVISE_MR_FLAG_FLUSH || !n)
        return EINVAL;
    for (uint32_t i = 0; i < n; i++) {
        uintptr_t at = 0;
        pthread_mutex_lock(&zs_table_lock);
        int e = advice_check(pd, &list[i], write, &at);
        pthread_mutex_unlock(&zs_table_lock);
        if (!e && advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT) { /* NO_FAULT: there is no table that it could fill */
            e = prefetch(at, list[i].length, write);
            e = flags & IBV_ADVISE_MR_FLAG_FLUSH ? e : 0;
        }
        if (e)
            return e;
    }
    return 0;
}

/* --- the device's side -------------------------------------------------------------------------------------------------------- */

static void *hold(int hazard, const struct zs_pd *pd, uint32_t qpn, uint32_t key, uint64_t va, uint64_t length, uint32_t access)
{
    uint32_t slot = ZS_KEY_SLOT(key);
    struct zs_mr_slot *slots = atomic_load_explicit(&table, memory_order_acquire);
    if (!key || slot >= ZS_MAX_MR || !slots)
        return NULL;
    struct zs_mr_slot *s = &slots[slot];
    atomic_store(&hazards[hazard], slot);
    if (atomic_load(&s->key) == key && s->pd == (uintptr_t)pd && (s->access & access) == access && va >= s->iova &&
        va - s->iova <= s->length && length <= s->length - (va - s->iova) && (!s->qpn || s->qpn == qpn))
        return (void *)(uintptr_t)(s->addr + (va - s->iova));
    zs_mr_release(hazard);
    return NULL;
}

void *zs_mr_hold(int hazard, const struct zs_pd *pd, uint32_t lkey, uint64_t va, uint64_t length, uint32_t access)
{
    return hold(hazard, pd, 0, lkey, va, length, access | ZS_ACCESS_LOCAL);
}

void *zs_mr_hold_remote(int hazard, const struct zs_qp *qp, uint32_t rkey, uint64_t va, uint64_t length, uint32_t access)
{
    return hold(hazard, qp->pd, qp->qp.qp_num, rkey, va, length, access);
}

void zs_mr_release(int hazard)
{
    atomic_store_explicit(&hazards[hazard], ZS_NO_SLOT, memory_order_release);
}
