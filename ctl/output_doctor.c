/* What the doctor found, as text: a line a finding, what to do about it below. */
#include "output.h"

#include <string.h>

#include "format.h"

enum { LEVEL = 9, ID = 17, WIDTH = 100 };

static void print_finding(FILE *out, const json_t *row)
{
    fprintf(out, "%-*s%-*s", LEVEL, text_at(row, "level"), ID, text_at(row, "id"));
    print_wrapped(out, LEVEL + ID, WIDTH, text_at(row, "finding"));
    if (!json_is_string(json_object_get(row, "fix")))
        return;
    fprintf(out, "%*s-> ", LEVEL + ID - 3, "");
    print_wrapped(out, LEVEL + ID, WIDTH, text_at(row, "fix"));
}

static unsigned count_level(const json_t *findings, const char *level)
{
    unsigned count = 0;
    size_t index;
    json_t *row;

    json_array_foreach (findings, index, row)
        count += strcmp(text_at(row, "level"), level) == 0;
    return count;
}

void output_doctor_text(FILE *out, json_t *answer)
{
    const json_t *findings = json_object_get(answer, "findings");
    size_t index;
    json_t *row;

    clean_strings(answer);
    json_array_foreach (findings, index, row)
        print_finding(out, row);
    fprintf(out, "%u bad, %u to warn of, %u to note, %u not known, %u ok\n", count_level(findings, "bad"),
            count_level(findings, "warn"), count_level(findings, "note"), count_level(findings, "unknown"),
            count_level(findings, "ok"));
}
