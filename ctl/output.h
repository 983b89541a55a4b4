/* The two forms of what zcctl prints: output_text.c with output_result.c, and output_json.c. `json` values are what the daemon
 * answered; the text forms replace control characters in them. */
#ifndef CTL_OUTPUT_H
#define CTL_OUTPUT_H

#include <jansson.h>
#include <stdio.h>

struct output {
    void (*started)(FILE *out, json_t *answer);     /* run.start */
    void (*result)(FILE *out, json_t *document);    /* a result document */
    void (*comparison)(FILE *out, json_t *documents);   /* an array of result documents, one a strategy */
    void (*compare)(FILE *out, json_t *comparison);     /* of compare_documents() */
    void (*results)(FILE *out, json_t *answer);     /* result.list */
    void (*runs)(FILE *out, json_t *answer);        /* run.list */
    void (*stats)(FILE *out, json_t *answer);       /* stats */
    void (*sessions)(FILE *out, json_t *answer);    /* session.list */
    void (*devices)(FILE *out, json_t *answer);     /* device.list */
    void (*doctor)(FILE *out, json_t *answer);      /* doctor */
    void (*strategies)(FILE *out, json_t *table);   /* {"strategies": [{"name", "alias", "memory", ..., "options", "shows"}]} */
    void (*recommendation)(FILE *out, json_t *answer);  /* sweep.recommend */
    void (*version)(FILE *out, json_t *versions);   /* {"zcctl": "1.2.3", "zcrdmad": the answer to version, or null} */
    void (*done)(FILE *out, const char *verb, const char *what);    /* "deleted", ID */
};

extern const struct output output_text, output_json;

/* The table of several (output_comparison.c). */
void output_comparison_text(FILE *out, json_t *documents);
/* The tables of a probe (output_probe.c). */
void output_probe_text(FILE *out, json_t *document);
/* The doctor's findings (output_doctor.c). */
void output_doctor_text(FILE *out, json_t *answer);
/* The table of compare.h (output_compare.c). */
void output_compare_text(FILE *out, json_t *comparison);
/* The table of a result (output_result.c). */
void output_result_text(FILE *out, json_t *document);
/* The screen of a sweep, and its advice (output_sweep.c). */
void output_sweep_text(FILE *out, json_t *document);
void output_recommendation_text(FILE *out, json_t *recommendation);

#endif
