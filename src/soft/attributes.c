/* What the device says of itself: device, port, GID and pkey attributes. They tell the truth about what is offered. */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model.h"

#define ZS_PART_ID 0x7a63 /* vendor_part_id: "zc" */

const char *zs_env_addr(void)
{
    const char *a = getenv("ZCSOFT_ADDR");
    return a && *a ? a : NULL;
}

/* --- GIDs: one for each address of this host ----------------------------------------------------------------------- */

static struct zs_gid gids[ZS_GID_MAX];
static int gid_count;
static pthread_once_t gids_once = PTHREAD_ONCE_INIT;

static void gid_of_v4(union ibv_gid *gid, const struct in_addr *a)
{
    memset(gid, 0, sizeof *gid);
    gid->raw[10] = gid->raw[11] = 0xff;
    memcpy(&gid->raw[12], a, 4);
}

static bool same_gid(const union ibv_gid *a, const union ibv_gid *b)
{
    return memcmp(a->raw, b->raw, sizeof a->raw) == 0;
}

static void gid_add(const union ibv_gid *gid, uint32_t ifindex, bool loopback)
{
    for (int i = 0; i < gid_count; i++)
        if (same_gid(&gids[i].gid, gid))
            return;
    if (gid_count < ZS_GID_MAX)
        gids[gid_count++] = (struct zs_gid){.gid = *gid, .ifindex = ifindex, .loopback = loopback};
}

/* The order of preference, since gid[0] is what most programs are told to use: what ZCSOFT_ADDR names; IPv4 that other
 * hosts may reach; global IPv6; loopback; link-local last. */
static int rank(const struct ifaddrs *a)
{
    bool loop = a->ifa_flags & IFF_LOOPBACK;
    if (!a->ifa_addr || !(a->ifa_flags & IFF_UP))
        return -1;
    if (a->ifa_addr->sa_family == AF_INET)
        return loop ? 2 : 0;
    if (a->ifa_addr->sa_family != AF_INET6)
        return -1;
    const struct sockaddr_in6 *s = (const void *)a->ifa_addr;
    return IN6_IS_ADDR_LINKLOCAL(&s->sin6_addr) ? 4 : loop ? 3 : 1;
}

static void gid_add_interface(const struct ifaddrs *a)
{
    union ibv_gid gid;
    if (a->ifa_addr->sa_family == AF_INET)
        gid_of_v4(&gid, &((const struct sockaddr_in *)(const void *)a->ifa_addr)->sin_addr);
    else
        memcpy(gid.raw, &((const struct sockaddr_in6 *)(const void *)a->ifa_addr)->sin6_addr, 16);
    gid_add(&gid, if_nametoindex(a->ifa_name), a->ifa_flags & IFF_LOOPBACK);
}

static void gids_collect(void)
{
    union ibv_gid gid;
    const char *chosen = zs_env_addr();
    struct in_addr v4;
    if (chosen && inet_pton(AF_INET, chosen, &v4) == 1) {
        gid_of_v4(&gid, &v4);
        gid_add(&gid, 0, false);
    } else if (chosen && inet_pton(AF_INET6, chosen, gid.raw) == 1) {
        gid_add(&gid, 0, false);
    }
    struct ifaddrs *all;
    if (getifaddrs(&all) == 0) {
        for (int r = 0; r <= 4; r++)
            for (const struct ifaddrs *a = all; a; a = a->ifa_next)
                if (rank(a) == r)
                    gid_add_interface(a);
        freeifaddrs(all);
    }
    if (!gid_count) { /* not even a loopback interface: Unix sockets still work */
        v4.s_addr = htonl(INADDR_LOOPBACK);
        gid_of_v4(&gid, &v4);
        gid_add(&gid, 0, true);
    }
}

int zs_gids(const struct zs_gid **table)
{
    pthread_once(&gids_once, gids_collect);
    *table = gids;
    return gid_count;
}

bool zs_gid_find(const union ibv_gid *gid, uint32_t *index)
{
    const struct zs_gid *t;
    int n = zs_gids(&t);
    for (int i = 0; i < n; i++)
        if (same_gid(&t[i].gid, gid)) {
            *index = (uint32_t)i;
            return true;
        }
    return false;
}

ZS_EXPORT int ibv_query_gid(struct ibv_context *c, uint8_t port, int index, union ibv_gid *gid)
{
    const struct zs_gid *t;
    (void)c;
    if (port != 1 || index < 0 || index >= ZS_GID_MAX) {
        errno = EINVAL;
        return -1;
    }
    if (index < zs_gids(&t))
        *gid = t[index].gid;
    else
        memset(gid, 0, sizeof *gid); /* an empty entry of the table, as the kernel shows it */
    return 0;
}

/* Private to libibverbs and its tools: ibv_devinfo asks with it. 1 is RoCE v2 there (enum ibv_gid_type_sysfs). */
ZS_EXPORT int ibv_query_gid_type(struct ibv_context *c, uint8_t port, unsigned int index, int *type);
ZS_EXPORT int ibv_query_gid_type(struct ibv_context *c, uint8_t port, unsigned int index, int *type)
{
    (void)c;
    if (port != 1 || index >= ZS_GID_MAX) {
        errno = EINVAL;
        return -1;
    }
    *type = 1;
    return 0;
}

static void fill_entry(struct ibv_gid_entry *to, size_t size, const struct zs_gid *t, uint32_t index)
{
    struct ibv_gid_entry e = {.gid = t->gid, .gid_index = index, .port_num = 1, .gid_type = IBV_GID_TYPE_ROCE_V2,
                              .ndev_ifindex = t->ifindex};
    memcpy(to, &e, size < sizeof e ? size : sizeof e);
}

ZS_EXPORT int _ibv_query_gid_ex(struct ibv_context *c, uint32_t port, uint32_t index, struct ibv_gid_entry *entry,
                                uint32_t flags, size_t size)
{
    const struct zs_gid *t;
    (void)c;
    if (port != 1 || flags || index >= ZS_GID_MAX)
        return EINVAL;
    if (index >= (uint32_t)zs_gids(&t))
        return ENODATA;
    fill_entry(entry, size, &t[index], index);
    return 0;
}

ZS_EXPORT ssize_t _ibv_query_gid_table(struct ibv_context *c, struct ibv_gid_entry *entries, size_t max,
                                       uint32_t flags, size_t size)
{
    const struct zs_gid *t;
    (void)c;
    if (flags)
        return -EINVAL;
    int n = zs_gids(&t);
    if ((size_t)n > max)
        return -EINVAL;
    for (int i = 0; i < n; i++)
        fill_entry((void *)((char *)entries + (size_t)i * size), size, &t[i], (uint32_t)i);
    return n;
}

ZS_EXPORT int ibv_query_pkey(struct ibv_context *c, uint8_t port, int index, __be16 *pkey)
{
    (void)c;
    if (port != 1 || index != 0) {
        errno = EINVAL;
        return -1;
    }
    *pkey = 0xffff;
    return 0;
}

ZS_EXPORT int ibv_get_pkey_index(struct ibv_context *c, uint8_t port, __be16 pkey)
{
    (void)c;
    if (port == 1 && pkey == 0xffff)
        return 0;
    errno = EINVAL;
    return -1;
}

/* --- device ------------------------------------------------------------------------------------------------------------ */

/* Locally administered, and the same for every process of the host, as a NIC's would be. */
uint64_t zs_node_guid(void)
{
    union {
        uint8_t b[8];
        uint64_t v;
    } g = {.b = {0x02, 0x7a, 0x63, 0xff, 0xfe}};
    const struct zs_gid *t;
    zs_gids(&t);
    memcpy(&g.b[5], &t[0].gid.raw[13], 3);
    return g.v;
}

ZS_EXPORT __be64 ibv_get_device_guid(struct ibv_device *device)
{
    (void)device;
    return zs_node_guid();
}

void zs_device_attr(struct ibv_device_attr *a)
{
    memset(a, 0, sizeof *a);
    snprintf(a->fw_ver, sizeof a->fw_ver, "zcsoft-0.1.0%s", zcsoft_model() ? "+model" : "");
    a->node_guid = a->sys_image_guid = zs_node_guid();
    a->max_mr_size = UINT64_MAX >> 1;
    a->page_size_cap = (uint64_t)sysconf(_SC_PAGESIZE);
    a->vendor_id = 0;
    a->vendor_part_id = ZS_PART_ID;
    a->hw_ver = 1;
    a->max_qp = ZS_MAX_QP;
    a->max_qp_wr = ZS_MAX_WR;
    a->device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN |
                          IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B |
                          IBV_DEVICE_MEM_MGT_EXTENSIONS;
    a->max_sge = a->max_sge_rd = a->max_srq_sge = ZS_MAX_SGE;
    a->max_cq = 65536;
    a->max_cqe = ZS_MAX_CQE;
    a->max_mr = a->max_mw = ZS_MAX_MR - 1;
    a->max_pd = 65536;
    a->max_qp_rd_atom = a->max_qp_init_rd_atom = ZS_MAX_RD_ATOMIC;
    a->max_res_rd_atom = ZS_MAX_RD_ATOMIC * ZS_MAX_QP;
    a->atomic_cap = IBV_ATOMIC_HCA;
    a->max_srq = 65536;
    a->max_srq_wr = ZS_MAX_WR;
    a->max_pkeys = 1;
    a->local_ca_ack_delay = 15;
    a->phys_port_cnt = 1;
}

ZS_EXPORT int ibv_query_device(struct ibv_context *c, struct ibv_device_attr *attr)
{
    (void)c;
    zs_device_attr(attr);
    return 0;
}

int zs_query_device_ex(struct ibv_context *c, const struct ibv_query_device_ex_input *in,
                       struct ibv_device_attr_ex *attr, size_t size)
{
    struct ibv_device_attr_ex a;
    (void)c;
    if (in && in->comp_mask)
        return EINVAL;
    if (size < sizeof a.orig_attr)
        return EINVAL;
    memset(&a, 0, sizeof a);
    zs_device_attr(&a.orig_attr);
    a.phys_port_cnt_ex = 1;
    a.odp_caps.general_caps = IBV_ODP_SUPPORT;
    a.odp_caps.per_transport_caps.rc_odp_caps = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE |
                                                IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC | IBV_ODP_SUPPORT_SRQ_RECV;
    memset(attr, 0, size);
    memcpy(attr, &a, size < sizeof a ? size : sizeof a);
    return 0;
}

/* --- port -------------------------------------------------------------------------------------------------------------- */

enum ibv_mtu zs_active_mtu(void)
{
    const char *s = getenv("ZCSOFT_MTU");
    static const struct {
        int bytes;
        enum ibv_mtu mtu;
    } sizes[] = {{256, IBV_MTU_256}, {512, IBV_MTU_512}, {1024, IBV_MTU_1024}, {2048, IBV_MTU_2048}};
    int want = s ? atoi(s) : 4096;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (want == sizes[i].bytes)
            return sizes[i].mtu;
    return IBV_MTU_4096;
}

static void port_attr(struct ibv_port_attr *p)
{
    memset(p, 0, sizeof *p);
    p->state = IBV_PORT_ACTIVE;
    p->max_mtu = IBV_MTU_4096;
    p->active_mtu = zs_active_mtu();
    p->gid_tbl_len = ZS_GID_MAX;
    p->port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS;
    p->max_msg_sz = ZS_MAX_MSG;
    p->pkey_tbl_len = 1;
    p->max_vl_num = 1;
    p->active_width = 1; /* 1X at 2.5 Gb/s: the lowest rate there is, because none is true; nobody may read a line rate from it */
    p->active_speed = 1;
    p->phys_state = 5;   /* link up */
    p->link_layer = IBV_LINK_LAYER_ETHERNET;
    p->flags = IBV_QPF_GRH_REQUIRED;
}

int zs_query_port_len(struct ibv_context *c, uint8_t port, struct ibv_port_attr *attr, size_t len)
{
    struct ibv_port_attr p;
    (void)c;
    if (port != 1)
        return EINVAL;
    port_attr(&p);
    memset(attr, 0, len);
    memcpy(attr, &p, len < sizeof p ? len : sizeof p);
    return 0;
}

#undef ibv_query_port
/* Binaries older than port_cap_flags2 pass a structure that ends before it. */
ZS_EXPORT int ibv_query_port(struct ibv_context *c, uint8_t port, struct _compat_ibv_port_attr *attr)
{
    return zs_query_port_len(c, port, (struct ibv_port_attr *)(void *)attr,
                             offsetof(struct ibv_port_attr, port_cap_flags2));
}
