/* What becomes of an open device: its port goes down and up, or it is taken away. See device.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "device_private.h"

int zc_device_look(const struct zc_device *device, struct zc_device_info *info, struct zc_error *err)
{
    struct zc_device_info now = device->info;
    const int rc = device_read_port(device->context, device->info.port, &now);
    if (rc)
        return zc_error_set(err, ZC_ERR_DEVICE, rc, "device", "cannot query port %u of %s: %s", device->info.port, device->info.name,
                            strerror(-rc));
    *info = now;
    return 0;
}

const char *zc_device_port_note(const struct zc_device *device, char text[ZC_PORT_NOTE_MAX])
{
    struct zc_device_info now;
    struct zc_error ignored;
    text[0] = '\0';
    if (device && zc_device_look(device, &now, &ignored) == 0 && strcmp(now.port_state, "ACTIVE") != 0)
        snprintf(text, ZC_PORT_NOTE_MAX, "; port %u of %s is %s", now.port, now.name, now.port_state);
    return text;
}

bool zc_device_port_active(const char *name, uint8_t port)
{
    char attribute[32], state[ZC_NAME_MAX];
    snprintf(attribute, sizeof(attribute), "ports/%u/state", port);
    return device_sysfs_read(name, attribute, state, sizeof(state)) && strstr(state, "ACTIVE");
}

static bool node_exists(const struct ibv_context *context)
{
    return access(context->device->dev_path, F_OK) == 0;
}

bool device_has_node(const struct zc_device *device)
{
    return node_exists(device->context);
}

bool zc_device_gone(const struct zc_device *device)
{
    return device->gone || (device->had_node && !device_has_node(device));
}

void zc_device_tell_gone(struct zc_device *device)
{
    device->gone = true;
}

/* librdmacm (rdma-core 44) keeps a context open until its list of devices shows that the device is missing, and where the last one
 * is missing it looks at no list. So the kernel's side of the context is closed under it; what it holds it frees when it knows. */
void device_let_go(const struct ibv_context *context)
{
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0)
        return;
    dup3(null, context->async_fd, O_CLOEXEC);
    dup3(null, context->cmd_fd, O_CLOEXEC);
    close(null);
}

void zc_device_let_go_others(struct zc_device *device)
{
    for (unsigned i = 0; device->had_node && i < 64 && device->contexts[i]; i++) {
        const struct ibv_context *const other = device->contexts[i];
        if (other == device->context || device->let_go >> i & 1 || node_exists(other))
            continue;
        device_let_go(other);
        device->let_go |= UINT64_C(1) << i;
    }
}
