/* Small pictures made of characters: a series in one line, a share as a bar. Block characters where the locale has UTF-8 and the
 * terminal is not a dumb one, ASCII everywhere else. */
#ifndef CTL_DRAW_H
#define CTL_DRAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* May this process print block characters? From the locale (setlocale(3) is the caller's) and $TERM. */
bool draw_unicode(void);

/* `count` values of 0 and more as one character each, from 0 to the largest; more than `columns` are averaged in groups of equal
 * length. Returns how many values one character stands for, 0 if there is nothing to draw. */
size_t draw_series(FILE *out, const double *values, size_t count, size_t columns, bool unicode);

/* `share` (0 to 1) of `columns` columns, filled up with blanks. */
void draw_bar(FILE *out, double share, size_t columns, bool unicode);

#endif
