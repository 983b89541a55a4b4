/* One form for both families, and selective signaling on top of it: see post.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "post_private.h"

/* librxe's extended setters count the length of a list wrongly (in rdma-core 44: of inline pieces as 0, of SGEs as if each were as
 * long as the first), and the message goes out with that length. Its devices are those with a `parent` in sysfs. */
static bool lists_work(const struct ibv_qp *qp)
{
    char path[IBV_SYSFS_PATH_MAX + sizeof "/parent"];
    snprintf(path, sizeof path, "%s/parent", qp->context->device->ibdev_path);
    return access(path, F_OK) != 0;
}

int zc_sender_init(struct zc_sender *sender, struct ibv_qp *qp, enum zc_family family, uint64_t ops)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    /* Other kinds of QP want an address with each WR, for which this family has setters of its own. */
    const bool connected = qp->qp_type == IBV_QPT_RC || qp->qp_type == IBV_QPT_UC;
    struct ibv_qp_ex *ex = family != ZC_FAMILY_BASIC && connected ? ibv_qp_to_qp_ex(qp) : NULL;
    if (ex && !zc_post_extended_offers(ex, ops))
        ex = NULL;
    if (!ex && family == ZC_FAMILY_EXTENDED)
        return -EOPNOTSUPP;
    const int rc = zc_post_error(ibv_query_qp(qp, &attr, IBV_QP_CAP, &init));
    if (rc)
        return rc;
    *sender = (struct zc_sender){
        .qp = qp, .ex = ex, .max_inline_bytes = init.cap.max_inline_data, .max_sge = init.cap.max_send_sge,
    };
    if (ex && sender->max_sge > 1 && !lists_work(qp)) {
        if (family == ZC_FAMILY_AUTO)
            sender->ex = NULL;
        else
            sender->max_sge = 1;
    }
    return 0;
}

enum zc_family zc_sender_family(const struct zc_sender *sender)
{
    return sender->ex ? ZC_FAMILY_EXTENDED : ZC_FAMILY_BASIC;
}

int zc_sender_refused(int rc, struct ibv_send_wr *list, struct ibv_send_wr *bad, size_t *accepted, struct ibv_send_wr **bad_wr)
{
    if (accepted)
        *accepted = list ? zc_wr_count(list, bad) : 0;
    if (bad_wr)
        *bad_wr = bad;
    return list ? zc_post_error(rc) : rc;
}

const char *zc_sender_error_text(const struct zc_sender *sender, int error, const struct ibv_send_wr *bad_wr, char *text,
                                 size_t size)
{
    const uint64_t id = bad_wr ? bad_wr->wr_id : 0;
    if (error == -EMSGSIZE && bad_wr)
        snprintf(text, size, "WR %" PRIu64 " has %" PRIu64 " inline bytes; the queue pair takes %" PRIu32, id, zc_wr_length(bad_wr),
                 sender->max_inline_bytes);
    else if (error == -EINVAL && bad_wr && (uint32_t)bad_wr->num_sge > sender->max_sge)
        snprintf(text, size, "WR %" PRIu64 " has %d SGEs; the queue pair takes %" PRIu32, id, bad_wr->num_sge, sender->max_sge);
    else if (error == -EOPNOTSUPP)
        snprintf(text, size, "WR %" PRIu64 " is an operation that the queue pair was not created for", id);
    else if (error == -ENOMEM)
        snprintf(text, size, "the send queue has no room for WR %" PRIu64, id);
    else
        snprintf(text, size, "WR %" PRIu64 " was refused: %s", id, strerror(-error));
    return text;
}

/* --- selective signaling ------------------------------------------------------------------------------------------- */

void zc_signaling_init(struct zc_signaling *signaling, struct zc_wr_slot *slots, uint32_t capacity, uint32_t interval)
{
    *signaling = (struct zc_signaling){
        .slots = slots, .capacity = capacity, .interval = interval < 1 ? 1 : interval > capacity ? capacity : interval,
    };
}

static inline struct zc_wr_slot *slot_at(const struct zc_signaling *signaling, uint32_t index)
{
    const uint64_t at = (uint64_t)signaling->first + index;
    return &signaling->slots[at < signaling->capacity ? at : at - signaling->capacity];
}

/* Give slots to the entries of the list while there are any. The last that got one, or NULL. */
static struct ibv_send_wr *take(struct zc_signaling *signaling, struct ibv_send_wr *list)
{
    struct ibv_send_wr *last = NULL;
    for (; list && signaling->used < signaling->capacity; list = list->next) {
        if (signaling->run + 1 >= signaling->interval)
            list->send_flags |= IBV_SEND_SIGNALED;
        const bool signaled = list->send_flags & IBV_SEND_SIGNALED;
        *slot_at(signaling, signaling->used++) = (struct zc_wr_slot){.wr_id = list->wr_id, .signaled = signaled};
        signaling->run = signaled ? 0 : signaling->run + 1;
        last = list;
    }
    return last;
}

/* Only the first `used` of those that took a slot were accepted. */
static void keep(struct zc_signaling *signaling, uint32_t used)
{
    signaling->used = used;
    signaling->run = 0;
    while (signaling->run < used && !slot_at(signaling, used - 1 - signaling->run)->signaled)
        signaling->run++;
}

int zc_signaling_post(struct zc_signaling *signaling, const struct zc_sender *sender, struct ibv_send_wr *list, size_t *accepted,
                      struct ibv_send_wr **bad_wr)
{
    const uint32_t before = signaling->used;
    struct ibv_send_wr *const last = take(signaling, list), *bad = NULL;
    struct ibv_send_wr *const rest = last ? last->next : list;
    size_t count = 0;
    int rc = 0;
    if (last) {
        last->next = NULL;
        rc = zc_sender_post(sender, list, &count, &bad);
        last->next = rest;
        if (rc)
            keep(signaling, before + (uint32_t)count);
    }
    if (rc == 0 && rest) {
        rc = -ENOMEM;
        bad = rest;
    }
    if (accepted)
        *accepted = count;
    if (bad_wr)
        *bad_wr = bad;
    return rc;
}

uint32_t zc_signaling_done(struct zc_signaling *signaling, const struct ibv_wc *wc)
{
    for (uint32_t i = 0; i < signaling->used; i++) {
        const struct zc_wr_slot *const slot = slot_at(signaling, i);
        if (wc->status == IBV_WC_SUCCESS ? !slot->signaled : slot->wr_id != wc->wr_id)
            continue;
        const uint64_t first = (uint64_t)signaling->first + i + 1;
        signaling->first = (uint32_t)(first < signaling->capacity ? first : first - signaling->capacity);
        signaling->used -= i + 1;
        if (signaling->run > signaling->used)
            signaling->run = signaling->used;
        return i + 1;
    }
    return 0;
}
