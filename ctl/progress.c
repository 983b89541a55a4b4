/* See progress.h. */
#include "progress.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "format.h"
#include "error.h"

enum { BAR = 24, DEFAULT_WIDTH = 80 };

void progress_init(struct progress *progress, FILE *out, const char *label)
{
    const char *terminal = getenv("TERM");

    *progress = (struct progress){ .out = out, .label = label != NULL ? label : "" };
    progress->live = isatty(fileno(out)) && terminal != NULL && strcmp(terminal, "dumb") != 0;
}

void progress_line(const json_t *params, bool cancelling, int width, char *line, size_t size)
{
    double elapsed = number_at(params, "elapsed_s"), total = number_at(params, "total_s"), rate = number_at(params, "gib_per_s");
    double position = number_at(params, "queue_position");
    char bar[BAR + 4] = "", phase[16], filled[BAR + 1] = "";
    int used;

    snprintf(phase, sizeof(phase), "%s", cancelling ? "cancelling" : text_at(params, "phase"));
    zc_text_clean(phase);
    if (total > 0 && elapsed >= 0) {
        memset(filled, '#', (size_t)(fmin(elapsed / total, 1) * BAR));
        snprintf(bar, sizeof(bar), "[%-*s] ", BAR, filled);
    }
    used = snprintf(line, size, "%-10s %s", phase, bar);
    if (position > 0)
        used += snprintf(line + used, size - (size_t)used, "%.0f before this one", position);
    else if (total > 0)
        used += snprintf(line + used, size - (size_t)used, "%.1f / %.1f s", elapsed, total);
    else if (elapsed >= 0)
        used += snprintf(line + used, size - (size_t)used, "%.1f s", elapsed);
    if (json_is_string(member_at(params, "detail")) && (size_t)used < size)
        used += snprintf(line + used, size - (size_t)used, "   %s", text_at(params, "detail"));
    if (!isnan(rate) && (size_t)used < size)
        snprintf(line + used, size - (size_t)used, "   %s GiB/s", format_number(rate).s);
    if (width > 0 && strlen(line) >= (size_t)width)
        line[width - 1] = '\0';     /* a full line would wrap, and \r would not get back */
}

void progress_update(struct progress *progress, const json_t *params)
{
    char line[160];
    struct winsize window;
    int width = DEFAULT_WIDTH;

    if (!progress->live)
        return;
    if (ioctl(fileno(progress->out), TIOCGWINSZ, &window) == 0 && window.ws_col > 0)
        width = window.ws_col;
    width -= (int)strlen(progress->label);
    progress_line(params, progress->cancelling, width > 1 ? width : 1, line, sizeof(line));
    fprintf(progress->out, "\r%s%s\033[K", progress->label, line);
    fflush(progress->out);
    progress->drawn = true;
}

void progress_cancelling(struct progress *progress)
{
    progress->cancelling = true;
    if (!progress->live)
        return;
    fprintf(progress->out, "\rcancelling (Ctrl-C again leaves at once)\033[K");
    fflush(progress->out);
    progress->drawn = true;
}

void progress_clear(struct progress *progress)
{
    if (!progress->drawn)
        return;
    fprintf(progress->out, "\r\033[K");
    fflush(progress->out);
    progress->drawn = false;
}
