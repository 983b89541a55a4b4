/* See format.h. */
#include "format.h"

#include <math.h>
#include <string.h>

#include "error.h"

/* 3 significant digits below 1000, whole above; the thresholds are where rounding would add a digit. */
static struct text digits(double value, const char *unit)
{
    struct text text;
    double size = fabs(value);
    int decimals = size >= 99.95 || size == 0 ? 0 : size >= 9.995 ? 1 : size >= 0.9995 ? 2 : 3;

    if (isnan(value))
        snprintf(text.s, sizeof(text.s), "-");
    else
        snprintf(text.s, sizeof(text.s), "%.*f%s%s", decimals, value, *unit != '\0' ? " " : "", unit);
    return text;
}

struct text format_number(double value)
{
    return digits(value, "");
}

struct text format_count(double value)
{
    struct text text;

    if (isnan(value))
        return digits(value, "");
    snprintf(text.s, sizeof(text.s), "%.0f", value);
    return text;
}

struct text format_plural(double value, const char *thing)
{
    struct text text;

    snprintf(text.s, sizeof(text.s), "%.20s %.40s%s", format_count(value).s, thing, value == 1 ? "" : "s");
    return text;
}

struct text format_ns(double nanoseconds)
{
    struct text text;

    if (isnan(nanoseconds))
        return digits(nanoseconds, "");
    if (nanoseconds < 999.5) {
        snprintf(text.s, sizeof(text.s), "%.0f ns", nanoseconds);
        return text;
    }
    if (nanoseconds < 999.5e3)
        return digits(nanoseconds / 1e3, "us");
    if (nanoseconds < 999.5e6)
        return digits(nanoseconds / 1e6, "ms");
    return digits(nanoseconds / 1e9, "s");
}

struct text format_bytes(double bytes)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
    struct text text;
    size_t unit = 0;

    if (isnan(bytes))
        return digits(bytes, "");
    while (unit < 4 && bytes >= (unit == 0 ? 1024 : 1023.5)) {
        bytes /= 1024;
        unit++;
    }
    if (bytes == floor(bytes)) {
        snprintf(text.s, sizeof(text.s), "%.0f %s", bytes, units[unit]);
        return text;
    }
    return digits(bytes, units[unit]);
}

struct text format_duration(double seconds)
{
    struct text text;
    unsigned long long s;

    if (isnan(seconds) || seconds < 0 || seconds > 1e12)
        return digits(NAN, "");
    s = (unsigned long long)seconds;
    if (s < 60)
        snprintf(text.s, sizeof(text.s), "%llu s", s);
    else if (s < 3600)
        snprintf(text.s, sizeof(text.s), "%llu min %llu s", s / 60, s % 60);
    else if (s < 86400)
        snprintf(text.s, sizeof(text.s), "%llu h %llu min", s / 3600, s / 60 % 60);
    else
        snprintf(text.s, sizeof(text.s), "%llu d %llu h", s / 86400, s / 3600 % 24);
    return text;
}

const json_t *member_at(const json_t *json, const char *path)
{
    char name[64];

    while (json != NULL && *path != '\0') {
        size_t length = strcspn(path, ".");
        if (length >= sizeof(name))
            return NULL;
        memcpy(name, path, length);
        name[length] = '\0';
        json = json_object_get(json, name);
        path += length + (path[length] == '.');
    }
    return json;
}

double number_at(const json_t *json, const char *path)
{
    const json_t *member = member_at(json, path);

    return json_is_number(member) ? json_number_value(member) : NAN;
}

const char *text_at(const json_t *json, const char *path)
{
    const char *text = json_string_value(member_at(json, path));

    return text != NULL ? text : "-";
}

void clean_strings(json_t *json)
{
    const char *name;
    json_t *value;
    size_t index;

    if (json_is_string(json)) {
        zc_text_clean((char *)json_string_value(json));     /* keeps the length */
    } else if (json_is_object(json)) {
        json_object_foreach (json, name, value)
            clean_strings(value);
    } else if (json_is_array(json)) {
        json_array_foreach (json, index, value)
            clean_strings(value);
    }
}

void print_wrapped(FILE *out, int indent, int width, const char *text)
{
    int column = indent;
    bool first = true;

    for (text += strspn(text, " "); *text != '\0'; text += strspn(text, " ")) {
        int length = (int)strcspn(text, " ");
        if (!first && column + 1 + length > width) {
            fprintf(out, "\n%*s", indent, "");
            column = indent;
            first = true;
        }
        fprintf(out, "%s%.*s", first ? "" : " ", length, text);
        column += length + !first;
        first = false;
        text += length;
    }
    fputc('\n', out);
}
