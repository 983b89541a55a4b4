/* What device.c (listing, opening) and device_state.c (what becomes of an open device) share. Private to src/. */
#ifndef ZC_DEVICE_PRIVATE_H
#define ZC_DEVICE_PRIVATE_H

#include "device.h"

struct zc_device {
    struct ibv_context **contexts;  /* from rdma_get_devices(3); held, because it keeps the contexts alive */
    struct ibv_context *context;
    uint64_t let_go;                /* which of the first 64 contexts have been, by index */
    struct ibv_pd *pd;
    bool had_node;                  /* in sysfs, when it was opened; the software device has none */
    bool gone;                      /* whatever can be seen */
    struct zc_device_info info;
};

/* One line of /sys/class/infiniband/NAME/ATTRIBUTE; false where there is none (the software device has no sysfs). */
bool device_sysfs_read(const char *device, const char *attribute, char *text, int size);
/* State, MTU and limits of a port into the info. 0 or a negative errno. */
int device_read_port(struct ibv_context *context, uint8_t port, struct zc_device_info *info);

bool device_has_node(const struct zc_device *device);
/* Of a device that is gone, whose objects have all been destroyed: nothing that the process holds hinders its removal any more. */
void device_let_go(const struct ibv_context *context);

#endif
