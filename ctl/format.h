/* Figures and text for people: three significant digits, binary units for bytes, "-" for what was not measured. */
#ifndef CTL_FORMAT_H
#define CTL_FORMAT_H

#include <jansson.h>
#include <stdio.h>

enum { FORMAT_MAX = 64 };

/* Filled by the functions below; returned by value so that one printf can take several. */
struct text {
    char s[FORMAT_MAX];
};

/* NAN gives "-" in all of them. */
struct text format_number(double value);            /* 3 digits: "0.312", "5.43", "46.6", "5563" */
struct text format_count(double value);             /* a whole number, all digits */
struct text format_plural(double value, const char *thing);      /* "1 QP", "4 QPs", "- QPs" */
struct text format_ns(double nanoseconds);          /* "850 ns", "171 us", "1.23 ms", "12.0 s" */
struct text format_bytes(double bytes);             /* "64 KiB", "54.3 GiB" */
struct text format_duration(double seconds);        /* "12 s", "3 min 20 s", "2 h 5 min", "4 d 3 h" */

/* The member at a dotted path. NAN or "-" (`text_at`) if it is absent, null or of another type. */
double number_at(const json_t *json, const char *path);
const char *text_at(const json_t *json, const char *path);
const json_t *member_at(const json_t *json, const char *path);

/* Replace control characters in every string, in place: what a peer or a file says must not command the terminal. */
void clean_strings(json_t *json);

/* Words of `text` in lines of at most `width` columns, each after the first behind `indent` spaces; the first begins where the
 * cursor is, at column `indent`. Ends with a newline. */
void print_wrapped(FILE *out, int indent, int width, const char *text);

#endif
