/* The probe's table, the line through its registrations and the model made of both: see probe.h. */
#include "probe.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *const zc_probe_what_names[] = {
    [ZC_PROBE_REGISTER] = "register",     [ZC_PROBE_DEREGISTER] = "deregister", [ZC_PROBE_COPY] = "copy",
    [ZC_PROBE_READ] = "read",             [ZC_PROBE_QP_CREATE] = "qp_create",   [ZC_PROBE_QP_DESTROY] = "qp_destroy",
    [ZC_PROBE_CONNECT] = "connect",       [ZC_PROBE_DISCONNECT] = "disconnect", NULL,
};

static const struct zc_estimate unmeasured = { .median = NAN, .low = NAN, .high = NAN };

void zc_probe_init(struct zc_probe *probe)
{
    memset(probe, 0, sizeof(*probe));
    probe->owner_uid = ZC_UNMEASURED;
    probe->state = ZC_RUN_FAILED;
    zc_environment_init(&probe->environment);
    probe->fit.base_s = probe->fit.per_page_s = probe->fit.worst_residual = NAN;
}

struct zc_probe_row *zc_probe_add(struct zc_probe *probe, const struct zc_probe_case *is)
{
    if (probe->row_count == ZC_PROBE_ROWS_MAX)
        return NULL;
    struct zc_probe_row *const row = &probe->rows[probe->row_count++];
    *row = (struct zc_probe_row){ .is = *is, .time_s = unmeasured, .min_s = NAN, .max_s = NAN };
    return row;
}

void zc_probe_set(struct zc_probe_row *row, double *trials_s, size_t count)
{
    zc_estimate_make(trials_s, count, &row->time_s);
    row->min_s = row->time_s.trials > 0 ? trials_s[0] : NAN;
    row->max_s = row->time_s.trials > 0 ? trials_s[row->time_s.trials - 1] : NAN;
    row->why[0] = '\0';
}

static bool same(const struct zc_probe_case *a, const struct zc_probe_case *b)
{
    return a->what == b->what && a->size_bytes == b->size_bytes && a->pages == b->pages && a->cold == b->cold &&
           a->threads == b->threads && a->inflight == b->inflight && a->event == b->event;
}

const struct zc_probe_row *zc_probe_find(const struct zc_probe *probe, const struct zc_probe_case *is)
{
    for (uint32_t i = 0; i < probe->row_count; i++)
        if (same(&probe->rows[i].is, is))
            return &probe->rows[i];
    return NULL;
}

/* ---- registering ---- */

/* Register and deregister of a row of the first together; NAN if it is none of those that the fit takes. */
static double registration_of(const struct zc_probe *probe, const struct zc_probe_row *row)
{
    struct zc_probe_case is = row->is;
    if (is.what != ZC_PROBE_REGISTER || is.pages != ZC_PAGES_DEFAULT || is.cold || is.threads != 1)
        return NAN;
    is.what = ZC_PROBE_DEREGISTER;
    const struct zc_probe_row *const back = zc_probe_find(probe, &is);
    return back ? row->time_s.median + back->time_s.median : NAN;
}

static double pages_of(uint64_t size_bytes, uint64_t page_bytes)
{
    return (double)((size_bytes + page_bytes - 1) / page_bytes);
}

static double off_by(const struct zc_probe_fit *fit, double pages, double measured)
{
    return fabs((fit->base_s + fit->per_page_s * pages) / measured - 1);
}

/* Weighted least squares of (base + per_page * pages) / measured - 1, with neither below 0: a negative base would make small ones free. */
static void solve(struct zc_probe_fit *fit, const double *pages, const double *measured, const double *weights, size_t count)
{
    double s = 0, sx = 0, sxx = 0, t = 0, tx = 0;
    for (size_t i = 0; i < count; i++) {
        const double u = 1 / measured[i], v = pages[i] / measured[i];
        s += weights[i] * u * u;
        sx += weights[i] * u * v;
        sxx += weights[i] * v * v;
        t += weights[i] * u;
        tx += weights[i] * v;
    }
    const double determinant = s * sxx - sx * sx;
    fit->base_s = (t * sxx - tx * sx) / determinant;
    fit->per_page_s = (s * tx - sx * t) / determinant;
    if (fit->base_s < 0) {
        fit->base_s = 0;
        fit->per_page_s = tx / sxx;
    } else if (fit->per_page_s < 0) {
        fit->base_s = t / s;
        fit->per_page_s = 0;
    }
}

/* The sum of the relative residuals is least, not that of their squares: a size that a noisy moment has spoiled does not bend the line.
 * By weighting again and again with what each was off. */
static void draw_line(struct zc_probe_fit *fit, const double *pages, const double *measured, size_t count)
{
    enum { ROUNDS = 50 };
    const double least = 1e-4;      /* off by less is not off */
    double weights[ZC_PROBE_ROWS_MAX];
    for (size_t i = 0; i < count; i++)
        weights[i] = 1;
    for (int round = 0; round < ROUNDS; round++) {
        solve(fit, pages, measured, weights, count);
        for (size_t i = 0; i < count; i++)
            weights[i] = 1 / fmax(off_by(fit, pages[i], measured[i]), least);
    }
    fit->worst_residual = 0;
    for (size_t i = 0; i < count; i++)
        fit->worst_residual = fmax(fit->worst_residual, off_by(fit, pages[i], measured[i]));
}

void zc_probe_fit_make(struct zc_probe *probe)
{
    struct zc_probe_fit *const fit = &probe->fit;
    double pages[ZC_PROBE_ROWS_MAX], measured[ZC_PROBE_ROWS_MAX];
    size_t count = 0;
    *fit = (struct zc_probe_fit){ .base_s = NAN, .per_page_s = NAN, .worst_residual = NAN,
                                  .page_bytes = probe->environment.page_size_bytes };
    if (fit->page_bytes == 0 || fit->page_bytes == ZC_UNMEASURED)
        return;
    for (uint32_t i = 0; i < probe->row_count; i++) {
        const double time_s = registration_of(probe, &probe->rows[i]);
        const uint64_t size_bytes = probe->rows[i].is.size_bytes;
        if (!(time_s > 0))
            continue;
        pages[count] = pages_of(size_bytes, fit->page_bytes);
        measured[count++] = time_s;
        fit->low_bytes = fit->low_bytes == 0 || size_bytes < fit->low_bytes ? size_bytes : fit->low_bytes;
        fit->high_bytes = size_bytes > fit->high_bytes ? size_bytes : fit->high_bytes;
    }
    fit->sizes = (uint32_t)count;
    if (count >= 2)
        draw_line(fit, pages, measured, count);
}

double zc_probe_registration_s(const struct zc_probe *probe, uint64_t size_bytes)
{
    const struct zc_probe_fit *const fit = &probe->fit;
    return fit->page_bytes ? fit->base_s + fit->per_page_s * pages_of(size_bytes, fit->page_bytes) : NAN;
}

/* ---- what is drawn between sizes ---- */

struct point {
    double bytes, time_s;
};

/* Through the two measured rows around `bytes`, or the two nearest to it. `like`: any size. */
static double between(const struct zc_probe *probe, const struct zc_probe_case *like, double bytes)
{
    struct point left = { NAN, NAN }, right = { NAN, NAN };
    for (uint32_t i = 0; i < probe->row_count; i++) {
        const struct zc_probe_row *const row = &probe->rows[i];
        struct zc_probe_case is = row->is;
        const struct point point = { (double)is.size_bytes, row->time_s.median };
        is.size_bytes = like->size_bytes;
        if (!same(&is, like) || isnan(point.time_s))
            continue;
        if (isnan(left.bytes)) {        /* rows ascend by size */
            left = point;
        } else if (isnan(right.bytes)) {
            right = point;
        } else if (bytes > right.bytes) {
            left = right;
            right = point;
        }
    }
    if (isnan(left.bytes) || bytes == left.bytes)
        return left.time_s;
    if (isnan(right.bytes))
        return NAN;
    return left.time_s + (right.time_s - left.time_s) * (bytes - left.bytes) / (right.bytes - left.bytes);
}

double zc_probe_copy_s(const struct zc_probe *probe, uint64_t size_bytes)
{
    const struct zc_probe_case like = { .what = ZC_PROBE_COPY, .threads = 1 };
    return between(probe, &like, (double)size_bytes);
}

static uint32_t stream_depth(const struct zc_probe *probe)
{
    uint32_t depth = 1;
    for (uint32_t i = 0; i < probe->row_count; i++)
        if (probe->rows[i].is.what == ZC_PROBE_READ && probe->rows[i].is.inflight > depth)
            depth = probe->rows[i].is.inflight;
    return depth;
}

double zc_probe_read_s(const struct zc_probe *probe, uint64_t size_bytes, bool stream)
{
    const struct zc_probe_case like = { .what = ZC_PROBE_READ, .threads = 1, .inflight = stream ? stream_depth(probe) : 1 };
    return between(probe, &like, (double)size_bytes);
}

/* By bisection over whole pages, once the ends differ. */
double zc_probe_crossover_bytes(const struct zc_probe *probe)
{
    const struct zc_probe_fit *const fit = &probe->fit;
    uint64_t low = fit->low_bytes, high = fit->high_bytes;
    if (isnan(zc_probe_registration_s(probe, high)) || isnan(zc_probe_copy_s(probe, high)))
        return NAN;
    if (zc_probe_registration_s(probe, low) <= zc_probe_copy_s(probe, low))
        return (double)low;
    if (zc_probe_registration_s(probe, high) > zc_probe_copy_s(probe, high))
        return NAN;
    while (high - low > fit->page_bytes) {
        const uint64_t middle = (low + (high - low) / 2) / fit->page_bytes * fit->page_bytes;
        if (middle <= low)
            break;
        if (zc_probe_registration_s(probe, middle) <= zc_probe_copy_s(probe, middle))
            high = middle;
        else
            low = middle;
    }
    return (double)high;
}
