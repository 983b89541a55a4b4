/* The live line of a run on a terminal: one line on stderr, redrawn. Nothing at all where stderr is not a terminal. */
#ifndef CTL_PROGRESS_H
#define CTL_PROGRESS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

struct progress {
    FILE *out;
    const char *label;  /* before the line; "" if none */
    bool live;      /* draw at all */
    bool drawn;     /* a line stands there now */
    bool cancelling;
};

void progress_init(struct progress *progress, FILE *out, const char *label);    /* label NULL: none; borrowed */
void progress_update(struct progress *progress, const json_t *params);  /* of a run.progress notification */
void progress_cancelling(struct progress *progress);    /* from now on the line says so */
void progress_clear(struct progress *progress);         /* before anything else is printed */

/* The line itself, at most `width` - 1 columns; `size` bytes at `line`. For tests. */
void progress_line(const json_t *params, bool cancelling, int width, char *line, size_t size);

#endif
