/* See device_info.h. */
#include "device_info.h"

#include <stddef.h>

const char *const zc_device_kind_names[] = {
    [ZC_DEVICE_HARDWARE] = "hardware", [ZC_DEVICE_RXE] = "rxe", [ZC_DEVICE_SOFTWARE] = "software", NULL,
};
