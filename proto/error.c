/* The error value: see error.h. No allocation, no state. */
#include "error.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static const char *const kind_names[] = {
    [ZC_ERR_NONE] = "none",
    [ZC_ERR_INVALID] = "invalid",
    [ZC_ERR_NOT_FOUND] = "not_found",
    [ZC_ERR_BUSY] = "busy",
    [ZC_ERR_DENIED] = "denied",
    [ZC_ERR_PEER] = "peer",
    [ZC_ERR_MEMLOCK] = "memlock",
    [ZC_ERR_RESOURCE] = "resource",
    [ZC_ERR_DEVICE] = "device",
    [ZC_ERR_VALIDATION] = "validation",
    [ZC_ERR_UNMEASURED] = "unmeasured",
    [ZC_ERR_CANCELLED] = "cancelled",
    [ZC_ERR_INTERNAL] = "internal",
};
enum { KIND_COUNT = sizeof(kind_names) / sizeof(kind_names[0]) };

/* Length of the UTF-8 sequence at `s` (RFC 3629: no overlong forms, no surrogates), 0 if there is none. */
static size_t utf8_length(const unsigned char *s)
{
    static const struct { unsigned char mask, lead; size_t length; uint32_t least; } forms[] = {
        { 0x80, 0x00, 1, 0 }, { 0xe0, 0xc0, 2, 0x80 }, { 0xf0, 0xe0, 3, 0x800 }, { 0xf8, 0xf0, 4, 0x10000 },
    };

    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        if ((s[0] & forms[i].mask) != forms[i].lead)
            continue;
        uint32_t code = s[0] & (uint32_t)(unsigned char)~forms[i].mask;
        for (size_t j = 1; j < forms[i].length; j++) {
            if ((s[j] & 0xc0) != 0x80)      /* the terminating zero ends here, too */
                return 0;
            code = code << 6 | (s[j] & 0x3f);
        }
        bool surrogate = code >= 0xd800 && code <= 0xdfff;
        return code >= forms[i].least && code <= 0x10ffff && !surrogate ? forms[i].length : 0;
    }
    return 0;
}

char *zc_text_clean(char *text)
{
    unsigned char *s = (unsigned char *)text;

    while (*s != '\0') {
        size_t length = utf8_length(s);
        bool control = *s < 0x20 || *s == 0x7f || (length == 2 && s[0] == 0xc2 && s[1] < 0xa0);     /* C0, DEL, C1 */
        if (length == 0 || control)
            *s++ = '?';
        else
            s += length;
    }
    return text;
}

int zc_error_set(struct zc_error *err, enum zc_error_kind kind, int errnum, const char *field, const char *format, ...)
{
    va_list args;

    if (errnum > 0)
        errnum = -errnum;
    if (err != NULL) {
        struct zc_error made = { .kind = kind, .errnum = errnum };
        snprintf(made.field, sizeof(made.field), "%s", field != NULL ? field : "");
        va_start(args, format);
        vsnprintf(made.message, sizeof(made.message), format, args);
        va_end(args);
        zc_text_clean(made.field);
        zc_text_clean(made.message);
        *err = made;    /* last: an argument may point into *err */
    }
    return errnum != 0 ? errnum : -EINVAL;
}

const char *zc_error_kind_name(enum zc_error_kind kind)
{
    return (unsigned)kind < KIND_COUNT ? kind_names[kind] : kind_names[ZC_ERR_INTERNAL];
}

enum zc_error_kind zc_error_kind_find(const char *name)
{
    for (int i = 0; name != NULL && i < KIND_COUNT; i++)
        if (strcmp(kind_names[i], name) == 0)
            return (enum zc_error_kind)i;
    return ZC_ERR_INTERNAL;
}
