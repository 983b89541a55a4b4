/* See draw.h. */
#include "draw.h"

#include <langinfo.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Eighths of a column: lower blocks for a series, left blocks for a bar. */
static const char *const lower_blocks[] = { " ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
static const char *const left_blocks[] = { "", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█" };
static const char *const ascii_levels[] = { " ", "_", ".", ":", "-", "=", "+", "*", "#" };
enum { LEVELS = 8 };

bool draw_unicode(void)
{
    const char *terminal = getenv("TERM");

    return strcmp(nl_langinfo(CODESET), "UTF-8") == 0 && (terminal == NULL || strcmp(terminal, "dumb") != 0);
}

/* The mean of a group; the last one may be shorter. */
static double mean(const double *values, size_t from, size_t length, size_t count)
{
    double sum = 0;
    size_t end = from + length < count ? from + length : count;

    for (size_t i = from; i < end; i++)
        sum += values[i];
    return sum / (double)(end - from);
}

size_t draw_series(FILE *out, const double *values, size_t count, size_t columns, bool unicode)
{
    const char *const *levels = unicode ? lower_blocks : ascii_levels;
    size_t group = count > 0 ? (count + columns - 1) / columns : 0;
    double largest = 0;

    for (size_t i = 0; i < count; i += group)
        largest = fmax(largest, mean(values, i, group, count));
    if (!(largest > 0))
        return 0;
    for (size_t i = 0; i < count; i += group) {
        double value = mean(values, i, group, count);
        int level = (int)lround(value / largest * LEVELS);
        fputs(levels[level == 0 && value > 0 ? 1 : level], out);     /* blank is nothing at all */
    }
    return group;
}

void draw_bar(FILE *out, double share, size_t columns, bool unicode)
{
    size_t eighths = (size_t)lround(fmin(fmax(share, 0), 1) * (double)columns * LEVELS);
    size_t full = eighths / LEVELS, rest = unicode ? eighths % LEVELS : 0;

    if (!unicode)
        full = (eighths + LEVELS / 2) / LEVELS;
    for (size_t i = 0; i < full; i++)
        fputs(unicode ? left_blocks[LEVELS] : "#", out);
    fputs(left_blocks[rest], out);
    for (size_t i = full + (rest > 0); i < columns; i++)
        fputc(' ', out);
}
