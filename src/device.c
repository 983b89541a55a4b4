/* RDMA devices as librdmacm sees them: see device.h. */
#include "device.h"

#include <arpa/inet.h>
#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <ifaddrs.h>
#include <math.h>
#include <netdb.h>
#include <net/if.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "counters.h"
#include "device_private.h"

typedef uint64_t device_cpu_ns_function(void);
typedef const char *model_function(void);

/* The software device, where it is preloaded, answers to these names; see src/soft/zcsoft.h. */
static device_cpu_ns_function *software_device(void)
{
    void *symbol = dlsym(RTLD_DEFAULT, "zcsoft_device_cpu_ns");
    device_cpu_ns_function *function;
    static_assert(sizeof(function) == sizeof(symbol), "POSIX: dlsym() returns functions too");
    memcpy(&function, &symbol, sizeof(function));
    return function;
}

static const char *software_model(void)
{
    void *symbol = dlsym(RTLD_DEFAULT, "zcsoft_model");
    model_function *function;
    memcpy(&function, &symbol, sizeof(function));
    const char *model = function ? function() : NULL;
    return model ? model : "";
}

uint64_t zc_device_cpu_ns(void)
{
    device_cpu_ns_function *function = software_device();
    return function ? function() : ZC_UNMEASURED;
}

bool device_sysfs_read(const char *device, const char *attribute, char *text, int size)
{
    char path[256];
    snprintf(path, sizeof(path), "/sys/class/infiniband/%s/%s", device, attribute);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    bool read = fgets(text, size, file) != NULL;
    fclose(file);
    if (read)
        text[strcspn(text, "\n")] = '\0';
    return read;
}

/* Soft-RoCE has an attribute of its own, `parent`, that names its network interface; no other driver has it. Vendor id 0xffffff is
 * rxe's too, but not reserved for it, and node_desc ("rxe") may be rewritten by the administrator, so that is what decides. */
static enum zc_device_kind device_kind(const char *name)
{
    char text[ZC_NAME_MAX];
    if (software_device())
        return ZC_DEVICE_SOFTWARE;
    return device_sysfs_read(name, "parent", text, sizeof(text)) ? ZC_DEVICE_RXE : ZC_DEVICE_HARDWARE;
}

static const char *port_state_name(enum ibv_port_state state)
{
    static const char *const names[] = {"NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"};
    return (size_t)state < sizeof(names) / sizeof(names[0]) ? names[state] : "UNKNOWN";
}

static const char *link_layer_name(uint8_t link_layer)
{
    switch (link_layer) {
    case IBV_LINK_LAYER_ETHERNET:
        return "Ethernet";
    case IBV_LINK_LAYER_INFINIBAND:
    case IBV_LINK_LAYER_UNSPECIFIED:    /* what old InfiniBand drivers say, ibv_query_port(3) */
        return "InfiniBand";
    default:
        return "unknown";
    }
}

static uint32_t mtu_bytes(enum ibv_mtu mtu)
{
    return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128u << mtu : 0;
}

/* Lanes by width code, and what a lane carries by speed code, as the kernel's own "rate" attribute counts them. */
static double port_rate(uint8_t width, uint8_t speed)
{
    double lanes = width == 16 ? 2 : width == 1 ? 1 : width == 2 ? 4 : width == 4 ? 8 : width == 8 ? 12 : NAN;
    switch (speed) {
    case 1: return lanes * 2.5;
    case 2: return lanes * 5;
    case 4: case 8: return lanes * 10;
    case 16: return lanes * 14;
    case 32: return lanes * 25;
    case 64: return lanes * 50;
    case 128: return lanes * 100;
    default: return NAN;
    }
}

static int numa_node(const char *name)
{
    char text[32], *end;
    if (!device_sysfs_read(name, "device/numa_node", text, sizeof(text)))
        return -1;
    long node = strtol(text, &end, 10);
    return end != text && node >= 0 ? (int)node : -1;
}

static void read_attributes(struct ibv_context *context, struct zc_device_info *info)
{
    struct ibv_device_attr_ex extended = {0};
    struct ibv_device_attr *attr = &extended.orig_attr;
    bool has_extended = ibv_query_device_ex(context, NULL, &extended) == 0;
    if (!has_extended && ibv_query_device(context, attr) != 0)
        return;
    snprintf(info->firmware, sizeof(info->firmware), "%.*s", (int)sizeof(info->firmware) - 1, attr->fw_ver);
    snprintf(info->model, sizeof(info->model), "%s", software_model());
    info->vendor_id = attr->vendor_id;
    info->vendor_part_id = attr->vendor_part_id;
    info->max_qp = (uint32_t)attr->max_qp;
    info->max_cqe = (uint32_t)attr->max_cqe;
    info->max_qp_wr = (uint32_t)attr->max_qp_wr;
    info->max_sge = (uint32_t)attr->max_sge;
    info->max_qp_rd_atom = (uint32_t)attr->max_qp_rd_atom;
    info->max_qp_init_rd_atom = (uint32_t)attr->max_qp_init_rd_atom;
    info->max_mr_size_bytes = attr->max_mr_size;
    info->odp = has_extended && (extended.odp_caps.general_caps & IBV_ODP_SUPPORT) &&
                (extended.odp_caps.per_transport_caps.rc_odp_caps & IBV_ODP_SUPPORT_READ);
}

int device_read_port(struct ibv_context *context, uint8_t port, struct zc_device_info *info)
{
    struct ibv_port_attr attr = {0};
    int rc = ibv_query_port(context, port, &attr);
    if (rc)
        return rc > 0 ? -rc : -EIO;
    info->port = port;
    snprintf(info->port_state, sizeof(info->port_state), "%s", port_state_name(attr.state));
    snprintf(info->link_layer, sizeof(info->link_layer), "%s", link_layer_name(attr.link_layer));
    info->active_mtu = mtu_bytes(attr.active_mtu);
    info->max_mtu = mtu_bytes(attr.max_mtu);
    info->max_msg_size_bytes = attr.max_msg_sz;
    /* What rxe and the software device report is not a rate that any wire carries. */
    info->rate_gbit_per_s = info->kind == ZC_DEVICE_HARDWARE ? port_rate(attr.active_width, attr.active_speed) : NAN;
    return 0;
}

/* The network interface of a port without an address, from the first GID that names one. */
static void read_netdev(struct zc_device_info *info)
{
    char attribute[64];
    for (int gid = 0; gid < 16 && !info->netdev[0]; gid++) {
        snprintf(attribute, sizeof(attribute), "ports/%u/gid_attrs/ndevs/%d", info->port, gid);
        if (!device_sysfs_read(info->name, attribute, info->netdev, sizeof(info->netdev)))
            info->netdev[0] = '\0';
    }
}

/* Order of preference among the addresses of a port; smaller is better. */
enum address_rank { RANK_IPV4, RANK_IPV6, RANK_LINK_LOCAL, RANK_LOOPBACK, RANK_NONE };

static enum address_rank address_rank(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET) {
        struct in_addr in;
        memcpy(&in, &((const struct sockaddr_in *)(const void *)address)->sin_addr, sizeof(in));
        uint32_t ip = ntohl(in.s_addr);
        return ip >> 24 == 127 ? RANK_LOOPBACK : ip >> 16 == 0xa9fe ? RANK_LINK_LOCAL : RANK_IPV4;
    }
    if (address->sa_family == AF_INET6) {
        struct in6_addr in6;
        memcpy(&in6, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, sizeof(in6));
        return IN6_IS_ADDR_LOOPBACK(&in6) ? RANK_LOOPBACK : IN6_IS_ADDR_LINKLOCAL(&in6) ? RANK_LINK_LOCAL : RANK_IPV6;
    }
    return RANK_NONE;
}

/* Which device and port does rdma_cm use for this local address? Right for every fabric: on InfiniBand the address is IPoIB's and
 * in no GID table. NULL if none. */
static struct zc_device_info *find_row(struct rdma_event_channel *channel, struct sockaddr *address, struct zc_device_info *infos,
                                       size_t count)
{
    struct rdma_cm_id *id;
    struct zc_device_info *found = NULL;
    if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) != 0)
        return NULL;
    if (rdma_bind_addr(id, address) == 0 && id->verbs) {
        for (size_t i = 0; i < count && !found; i++)
            if (strcmp(infos[i].name, ibv_get_device_name(id->verbs->device)) == 0 && infos[i].port == id->port_num)
                found = &infos[i];
    }
    rdma_destroy_id(id);
    return found;
}

static void read_addresses(struct zc_device_info *infos, size_t count)
{
    struct ifaddrs *addresses;
    struct rdma_event_channel *channel = rdma_create_event_channel();
    if (!channel)
        return;
    if (getifaddrs(&addresses) != 0)
        goto destroy_channel;

    for (int rank = RANK_IPV4; rank < RANK_NONE; rank++) {
        for (struct ifaddrs *a = addresses; a; a = a->ifa_next) {
            if (!a->ifa_addr || (int)address_rank(a->ifa_addr) != rank)
                continue;
            struct zc_device_info *info = find_row(channel, a->ifa_addr, infos, count);
            if (!info || info->address[0])
                continue;
            socklen_t length = a->ifa_addr->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
            if (getnameinfo(a->ifa_addr, length, info->address, sizeof(info->address), NULL, 0, NI_NUMERICHOST) != 0)
                info->address[0] = '\0';
            else
                snprintf(info->netdev, sizeof(info->netdev), "%s", a->ifa_name);
        }
    }
    freeifaddrs(addresses);
destroy_channel:
    rdma_destroy_event_channel(channel);
}

/* How many RDMA devices verbs sees. Asked first, because librdmacm complains on stderr where the kernel has none. */
static int verbs_devices(void)
{
    int count = 0;
    struct ibv_device **list = ibv_get_device_list(&count);
    if (!list)
        return 0;
    ibv_free_device_list(list);
    return count;
}

/* All contexts of librdmacm, NULL-terminated; *contexts is NULL where there is no device. */
static int contexts_get(struct ibv_context ***contexts, struct zc_error *err)
{
    *contexts = NULL;
    if (verbs_devices() == 0)
        return 0;
    *contexts = rdma_get_devices(NULL);
    if (!*contexts && errno != ENODEV)
        return zc_error_set(err, ZC_ERR_DEVICE, -errno, NULL,
                            "rdma_cm does not work: %m (is the module rdma_ucm loaded, and /dev/infiniband/rdma_cm permitted?)");
    return 0;
}

static uint8_t port_count(struct ibv_context *context)
{
    struct ibv_device_attr attr;
    return ibv_query_device(context, &attr) == 0 ? attr.phys_port_cnt : 0;
}

/* A row a port of every context, in a malloc'ed array that the caller frees. */
static int rows_create(struct ibv_context **contexts, struct zc_device_info **rows, size_t *count, struct zc_error *err)
{
    size_t total = 0, used = 0;
    for (struct ibv_context **c = contexts; c && *c; c++)
        total += port_count(*c);
    struct zc_device_info *infos = calloc(total + 1, sizeof(*infos));
    if (!infos)
        return zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, NULL, "no memory for a list of %zu ports", total);

    for (struct ibv_context **c = contexts; c && *c; c++) {
        unsigned ports = port_count(*c);
        for (unsigned port = 1; port <= ports && used < total; port++) {
            struct zc_device_info *info = &infos[used];
            snprintf(info->name, sizeof(info->name), "%s", ibv_get_device_name((*c)->device));
            info->kind = device_kind(info->name);
            info->numa_node = numa_node(info->name);
            read_attributes(*c, info);
            if (device_read_port(*c, (uint8_t)port, info) == 0)
                used++;
            else
                memset(info, 0, sizeof(*info));
        }
    }
    if (used)
        read_addresses(infos, used);
    for (size_t i = 0; i < used; i++)
        if (!infos[i].netdev[0])
            read_netdev(&infos[i]);
    *rows = infos;
    *count = used;
    return 0;
}

int zc_device_list(struct zc_device_info *infos, size_t max, size_t *count, struct zc_error *err)
{
    struct ibv_context **contexts;
    struct zc_device_info *rows;
    size_t used;
    int rc = contexts_get(&contexts, err);
    if (rc)
        return rc;
    rc = rows_create(contexts, &rows, &used, err);
    if (contexts)
        rdma_free_devices(contexts);
    if (rc)
        return rc;
    if (max)
        memcpy(infos, rows, (used < max ? used : max) * sizeof(*infos));
    free(rows);
    *count = used;
    return 0;
}

static bool usable(const struct zc_device_info *info)
{
    return strcmp(info->port_state, "ACTIVE") == 0 && info->address[0];
}

/* The row to open: of the named device the first usable port, or else its first; without a name the first usable port of all. */
static const struct zc_device_info *choose(const char *name, const struct zc_device_info *rows, size_t count)
{
    const struct zc_device_info *second_best = NULL;
    for (size_t i = 0; i < count; i++) {
        if (name && strcmp(name, rows[i].name) != 0)
            continue;
        if (usable(&rows[i]))
            return &rows[i];
        if (name && !second_best)
            second_best = &rows[i];
    }
    return second_best;
}

static int not_found(const char *name, const struct zc_device_info *rows, size_t count, struct zc_error *err)
{
    char names[256] = "";
    size_t length = 0;
    for (size_t i = 0; i < count && length < sizeof(names); i++)
        length += (size_t)snprintf(names + length, sizeof(names) - length, "%s%s port %u %s%s", i ? ", " : "", rows[i].name,
                                   rows[i].port, rows[i].port_state, rows[i].address[0] ? "" : " without an address");
    if (count == 0)
        return zc_error_set(err, ZC_ERR_NOT_FOUND, -ENODEV, "device", "there is no RDMA device%s%s on this host", name ? " " : "",
                            name ? name : "");
    if (name)
        return zc_error_set(err, ZC_ERR_NOT_FOUND, -ENODEV, "device", "there is no RDMA device '%s'; there is: %s", name, names);
    return zc_error_set(err, ZC_ERR_NOT_FOUND, -ENODEV, "device",
                        "no RDMA device has an ACTIVE port with an IP address; there is: %s", names);
}

static struct ibv_context *context_find(struct ibv_context **contexts, const char *name)
{
    for (struct ibv_context **c = contexts; c && *c; c++)
        if (strcmp(ibv_get_device_name((*c)->device), name) == 0)
            return *c;
    return NULL;
}

int zc_device_open(const char *name, struct zc_device **device, struct zc_error *err)
{
    struct zc_device_info *rows = NULL;
    size_t count;
    struct zc_device *d = calloc(1, sizeof(*d));
    if (!d)
        return zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, NULL, "no memory for a device");

    int rc = contexts_get(&d->contexts, err);
    if (rc)
        goto free_device;
    rc = rows_create(d->contexts, &rows, &count, err);
    if (rc)
        goto free_contexts;
    const struct zc_device_info *chosen = choose(name, rows, count);
    if (!chosen) {
        rc = not_found(name, rows, count, err);
        goto free_rows;
    }
    d->info = *chosen;
    d->context = context_find(d->contexts, chosen->name);
    d->pd = ibv_alloc_pd(d->context);
    if (!d->pd) {
        rc = zc_error_set(err, ZC_ERR_DEVICE, errno ? -errno : -EIO, "device", "cannot allocate a protection domain on %s: %m",
                          d->info.name);
        goto free_rows;
    }
    zc_count(&zc_counters.pds, 1);
    d->had_node = device_has_node(d);
    free(rows);
    *device = d;
    return 0;

free_rows:
    free(rows);
free_contexts:
    if (d->contexts)
        rdma_free_devices(d->contexts);
free_device:
    free(d);
    return rc;
}

void zc_device_close(struct zc_device *device)
{
    if (!device)
        return;
    if (ibv_dealloc_pd(device->pd) == 0)
        zc_count(&zc_counters.pds, -1);
    if (zc_device_gone(device))
        device_let_go(device->context);
    rdma_free_devices(device->contexts);
    free(device);
}

struct ibv_context *zc_device_context(const struct zc_device *device)
{
    return device->context;
}

struct ibv_pd *zc_device_pd(const struct zc_device *device)
{
    return device->pd;
}

const struct zc_device_info *zc_device_info(const struct zc_device *device)
{
    return &device->info;
}
