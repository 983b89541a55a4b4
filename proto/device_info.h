/* One port of one RDMA device, as results record it and device.h fills it. Plain C. */
#ifndef ZC_DEVICE_INFO_H
#define ZC_DEVICE_INFO_H

#include <stdbool.h>
#include <stdint.h>

#define ZC_UNMEASURED UINT64_MAX        /* a figure that was not measured */
enum { ZC_NAME_MAX = 64 };

enum zc_device_kind { ZC_DEVICE_HARDWARE, ZC_DEVICE_RXE, ZC_DEVICE_SOFTWARE };

/* One port of one RDMA device, as ibv_query_device(3), ibv_query_port(3) and sysfs tell. */
struct zc_device_info {
    char name[ZC_NAME_MAX];
    enum zc_device_kind kind;
    char firmware[ZC_NAME_MAX];
    uint32_t vendor_id, vendor_part_id;
    uint8_t port;
    char port_state[ZC_NAME_MAX];       /* "ACTIVE", "DOWN", ... */
    char link_layer[ZC_NAME_MAX];       /* "Ethernet", "InfiniBand" */
    uint32_t active_mtu, max_mtu;       /* bytes */
    char netdev[ZC_NAME_MAX];           /* "" if unknown */
    char model[128];                    /* software device: rate, latency or faults it was told to play; "" for none */
    char address[ZC_NAME_MAX];          /* IP address of the port's GID table that rdma_cm can use, "" if none */
    double rate_gbit_per_s;             /* nominal, from width and speed; NAN on rxe and the software device */
    int numa_node;                      /* -1 if unknown */
    uint32_t max_qp, max_cqe, max_qp_wr, max_sge, max_qp_rd_atom, max_qp_init_rd_atom;
    uint64_t max_mr_size_bytes, max_msg_size_bytes;
    bool odp;                           /* on-demand paging, also for READ on an RC QP */
};
extern const char *const zc_device_kind_names[];    /* "hardware", "rxe", "software" */

#endif
