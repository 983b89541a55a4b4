/* Documents against their schemas, by Debian's python3-jsonschema: check_schema.py. For one program of tests/unit/proto each. */
#ifndef VALID_H
#define VALID_H

#include <jansson.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"
#include "zc_json.h"

/* Valid by proto/KIND.schema.json. `strict`: "--strict" where every object of the schema lists all its members, else "--loose". The
 * document stays in the build folder as KIND-NAME.json. */
static void assert_valid(const json_t *document, const char *kind, const char *strict, const char *name)
{
    char path[512], schema[512];
    char *argv[] = { "python3", ZC_SOURCE_DIR "/tests/unit/proto/check_schema.py", (char *)(uintptr_t)strict, schema, path, NULL };
    int status;
    snprintf(schema, sizeof schema, "%s/proto/%s.schema.json", ZC_SOURCE_DIR, kind);
    snprintf(path, sizeof path, "%s/%s-%s.json", ZC_BUILD_DIR, kind, name);
    assert_int_equal(json_dump_file(document, path, ZC_JSON_DOCUMENT), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        execv("/usr/bin/python3", argv);    /* Debian's: python3-jsonschema belongs to it */
        _exit(127);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

#endif
