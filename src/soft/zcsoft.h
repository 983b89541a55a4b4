/* What libzcsoft.so offers beyond the symbols of libibverbs and librdmacm. A program never links to it: it asks
 * dlsym(RTLD_DEFAULT, "zcsoft_device_cpu_ns"), and a non-null answer also tells that it runs on the software device. */
#ifndef ZCSOFT_H
#define ZCSOFT_H

#include <stdint.h>

/* CPU time in nanoseconds that this process' device thread has used so far; 0 while there is none.
 * Any thread may call; never fails. What a NIC would do by itself costs this much here, so results show it apart. */
uint64_t zcsoft_device_cpu_ns(void);

/* What the environment makes of the device besides itself, in one line ("rate=100000000000 latency=2000 faults=reg:3=ENOMEM");
 * NULL if nothing: then the speeds are the machine's own and nothing fails that would not. A result taken while it is not
 * NULL must carry it. Any thread may call; the string stays.
 *
 * ZCSOFT_RATE         bit/s: all requests of a process share one wire of this rate, whichever way their payload goes
 * ZCSOFT_LATENCY      ns that each request takes on top; as many overlap as the queue pair may have outstanding
 * ZCSOFT_REG_LATENCY  ns that each ibv_reg_mr takes on top, in the caller's thread
 * ZCSOFT_FAULTS       rules separated by commas, each KIND:COUNT=WHAT - at the COUNT-th event of its KIND in this process,
 *                     counted from 1 - or KIND:COUNT+=WHAT - at that one and every later one:
 *   reg:3=ENOMEM         a registration fails: ENOMEM EFAULT EINVAL EPERM EAGAIN EIO EBUSY ENOSPC
 *   wc:100=WR_FLUSH_ERR  a send-queue request that would have succeeded completes with this status (a name of enum
 *                        ibv_wc_status without IBV_WC_), signaled or not, and its queue pair goes to ERR
 *   link:5=drop          instead of sending a frame, the stream it would have gone out on is cut: queue pairs connect anew
 *                        and retry. Requests within one process, and READs pulled directly, send no frames
 *                        (ZCSOFT_TRANSPORT=unix or tcp makes them)
 *   cm:2=drop            instead of sending a rdma_cm message (REQ, REP, RTU, ...), its stream is cut
 * A script or number that is not understood is told on stderr, and opening the device fails with EINVAL. */
const char *zcsoft_model(void);

#endif
