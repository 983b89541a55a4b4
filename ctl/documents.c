/* See documents.h. */
#include "documents.h"

#include <stdlib.h>
#include <string.h>

#include "format.h"

enum { NAME_LENGTH_MAX = 4096 };

bool document_is_sweep(const json_t *document)
{
    return strcmp(text_at(document, "kind"), "sweep") == 0;
}

bool document_is_file(const char *name)
{
    size_t length = strlen(name);

    return strchr(name, '/') != NULL || (length > 5 && strcmp(name + length - 5, ".json") == 0);
}

static int load_file(const struct context *context, const char *name, json_t **document)
{
    json_error_t why;

    *document = json_load_file(name, 0, &why);
    if (*document != NULL)
        return 0;
    if (why.line > 0)
        command_error(context, "%s:%d: %s", name, why.line, why.text);
    else
        command_error(context, "%s", why.text);
    return EXIT_FAILED;
}

static int fetch(const struct context *context, const char *id, json_t **document)
{
    struct client *client = NULL;
    struct zc_error err;
    enum client_status status = client_open(context->socket_path, &client, &err);

    if (status == CLIENT_OK)
        status = client_call(client, "result.get", json_pack("{s:s}", "id", id), document, &err);
    client_close(client);
    return status == CLIENT_OK ? 0 : command_failed(context, status, &err);
}

static int load_one(struct context *context, const char *name, json_t *documents)
{
    json_t *document = NULL;
    int status = document_is_file(name) ? load_file(context, name, &document) : fetch(context, name, &document);

    if (status != 0)
        return status;
    if (document_is_sweep(document) ? !json_is_array(json_object_get(document, "cells"))
                                    : !json_is_object(json_object_get(document, "throughput"))) {
        command_error(context, "%s is neither the result of a run nor of a sweep", name);
        json_decref(document);
        return EXIT_FAILED;
    }
    clean_strings(document);
    json_array_append_new(documents, document);
    return 0;
}

int documents_load(struct context *context, const char *names, json_t *documents)
{
    char name[NAME_LENGTH_MAX];
    size_t before = json_array_size(documents);
    int status = 0;

    for (size_t length; status == 0 && *names != '\0'; names += length + (names[length] == ',')) {
        length = strcspn(names, ",");
        if (length == 0)
            continue;
        if (length >= sizeof(name)) {
            command_error(context, "a name is longer than %d bytes", NAME_LENGTH_MAX - 1);
            return EXIT_USAGE;
        }
        memcpy(name, names, length);
        name[length] = '\0';
        status = load_one(context, name, documents);
    }
    if (status == 0 && json_array_size(documents) == before) {
        command_error(context, "an id is empty");
        status = EXIT_USAGE;
    }
    return status;
}
