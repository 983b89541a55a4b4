/* See conn_param.h. */
#include "conn_param.h"

#include <errno.h>

static int fill(struct rdma_conn_param *param, uint8_t reads_out, uint8_t reads_in, const void *private_data, size_t length_bytes,
                size_t limit_bytes)
{
    if (length_bytes > limit_bytes)
        return -EMSGSIZE;
    *param = (struct rdma_conn_param){
        .private_data = private_data, .private_data_len = (uint8_t)length_bytes, .initiator_depth = reads_out,
        .responder_resources = reads_in, .retry_count = ZC_CONN_RETRIES, .rnr_retry_count = ZC_CONN_RNR_RETRIES,
    };
    return 0;
}

int zc_conn_param_request(struct rdma_conn_param *param, uint8_t reads_out, uint8_t reads_in, const void *private_data,
                          size_t length_bytes)
{
    return fill(param, reads_out, reads_in, private_data, length_bytes, ZC_REQUEST_PRIVATE_MAX);
}

int zc_conn_param_accept(struct rdma_conn_param *param, uint8_t reads_out, uint8_t reads_in, const void *private_data,
                         size_t length_bytes)
{
    return fill(param, reads_out, reads_in, private_data, length_bytes, ZC_ACCEPT_PRIVATE_MAX);
}
