/* Registration: what is refused, what the MR says of itself, which keys are valid for how long. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "pair.h"

enum where { BUFFER, NOTHING_MAPPED, READ_ONLY, HALF_MAPPED };

struct registration {
    unsigned int access;
    enum where where;
    size_t length;
};

static void try_register(const void *arg)
{
    const struct registration *r = arg;
    struct pair p = {0};
    pair_device(&p);
    char *m = mmap(NULL, 8192, PROT_READ | (r->where == READ_ONLY ? 0 : PROT_WRITE), MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (m == MAP_FAILED)
        give_up("mmap", -1);
    if (r->where == BUFFER)
        memset(m, 0, 8192);
    if (r->where == NOTHING_MAPPED)
        munmap(m, 8192);
    if (r->where == HALF_MAPPED)
        munmap(m + 4096, 4096);
    errno = 0;
    struct ibv_mr *mr = ibv_reg_mr(p.pd, m, r->length, r->access);
    say("%s", error_name(mr ? 0 : -1));
}

static void odp(const void *arg)
{
    struct pair p = {0};
    struct ibv_device_attr_ex a;
    static char memory[4096];
    (void)arg;
    pair_device(&p);
    need(ibv_query_device_ex(p.ctx, NULL, &a), "ibv_query_device_ex");
    struct ibv_mr *mr = ibv_reg_mr(p.pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
    bool offered = a.odp_caps.general_caps & IBV_ODP_SUPPORT;
    say("%s", offered == !!mr ? "as the attributes say" : mr ? "accepted, not offered" : error_name(-1));
}

static void fields(const void *arg)
{
    struct pair p;
    (void)arg;
    pair_open(&p, NULL);
    const struct buffer *b = &p.buf[0];
    say("%s", b->mr->addr == b->p && b->mr->length == b->size && b->mr->pd == p.pd && b->mr->context == p.ctx ? "fields"
                                                                                                                  : "wrong");
    say("%s", b->mr->lkey != p.buf[1].mr->lkey && b->mr->rkey != p.buf[1].mr->rkey ? "keys differ" : "same keys");
    struct ibv_mr *again = need_ptr(ibv_reg_mr(p.pd, b->p, b->size, ALL_ACCESS), "ibv_reg_mr");
    say("%s", again->rkey != b->mr->rkey ? "keys differ" : "same keys");
}

/* Two registrations of one page do not depend on each other. */
static void overlapping(const void *arg)
{
    struct pair p;
    (void)arg;
    pair_open(&p, NULL);
    struct ibv_mr *a = need_ptr(ibv_reg_mr(p.pd, p.buf[1].p, 100, ALL_ACCESS), "ibv_reg_mr");
    need(ibv_dereg_mr(a), "ibv_dereg_mr");
    fill(&p.buf[1], 1);
    need(post_rdma(&p, IBV_WR_RDMA_READ, 1, 1000), "READ");
    say("%s", outcome(p.cq[0], 1));
    say("%s", filled(p.buf[0].p, 1000, 1, 0) ? "exact" : "wrong data");
}

/* Keys of the dead are not given again at once: 200 registrations of the same memory. */
static void keys_die(const void *arg)
{
    struct pair p;
    uint32_t key[200];
    int same = 0;
    (void)arg;
    pair_open(&p, NULL);
    for (int i = 0; i < 200; i++) {
        struct ibv_mr *mr = need_ptr(ibv_reg_mr(p.pd, p.buf[0].p, 4096, ALL_ACCESS), "ibv_reg_mr");
        key[i] = mr->rkey;
        same += i && key[i] == key[i - 1];
        need(ibv_dereg_mr(mr), "ibv_dereg_mr");
    }
    say("%s", same ? "a key was given twice in succession" : "new keys");
}

static void iova(const void *arg)
{
    struct pair p;
    (void)arg;
    pair_open(&p, NULL);
    const uint64_t at = 0x100000000000u | (uintptr_t)p.buf[1].p % 4096;
    struct ibv_mr *mr = ibv_reg_mr_iova(p.pd, p.buf[1].p, p.buf[1].size, at, ALL_ACCESS);
    if (!mr) {
        say("%s", error_name(-1));
        return;
    }
    fill(&p.buf[1], 2);
    struct ibv_sge s = sge(&p.buf[0], 0, 1000);
    struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_RDMA_READ,
                             .wr.rdma = {at + 3000, mr->rkey}};
    need(post(p.qp[0], wr), "READ");
    say("%s", outcome(p.cq[0], 1));
    say("%s", filled(p.buf[0].p, 1000, 2, 3000) ? "exact" : "wrong data");
    wr.wr.rdma.remote_addr = (uintptr_t)p.buf[1].p;
    wr.wr_id = 2;
    need(post(p.qp[0], wr), "READ");
    say("by address %s", outcome(p.cq[0], 2));
}

/* ibv_rereg_mr(): works, or says that it does not and leaves the MR valid. */
static void reregister(const void *arg)
{
    struct pair p;
    (void)arg;
    pair_open(&p, NULL);
    int e = ibv_rereg_mr(p.buf[1].mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE);
    say("%s", e == 0 ? "ok" : e == IBV_REREG_MR_ERR_INPUT ? "ERR_INPUT" : e == IBV_REREG_MR_ERR_CMD ? "ERR_CMD" : "other error");
    need(post_rdma(&p, IBV_WR_RDMA_READ, 1, 100), "READ");
    say("%s", outcome(p.cq[0], 1));
}

#define REG(flags, at, bytes) &(const struct registration){flags, at, bytes}
#define LOCAL IBV_ACCESS_LOCAL_WRITE

const struct check memory_checks[] = {
    {"memory_length_0", try_register, "EINVAL", "IBA 11.2.7.1: invalid length", REG(ALL_ACCESS, BUFFER, 0)},
    {"memory_not_mapped", try_register, "EFAULT | EINVAL", "IBA 11.2.7.1: invalid address", REG(ALL_ACCESS, NOTHING_MAPPED, 8192)},
    {"memory_half_mapped", try_register, "EFAULT | EINVAL", "IBA 11.2.7.1: invalid address", REG(ALL_ACCESS, HALF_MAPPED, 8192)},
    {"memory_address_wraps", try_register, "EINVAL | EFAULT", "IBA 11.2.7.1: invalid length", REG(LOCAL, BUFFER, SIZE_MAX - 4096)},
    {"memory_read_only", try_register, "EFAULT | EACCES | EINVAL", "IBA 10.6.3.5: rights of the process", REG(LOCAL, READ_ONLY, 8192)},
    {"memory_read_only_for_read", try_register, "ok", "IBA 10.6.3.5: rights of the process",
     REG(IBV_ACCESS_REMOTE_READ, READ_ONLY, 8192)},
    {"memory_remote_write_alone", try_register, "EINVAL", "IBA 11.2.7.1; ibv_reg_mr(3)", REG(IBV_ACCESS_REMOTE_WRITE, BUFFER, 8192)},
    {"memory_remote_atomic_alone", try_register, "EINVAL", "IBA 11.2.7.1; ibv_reg_mr(3)", REG(IBV_ACCESS_REMOTE_ATOMIC, BUFFER, 8192)},
    {"memory_remote_read_alone", try_register, "ok", "IBA 10.6.3.1", REG(IBV_ACCESS_REMOTE_READ, BUFFER, 8192)},
    {"memory_unknown_flag", try_register, "EINVAL | EOPNOTSUPP", "ibv_reg_mr(3)", REG(LOCAL | 1u << 15, BUFFER, 8192)},
    {"memory_optional_flag", try_register, "ok", "ibv_reg_mr(3): optional flags may be ignored",
     REG(LOCAL | IBV_ACCESS_RELAXED_ORDERING, BUFFER, 8192)},
    {"memory_on_demand", odp, "as the attributes say", "ibv_query_device_ex(3), ibv_reg_mr(3)", NULL},
    {"memory_fields", fields, "fields, keys differ, keys differ", "ibv_reg_mr(3)", NULL},
    {"memory_overlapping", overlapping, "ok, exact", "IBA 10.6.3.4: regions may overlap", NULL},
    {"memory_keys_die", keys_die, "new keys", "IBA 10.6.3.3, 10.6.5: keys invalid after deregistration", NULL},
    {"memory_iova", iova, "ok, exact, by address REM_ACCESS_ERR", "ibv_reg_mr(3): ibv_reg_mr_iova", NULL},
    {"memory_reregister", reregister, "ERR_INPUT, ok | ok, REM_ACCESS_ERR", "ibv_rereg_mr(3)", NULL},
    {0},
};
