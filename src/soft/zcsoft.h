/* What libzcsoft.so offers beyond the symbols of libibverbs and librdmacm. A program never links to it: it asks
 * dlsym(RTLD_DEFAULT, "zcsoft_device_cpu_ns"), and a non-null answer also tells that it runs on the software device. */
#ifndef ZCSOFT_H
#define ZCSOFT_H

#include <stdint.h>

/* CPU time in nanoseconds that this process' device thread has used so far; 0 while there is none.
 * Any thread may call; never fails. What a NIC would do by itself costs this much here, so results show it apart. */
uint64_t zcsoft_device_cpu_ns(void);

#endif
