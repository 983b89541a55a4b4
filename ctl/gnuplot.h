/* Plots by gnuplot(1), as SVG that can stand in an HTML page: its lines and letters have the colour of the text around it. */
#ifndef CTL_GNUPLOT_H
#define CTL_GNUPLOT_H

#include <stddef.h>

#include "error.h"

/* What plots use as colour of axes and letters; it becomes the page's. */
#define GNUPLOT_INK "#010203"

/* Run `script` (the commands behind `set terminal`) and return the svg element, malloc'ed. `number` tells the plots of one page apart.
 * NULL with an error that names the Debian package where gnuplot is missing, and gnuplot's own words where it failed. */
char *gnuplot_svg(const char *script, unsigned number, struct zc_error *err);

/* `text` between double quotes, as gnuplot reads it in commands and in data. What might command it (a quote, a backquote, ...) becomes
 * a question mark: documents may come from strangers. `size` bytes at `quoted`, cut if it is too long. Returns quoted. */
char *gnuplot_quote(const char *text, char *quoted, size_t size);

#endif
