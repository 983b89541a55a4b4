/* Rows of the tables of a report's page (report_tables.c), for report_html.c. */
#ifndef CTL_REPORT_PAGE_H
#define CTL_REPORT_PAGE_H

#include "report.h"

/* With &, <, > and quotes escaped. */
void html_text(FILE *out, const char *text);

/* Text alternatives of the plots. */
void html_phases(FILE *out, const struct report *report);
void html_percentiles(FILE *out, const struct report *report);
void html_time(FILE *out, const struct report *report);

/* A column a document: options and what they came to; host and device. */
void html_terms(FILE *out, const struct report *report);
void html_environment(FILE *out, const struct report *report);
/* A row a cell with everything. */
void html_cells(FILE *out, const struct report *report);

#endif
