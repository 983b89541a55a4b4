/* Parameters of rdma_connect(3) and rdma_accept(3) in the caller's own struct. Private data is pointed at, never copied: it must stay
 * unchanged until rdma_connect() or rdma_accept() returns, which hand it to the kernel. No allocation; any thread. */
#ifndef ZC_CONN_PARAM_H
#define ZC_CONN_PARAM_H

#include <rdma/rdma_cma.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of private data that RDMA_PS_TCP carries on InfiniBand and RoCE: of the 92 of a request rdma_cm uses 36 for addresses. */
enum { ZC_REQUEST_PRIVATE_MAX = 56, ZC_ACCEPT_PRIVATE_MAX = 196, ZC_REJECT_PRIVATE_MAX = 148 };

enum {
    ZC_CONN_RETRIES = 6,        /* 7 is for ever on rxe, and for RNR by specification */
    ZC_CONN_RNR_RETRIES = 6,
};

/* Fill every field. reads_out: RDMA READs and atomics that this side will have in flight (initiator_depth), reads_in: that it answers
 * (responder_resources), each 1 to what ibv_query_device(3) allows: with 0 no READ ever completes. private_data may be NULL with
 * length 0. -EMSGSIZE, *param untouched: more bytes than the limit above. */
int zc_conn_param_request(struct rdma_conn_param *param, uint8_t reads_out, uint8_t reads_in, const void *private_data,
                          size_t length_bytes);
int zc_conn_param_accept(struct rdma_conn_param *param, uint8_t reads_out, uint8_t reads_in, const void *private_data,
                         size_t length_bytes);

#ifdef __cplusplus
}
#endif

#endif
