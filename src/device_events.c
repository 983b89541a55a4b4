/* Async events of the responder's device (ibv_get_async_event(3)), and its loss. Called by responder.c. */
#include "responder_private.h"

static void end_all(struct zc_responder *r, const char *why)
{
    for (uint32_t i = 0; i < r->params.max_sessions; i++)
        if (r->sessions[i])
            session_end(r, r->sessions[i], END_ERROR, why);
}

/* Each id on the device hears of it by itself; the first of them ends all. */
void responder_device_lost(struct zc_responder *r, bool removed, const char *why)
{
    end_all(r, why);
    if (r->lost)
        return;
    r->lost = true;
    if (r->params.device_lost)
        r->params.device_lost(r->params.device_arg, removed);
}

/* Of a QP that may belong to a requester of this process: its number must be read before the event is acknowledged, because
 * ibv_destroy_qp(3) waits for that. */
static void qp_event(struct zc_responder *r, enum ibv_event_type type, uint32_t qp_num)
{
    struct session_qp *qp = session_find_qp(r, qp_num);
    if (!qp)
        return;
    if (type == IBV_EVENT_COMM_EST)
        rdma_notify(qp->id, type);      /* a message overtook the CM's last word: the connection is established all the same */
    else if (type == IBV_EVENT_QP_FATAL || type == IBV_EVENT_QP_REQ_ERR || type == IBV_EVENT_QP_ACCESS_ERR ||
             type == IBV_EVENT_PATH_MIG_ERR)
        session_end(r, qp->session, END_ERROR, ibv_event_type_str(type));
}

static void port_event(struct zc_responder *r, bool active)
{
    responder_log(r, ZC_LOG_WARNING, "port %u of %s went %s", zc_device_info(r->params.device)->port,
                  zc_device_info(r->params.device)->name, active ? "up" : "down");
    r->stats.port_errors += !active;
    r->stats.port_activations += active;
    if (r->params.port_changed)
        r->params.port_changed(r->params.device_arg);
}

/* Of the device or its port; what `element` is only the event's own type tells. */
static void device_event(struct zc_responder *r, enum ibv_event_type type, int port)
{
    switch (type) {
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_PORT_ACTIVE:
        if (port == zc_device_info(r->params.device)->port)
            port_event(r, type == IBV_EVENT_PORT_ACTIVE);
        break;
    case IBV_EVENT_DEVICE_FATAL:
        responder_log(r, ZC_LOG_ERROR, "%s: %s", zc_device_info(r->params.device)->name, ibv_event_type_str(type));
        responder_device_lost(r, false, ibv_event_type_str(type));
        break;
    default:
        break;
    }
}

static bool async_event(struct zc_responder *r)
{
    struct ibv_async_event event;
    if (ibv_get_async_event(zc_device_context(r->params.device), &event) != 0)
        return false;
    enum ibv_event_type type = event.event_type;
    bool ours = false;
    uint32_t qp_num = 0;
    int port = 0;
    switch (type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_COMM_EST:
        qp_num = event.element.qp->qp_num;
        break;
    case IBV_EVENT_CQ_ERR:
        ours = event.element.cq == zc_completion_cq(r->completion);
        break;
    case IBV_EVENT_SRQ_ERR:
        ours = event.element.srq == r->srq;
        break;
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_PORT_ACTIVE:
        port = event.element.port_num;
        break;
    default:
        break;
    }
    ibv_ack_async_event(&event);

    if (qp_num)
        qp_event(r, type, qp_num);
    if (ours) {
        responder_log(r, ZC_LOG_ERROR, "%s on %s ends all sessions", ibv_event_type_str(type), zc_device_info(r->params.device)->name);
        end_all(r, ibv_event_type_str(type));
    }
    device_event(r, type, port);
    return true;
}

void device_events_process(struct zc_responder *r, int budget)
{
    while (budget > 0 && async_event(r))
        budget--;
}
