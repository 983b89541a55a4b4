/* Scripts of the plots. Colour tells the family of a strategy, the line how it executes; ceilings have the colour of the text. */
#include <math.h>
#include <string.h>

#include "documents.h"
#include "gnuplot.h"
#include "report.h"

enum { TITLE_MAX = 400, TICS_MAX = 10 };

/* Told apart by people who see fewer colours, and readable on white and on black. */
static const char *const colours[] = { "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#9a6fd0", "#a0785a" };
enum { COLOURS = sizeof(colours) / sizeof(colours[0]) };

/* The family is what stands before the first '_'. Families in the order of their first appearance. */
static size_t family_of(const struct report *report, const char *title)
{
    size_t length = strcspn(title, "_,"), family = 0;

    for (size_t i = 0; i < report->series_count; i++) {
        const char *other = report->series[i].title;
        bool seen = false;
        if (strcspn(other, "_,") == length && strncmp(other, title, length) == 0)
            return family;
        for (size_t j = 0; j < i; j++)
            seen = seen || strncmp(report->series[j].title, other, strcspn(other, "_,") + 1) == 0;
        family += !seen;
    }
    return family;
}

static void print_style(FILE *script, const struct report *report, size_t index)
{
    const struct series *series = &report->series[index];
    const char *execution = strchr(series->title, '_');
    int dash = execution == NULL ? 1 : strncmp(execution, "_non_blocking", 13) == 0 ? 2 : strncmp(execution, "_async", 6) == 0 ? 3 : 1;
    static const int points[] = { 7, 5, 9, 13 };

    fprintf(script, "linecolor rgb '%s' dashtype %d linewidth 2 pointtype %d pointsize 0.6",
            series->ceiling ? GNUPLOT_INK : colours[family_of(report, series->title) % COLOURS], dash, points[dash - 1]);
}

/* Nanoseconds are shown as microseconds: plots have one unit. */
static double scale_of(enum metric metric)
{
    return metric == METRIC_P50 || metric == METRIC_P99 ? 1e-3 : 1;
}

static void print_value(FILE *script, double value)
{
    if (isnan(value))
        fputs(" NaN", script);
    else
        fprintf(script, " %.9g", value);
}

static void print_data(FILE *script, const struct report *report, enum metric metric)
{
    double scale = scale_of(metric);

    for (size_t i = 0; i < report->series_count; i++) {
        fprintf(script, "$series%zu << END\n", i);
        for (size_t j = 0; j < report->series[i].count; j++) {
            const struct cell *cell = report->series[i].cells[j];
            fprintf(script, "%.0f", cell->size_bytes);
            print_value(script, cell->estimates[metric].median * scale);
            print_value(script, cell->estimates[metric].low * scale);
            print_value(script, cell->estimates[metric].high * scale);
            fputc('\n', script);
        }
        fprintf(script, "END\n");
    }
}

/* From the smallest to the largest size, with a tic at powers of two. False: there is only one size. */
static bool print_sizes(FILE *script, const struct report *report)
{
    double low = INFINITY, high = 0;
    int first, last, step;

    for (size_t i = 0; i < report->series_count; i++) {
        low = fmin(low, report->series[i].cells[0]->size_bytes);
        high = fmax(high, report->series[i].cells[report->series[i].count - 1]->size_bytes);
    }
    if (!(high > low))
        return false;
    first = (int)ceil(log2(low) - 1e-9);
    last = (int)floor(log2(high) + 1e-9);
    step = (last - first) / TICS_MAX + 1;
    fprintf(script, "set logscale x 2\nset xrange [%.9g:%.9g]\nset xlabel 'request size' textcolor rgb '%s'\nset xtics (", low / 1.15,
            high * 1.15, GNUPLOT_INK);
    for (int exponent = first; exponent <= last; exponent += step)
        fprintf(script, "%s'%s' %.0f", exponent > first ? ", " : "", format_bytes(ldexp(1, exponent)).s, ldexp(1, exponent));
    fprintf(script, ")\n");
    return true;
}

static void print_axis(FILE *script, enum metric metric)
{
    bool latency = metric == METRIC_P50 || metric == METRIC_P99;

    fprintf(script, "set ylabel '%s, %s' textcolor rgb '%s'\n", metric_infos[metric].words, latency ? "us" : metric_infos[metric].unit,
            GNUPLOT_INK);
    fprintf(script, latency ? "set logscale y 10\n" : "set yrange [0:*]\n");
}

/* A line for each rate that a document's port has. */
static void print_line_rates(FILE *script, const struct report *report)
{
    double last = NAN;
    size_t index;
    json_t *document;

    json_array_foreach (report->documents, index, document) {
        double rate = number_at(document, "environment.device.rate_gbit_per_s");
        if (isnan(rate) || rate == last)
            continue;
        fprintf(script, ", \\\n %.9g with lines linecolor rgb '%s' dashtype 4 title 'line rate, %g Gbit/s'", rate * 1e9 / 8 / 0x1p30,
                GNUPLOT_INK, rate);
        last = rate;
    }
}

static void print_lines(FILE *script, const struct report *report)
{
    char title[TITLE_MAX];

    for (size_t i = 0; i < report->series_count; i++) {
        const struct series *series = &report->series[i];
        fprintf(script, "%s$series%zu using 1:3:4 with %s ", i > 0 ? ", \\\n " : "plot ", i,
                series->count > 1 ? "filledcurves fill transparent solid 0.2 noborder" : "yerrorbars");
        print_style(script, report, i);
        fprintf(script, " notitle, \\\n $series%zu using 1:2 with linespoints ", i);
        print_style(script, report, i);
        fprintf(script, " title %s", gnuplot_quote(series->title, title, sizeof(title)));
    }
}

/* Everything was measured at one size: a bar each, ceilings in the colour of the text. */
static void print_bars(FILE *script, const struct report *report, enum metric metric)
{
    double scale = scale_of(metric);
    char title[TITLE_MAX];

    fprintf(script, "$bars << END\n");
    for (size_t i = 0; i < report->series_count; i++) {
        const struct series *series = &report->series[i];
        const struct zc_estimate *e = &series->cells[0]->estimates[metric];
        fprintf(script, "%s", gnuplot_quote(series->title, title, sizeof(title)));
        print_value(script, e->median * scale);
        print_value(script, e->low * scale);
        print_value(script, e->high * scale);
        fprintf(script, " %zu\n", series->ceiling ? COLOURS : family_of(report, series->title) % COLOURS);
    }
    fprintf(script, "END\nunset logscale\nset yrange [0:*]\nset xrange [-0.6:%zu.6]\nset xtics rotate by -35\nunset key\n"
                    "set style fill solid 0.7 noborder\nplot ", report->series_count - 1);
    for (size_t c = 0; c <= COLOURS; c++)
        fprintf(script, "$bars using 0:(column(5) == %zu ? column(2) : NaN):(0.6):xtic(1) with boxes linecolor rgb '%s', \\\n ", c,
                c < COLOURS ? colours[c] : GNUPLOT_INK);
    fprintf(script, "$bars using 0:2:3:4 with yerrorbars pointsize 0 linecolor rgb '%s'", GNUPLOT_INK);
}

bool report_plot_metric(FILE *script, struct report *report, enum metric metric)
{
    if (report_series(report, metric) != 0 || report->series_count == 0)
        return false;
    print_data(script, report, metric);
    print_axis(script, metric);
    if (print_sizes(script, report))
        print_lines(script, report);
    else
        print_bars(script, report, metric);
    if (metric == METRIC_THROUGHPUT)
        print_line_rates(script, report);
    fputc('\n', script);
    return true;
}

/* ---- phases ---- */

/* Of each series the cell whose size is nearest to the middle of all sizes. */
static const struct cell *middle_cell(const struct report *report, const struct series *series)
{
    double low = INFINITY, high = 0, middle;
    const struct cell *nearest = NULL;

    for (size_t i = 0; i < report->cells.count; i++) {
        low = fmin(low, report->cells.list[i].size_bytes);
        high = fmax(high, report->cells.list[i].size_bytes);
    }
    middle = sqrt(low * high);
    for (size_t i = 0; i < series->count; i++)
        if (series->cells[i]->phases != NULL && (nearest == NULL || fabs(log(series->cells[i]->size_bytes / middle)) <
                                                                        fabs(log(nearest->size_bytes / middle))))
            nearest = series->cells[i];
    return nearest;
}

bool report_plot_phases(FILE *script, const struct report *report)
{
    char title[TITLE_MAX], words[TITLE_MAX / 2];
    size_t rows = 0;

    fprintf(script, "$phases << END\n");
    for (size_t i = 0; i < report->series_count; i++) {
        const struct cell *cell = middle_cell(report, &report->series[i]);
        if (cell == NULL || isnan(number_at(cell->phases, "wait_ns")))
            continue;
        snprintf(words, sizeof(words), "%.120s, %s", report->series[i].title, format_bytes(cell->size_bytes).s);
        fprintf(script, "%s", gnuplot_quote(words, title, sizeof(title)));
        for (size_t p = 0; p < REPORT_PHASES; p++)
            fprintf(script, " %.9g", fmax(number_at(cell->phases, report_phases[p][1]), 0) / 1e3);
        fputc('\n', script);
        rows++;
    }
    fprintf(script, "END\nset style data histograms\nset style histogram rowstacked\nset style fill solid 0.8 noborder\nset boxwidth 0.6\n"
                    "set xrange [-0.6:*]\nset yrange [0:*]\nset xtics rotate by -35\nset ylabel 'time of a request, us' textcolor rgb '%s'\n",
            GNUPLOT_INK);
    for (size_t p = 0; p < REPORT_PHASES; p++)
        fprintf(script, "%s$phases using %zu:xtic(1) linecolor rgb '%s' title '%s'", p > 0 ? ", \\\n " : "plot ", p + 2,
                colours[p % COLOURS], report_phases[p][0]);
    fputc('\n', script);
    return rows > 0;
}

/* ---- runs ---- */

static void run_title(const struct report *report, size_t index, char *title, size_t size)
{
    struct text letter = report_letter(report, index);
    char words[TITLE_MAX / 2] = "";

    for (size_t i = 0; i < report->cells.count; i++)
        if (report->cells.list[i].index == index)
            snprintf(words, sizeof(words), "%.8s%s%.120s, %.32s", letter.s, *letter.s != '\0' ? ": " : "", report->cells.list[i].label,
                     format_bytes(report->cells.list[i].size_bytes).s);
    gnuplot_quote(words, title, size);
}

static void print_run_lines(FILE *script, const struct report *report, const bool *shown, const char *using)
{
    char title[TITLE_MAX];
    size_t lines = 0;

    for (size_t i = 0; i < json_array_size(report->documents); i++) {
        if (!shown[i])
            continue;
        run_title(report, i, title, sizeof(title));
        fprintf(script, "%s$run%zu using %s linewidth 2 linecolor rgb '%s' dashtype %zu title %s", lines > 0 ? ", \\\n " : "plot ", i, using,
                colours[lines % COLOURS], lines / COLOURS + 1, title);
        lines++;
    }
    fputc('\n', script);
}

enum { RUNS_MAX = 64 };

bool report_plot_percentiles(FILE *script, const struct report *report)
{
    bool shown[RUNS_MAX] = { false }, any = false;

    for (size_t i = 0; i < json_array_size(report->documents) && i < RUNS_MAX; i++) {
        const json_t *latency = member_at(json_array_get(report->documents, i), "latency.available");
        if (isnan(number_at(latency, "min_ns")))
            continue;
        fprintf(script, "$run%zu << END\n", i);
        for (size_t p = 0; p < REPORT_PERCENTILES; p++) {
            fprintf(script, "%s", report_percentiles[p][0]);
            print_value(script, number_at(latency, report_percentiles[p][1]) / 1e3);
            fputc('\n', script);
        }
        fprintf(script, "END\n");
        shown[i] = any = true;
    }
    fprintf(script, "set logscale y 10\nset xrange [-0.3:%d.3]\nset ylabel 'until available, us' textcolor rgb '%s'\n", REPORT_PERCENTILES - 1,
            GNUPLOT_INK);
    print_run_lines(script, report, shown, "0:2:xtic(1) with linespoints pointtype 7 pointsize 0.6");
    return any;
}

bool report_plot_time(FILE *script, const struct report *report)
{
    bool shown[RUNS_MAX] = { false }, any = false;

    for (size_t i = 0; i < json_array_size(report->documents) && i < RUNS_MAX; i++) {
        const json_t *throughput = json_object_get(json_array_get(report->documents, i), "throughput"), *series;
        double interval = number_at(throughput, "series_interval_ns");
        size_t whole = (size_t)(fmax(number_at(throughput, "duration_ns") / interval, 0));
        series = json_object_get(throughput, "series");
        if (!(interval > 0) || whole < 2)
            continue;
        fprintf(script, "$run%zu << END\n", i);
        for (size_t t = 0; t < whole && t < json_array_size(series); t++)
            fprintf(script, "%.9g %.9g\n", (double)(t + 1) * interval / 1e9,
                    json_number_value(json_array_get(series, t)) / 0x1p30 / (interval / 1e9));
        fprintf(script, "END\n");
        shown[i] = any = true;
    }
    fprintf(script, "set yrange [0:*]\nset xrange [0:*]\nset ylabel 'throughput, GiB/s' textcolor rgb '%s'\n"
                    "set xlabel 'seconds of the window' textcolor rgb '%s'\n", GNUPLOT_INK, GNUPLOT_INK);
    print_run_lines(script, report, shown, "1:2 with lines");
    return any;
}
