/* What both sides of rdma_cm share: connection parameters as DESIGN section 4 demands them, events copied and acknowledged, and
 * creation and destruction of ids and QPs with counting. Private to src/. */
#ifndef ZC_CM_H
#define ZC_CM_H

#include <rdma/rdma_cma.h>
#include <stddef.h>
#include <stdint.h>

#include "conn_param.h"
#include "device.h"
#include "error.h"
#include "post.h"

enum {
    ZC_CM_ACK_TIMEOUT = 14,     /* 4.096 us * 2^14 = 67 ms; rdma_cm's own choice of 19 notices a dead peer after 16 s */
    ZC_CM_MIN_RNR_TIMER = 20,   /* 10 ms, six times: a loop may be busy for so long; rdma_cm leaves 0, which means 655 ms */
    ZC_CM_PRIVATE_MAX = 64,     /* bytes of private data that an event keeps */
    ZC_CM_NAME_MAX = 64,        /* ADDRESS:PORT */
};

/* An rdma_cm event after its acknowledgement: rdma_destroy_id(3) waits for unacknowledged events, so none is ever kept. */
struct zc_cm_event {
    enum rdma_cm_event_type type;
    struct rdma_cm_id *id;
    int status;
    uint8_t responder_resources, initiator_depth;   /* seen from here: READs to answer, READs to have in flight */
    uint8_t private_length;                         /* bytes valid in private_data */
    uint8_t private_data[ZC_CM_PRIVATE_MAX];
};

/* A channel whose rdma_get_cm_event(3) does not block. */
int zc_cm_channel_create(struct rdma_event_channel **channel, struct zc_error *err);
/* 1: *event is filled; 0: none is pending; negative errno. Never blocks. */
int zc_cm_event_next(struct rdma_event_channel *channel, struct zc_cm_event *event);

int zc_cm_id_create(struct rdma_event_channel *channel, void *context, struct rdma_cm_id **id, struct zc_error *err);
/* A passive id came with its event: count it and set the ACK timeout. */
void zc_cm_id_adopt(struct rdma_cm_id *id);
/* Its QP, if any, goes first. NULL is allowed. */
void zc_cm_id_destroy(struct rdma_cm_id *id);

int zc_cm_qp_create(const struct zc_device *device, struct rdma_cm_id *id, struct ibv_qp_init_attr *attr, struct zc_error *err);
/* The same for a family of verbs, `ops` being what will be posted (IBV_QP_EX_WITH_*); *sender describes its send queue.
 * ZC_FAMILY_EXTENDED where the device does not offer them so: ZC_ERR_DEVICE with field "post"; ZC_FAMILY_AUTO then makes a basic QP. */
int zc_cm_qp_create_family(const struct zc_device *device, struct rdma_cm_id *id, struct ibv_qp_init_attr *attr, enum zc_family family,
                           uint64_t ops, struct zc_sender *sender, struct zc_error *err);
/* min_rnr_timer of a QP in RTS, which rdma_cm has no parameter for. Best effort. */
void zc_cm_set_rnr_timer(struct ibv_qp *qp);

/* READs in flight that this device may have (initiator) or answer (responder) on a QP: 1..255. */
uint8_t zc_cm_initiator_depth(const struct zc_device *device);
uint8_t zc_cm_responder_depth(const struct zc_device *device);

/* "10.9.0.1:17471", "[fe80::1%eth0]:17471"; a v4-mapped address is shown as IPv4. Returns text. */
const char *zc_cm_address_text(const struct sockaddr *address, char text[ZC_CM_NAME_MAX]);
/* Numeric address alone and the port. */
void zc_cm_address_split(const struct sockaddr *address, char *host, size_t host_size, uint16_t *port);

#endif
