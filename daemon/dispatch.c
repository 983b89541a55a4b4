/* See dispatch.h. */
#include "dispatch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cmd.h"

enum access { ACCESS_READ, ACCESS_RUN, ACCESS_OWN, ACCESS_ADMIN };

struct method {
    const char *name;
    cmd_handler *handler;
    enum access access;
    const char *params;         /* see methods.def */
};

static const struct method methods[] = {
#define ZC_METHOD(name, handler, access, params, help) { name, cmd_##handler, ACCESS_##access, params },
#include "methods.def"
#undef ZC_METHOD
};

static const struct method *find_method(const char *name)
{
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++)
        if (strcmp(methods[i].name, name) == 0)
            return &methods[i];
    return NULL;
}

/* Who started the run or result that the call names; false: there is no such thing, which the handler will say. */
static bool find_owner(const struct daemon *daemon, const struct call *call, const char **id, uint64_t *owner_uid)
{
    *id = json_string_value(json_object_get(call_params(call), "id"));
    return *id && (runs_owner(daemon->runs, *id, owner_uid) || store_owner(daemon->store, *id, owner_uid));
}

/* The place where a method's access is checked against who the client is (methods.def). That it could connect at all is the
 * socket's mode. */
static int check_access(const struct daemon *daemon, const struct method *method, const struct call *call, struct zc_error *err)
{
    const struct control_user *user = call_user(call);
    const char *id;
    uint64_t owner_uid;
    if (user->administrator || method->access == ACCESS_READ)
        return 0;
    if (method->access == ACCESS_ADMIN)
        return zc_error_set(err, ZC_ERR_DENIED, -EPERM, NULL, "%s is not permitted: it is for root and zcrdmad's own user", method->name);
    if (!user->member)
        return zc_error_set(err, ZC_ERR_DENIED, -EPERM, NULL, "%s is not permitted: it is for members of the group %s", method->name,
                            daemon->config.socket_group);
    if (method->access == ACCESS_OWN && find_owner(daemon, call, &id, &owner_uid) && owner_uid != user->uid)
        return zc_error_set(err, ZC_ERR_DENIED, -EPERM, "id", "%s is not permitted: another user started %.60s", method->name, id);
    return 0;
}

/* The next name of "id,progress?"; returns what follows, NULL at the end. */
static const char *next_name(const char *list, const char **name, size_t *length, bool *optional)
{
    if (!*list)
        return NULL;
    size_t whole = strcspn(list, ",");
    *name = list;
    *optional = list[whole - 1] == '?';
    *length = whole - *optional;
    return list[whole] ? list + whole + 1 : list + whole;
}

static bool takes(const char *list, const char *wanted)
{
    const char *name;
    size_t length;
    bool optional;
    while ((list = next_name(list, &name, &length, &optional)))
        if (strlen(wanted) == length && memcmp(wanted, name, length) == 0)
            return true;
    return false;
}

static int check_names(const struct method *method, const json_t *params, struct zc_error *err)
{
    const char *list = method->params, *name;
    size_t length;
    bool optional;
    json_t *value;
    if (*list == '@')       /* the option table has a checker of its own: zc_run_options_from_json() */
        return 0;
    json_object_foreach((json_t *)(uintptr_t)params, name, value)
        if (!takes(list, name))
            return zc_error_set(err, ZC_ERR_INVALID, -EINVAL, name, "%s has no parameter '%.60s'", method->name, name);
    while ((list = next_name(list, &name, &length, &optional))) {
        char wanted[ZC_ERROR_FIELD_MAX];
        snprintf(wanted, sizeof wanted, "%.*s", (int)length, name);
        if (!optional && !json_object_get(params, wanted))
            return zc_error_set(err, ZC_ERR_INVALID, -EINVAL, wanted, "%s needs the parameter '%s'", method->name, wanted);
    }
    return 0;
}

static void run_handler(struct daemon *daemon, const struct method *method, struct call *call)
{
    struct zc_error err = { 0 };
    json_t *none = NULL, *result = NULL;
    const json_t *params = call_params(call);
    if (!params)
        params = none = json_object();
    int status = params ? check_names(method, params, &err)
                        : zc_error_set(&err, ZC_ERR_RESOURCE, -ENOMEM, NULL, "%s: out of memory", method->name);
    if (!status)
        status = check_access(daemon, method, call, &err);
    if (!status)
        status = method->handler(daemon, call, params, &result, &err);
    if (status == 0)
        call_reply(call, result);
    else if (status < 0)
        call_fail(call, &err);
    json_decref(none);
}

void dispatch_call(void *arg, struct call *call)
{
    const struct method *method = find_method(call_method(call));
    char message[128];
    if (method) {
        run_handler(arg, method, call);
    } else {
        snprintf(message, sizeof message, "no method '%.60s'", call_method(call));
        call_fail_code(call, ZC_RPC_METHOD, message, "method", "not_found");
    }
}
