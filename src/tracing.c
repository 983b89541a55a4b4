/* What the blocks of the pipeline record in a trace, and how long its stages take. Only while one of both is on: the clock is read here
 * once or twice a stage. */
#include "pipeline_private.h"

void zc_lap_ends(struct zc_laps *laps, enum zc_stage stage)
{
    const uint64_t now = zc_now_ns();
    laps->stage_ns[stage] += now - laps->last_ns;
    laps->last_ns = now;
}

void zc_trace_request(struct zc_pipeline *pipeline, enum zc_trace_stage stage, const struct zc_request *request)
{
    const uint64_t now_ns = zc_now_ns();
    zc_trace_add(pipeline->params.trace, pipeline->params.caller, stage, now_ns, now_ns, request->number, 0,
                 request->all_bytes);
}

void zc_trace_chunk(struct zc_pipeline *pipeline, enum zc_trace_stage stage, const struct zc_chunk *chunk, uint64_t begin_ns,
                    uint64_t end_ns)
{
    zc_trace_add(pipeline->params.trace, pipeline->params.caller, stage, begin_ns, end_ns ? end_ns : begin_ns,
                 chunk->request->number, chunk->number, chunk->length_bytes);
}

int zc_traced_post(struct zc_pipeline *pipeline, const struct zc_sender *sender, struct ibv_send_wr *list)
{
    const uint64_t begin_ns = zc_now_ns();
    const int rc = zc_sender_post(sender, list, NULL, NULL);
    const uint64_t end_ns = zc_now_ns();
    for (const struct ibv_send_wr *wr = list; rc == 0 && wr; wr = wr->next)
        if (zc_wr_number(wr->wr_id) == 0)
            zc_trace_chunk(pipeline, ZC_TRACE_POSTED, &pipeline->chunks[zc_wr_chunk(wr->wr_id)], begin_ns, end_ns);
    return rc;
}

int zc_timed_before(struct zc_pipeline *pipeline, struct zc_chunk *chunk)
{
    zc_lap_ends(&pipeline->laps, ZC_STAGE_POST);
    const int rc = zc_pipeline_before(pipeline, chunk);
    zc_lap_ends(&pipeline->laps, ZC_STAGE_BEFORE);
    return rc;
}

int zc_timed_after(struct zc_pipeline *pipeline, struct zc_chunk *chunk)
{
    zc_lap_ends(&pipeline->laps, ZC_STAGE_POST);
    const int rc = zc_pipeline_after(pipeline, chunk);
    zc_lap_ends(&pipeline->laps, ZC_STAGE_AFTER);
    return rc;
}

/* Staging does nothing before, and preregistered memory nothing at all: there is no such stage. */
int zc_traced_before(struct zc_pipeline *pipeline, struct zc_chunk *chunk)
{
    const struct zc_memory_ops *const memory = pipeline->ops;
    const uint64_t begin_ns = zc_now_ns();
    const int rc = memory->before(pipeline, chunk);
    if (rc == 0 && memory->registers && !chunk->request->copies)
        zc_trace_chunk(pipeline, ZC_TRACE_REGISTERED, chunk, begin_ns, zc_now_ns());
    return rc;
}

int zc_traced_after(struct zc_pipeline *pipeline, struct zc_chunk *chunk)
{
    const struct zc_memory_ops *const memory = pipeline->ops;
    const uint64_t begin_ns = zc_now_ns();
    const int rc = memory->after(pipeline, chunk);
    const bool copies = chunk->request->copies;
    if (rc == 0 && (copies || memory->deregisters))
        zc_trace_chunk(pipeline, copies ? ZC_TRACE_COPIED : ZC_TRACE_DEREGISTERED, chunk, begin_ns, zc_now_ns());
    return rc;
}
