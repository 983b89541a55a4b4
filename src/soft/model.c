/* A model of a NIC: requests take the time that a wire of a given rate and latency would take, registrations the time of
 * a command. A request is held back before it starts, so that everything behind it - the data, the receiver's completion,
 * the requester's - comes as late as it would; moving the bytes then costs on top what this machine needs for it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "model.h"

#define SPIN_NS 60000u /* the kernel wakes a sleeper up to so much late */

struct zs_model zs_model;
static bool understood;
static char description[512];

static bool number(const char *name, uint64_t *to)
{
    const char *s = getenv(name);
    char *end;
    if (!s || !*s)
        return true;
    errno = 0;
    *to = strtoull(s, &end, 10);
    if (*s < '0' || *s > '9' || *end || errno || *to > INT64_MAX / 1000) {
        fprintf(stderr, "zcsoft: %s=%s: not a number\n", name, s);
        return false;
    }
    return true;
}

static void describe(const char *name, uint64_t value, const char *script)
{
    size_t n = strlen(description);
    if (!value && !script)
        return;
    if (script)
        snprintf(description + n, sizeof description - n, "%s%s=%s", n ? " " : "", name, script);
    else
        snprintf(description + n, sizeof description - n, "%s%s=%llu", n ? " " : "", name, (unsigned long long)value);
}

static void read_environment(void)
{
    struct zs_model *m = &zs_model;
    const char *script = getenv("ZCSOFT_FAULTS");
    understood = number("ZCSOFT_RATE", &m->rate) && number("ZCSOFT_LATENCY", &m->latency_ns) &&
                 number("ZCSOFT_REG_LATENCY", &m->reg_ns);
    if (script && !*script)
        script = NULL;
    if (understood && script && !zs_faults_parse(script)) {
        fprintf(stderr, "zcsoft: ZCSOFT_FAULTS=%s: not understood; rules are KIND:COUNT[+]=WHAT, separated by commas\n", script);
        understood = false;
    }
    m->on = m->rate || m->latency_ns;
    describe("rate", m->rate, NULL);
    describe("latency", m->latency_ns, NULL);
    describe("reg_latency", m->reg_ns, NULL);
    describe("faults", 0, script);
}

bool zs_model_ready(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_environment);
    return understood;
}

ZS_EXPORT const char *zcsoft_model(void)
{
    zs_model_ready();
    return *description ? description : NULL;
}

/* --- requests ------------------------------------------------------------------------------------------------------- */

/* From its posting on, or when the wire is free, or - READs and atomics - when as many as may be outstanding leave room. */
static uint64_t due(struct zs_qp *qp, const struct zs_wqe *w)
{
    struct zs_model *m = &zs_model;
    uint64_t start = w->model_ns > m->wire_free_ns ? w->model_ns : m->wire_free_ns, at;
    uint64_t *last = NULL;
    if (zs_wqe_is_read(w) && qp->attr.max_rd_atomic && qp->attr.max_rd_atomic <= ZS_MAX_RD_ATOMIC)
        last = &qp->model_reads[qp->model_read++ % qp->attr.max_rd_atomic];
    if (last && *last > start)
        start = *last;
    if (m->rate)
        m->wire_free_ns = start + (uint64_t)((double)w->length * 8e9 / (double)m->rate);
    at = (m->rate ? m->wire_free_ns : start) + m->latency_ns;
    if (last)
        *last = at;
    return at;
}

static void look_again(struct zs_timer *t)
{
    zs_ready(zs_container(t, struct zs_qp, model_timer));
}

bool zs_model_holds(struct zs_qp *qp, struct zs_wqe *w)
{
    if (!w->model_due) {
        w->model_ns = due(qp, w);
        w->model_due = true;
    }
    if (zs_now_ns() >= w->model_ns)
        return false;
    zs_timer_set(&qp->model_timer, w->model_ns, look_again);
    return true;
}

/* --- registration --------------------------------------------------------------------------------------------------- */

void zs_model_register(void)
{
    uint64_t until = zs_now_ns() + zs_model.reg_ns;
    if (!zs_model.reg_ns)
        return;
    if (zs_model.reg_ns > SPIN_NS) {
        uint64_t at = until - SPIN_NS;
        struct timespec t = {.tv_sec = (time_t)(at / 1000000000u), .tv_nsec = (long)(at % 1000000000u)};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
    }
    while (zs_now_ns() < until)
        __builtin_ia32_pause();
}
