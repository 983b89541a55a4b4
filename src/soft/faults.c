/* Scripted faults, ZCSOFT_FAULTS: what goes wrong, at which count. The grammar stands in zcsoft.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

#define RULES_MAX 32

struct name {
    const char *text;
    int value;
};

struct rule {
    enum zs_fault kind;
    uint64_t at;
    bool from; /* from `at` on */
    int value;
};

bool zs_faults_on[ZS_FAULTS];
static struct rule rules[RULES_MAX];
static size_t rule_count;
static _Atomic uint64_t counts[ZS_FAULTS];

static const struct name errors[] = {
    {"ENOMEM", ENOMEM}, {"EFAULT", EFAULT}, {"EINVAL", EINVAL}, {"EPERM", EPERM}, {"EAGAIN", EAGAIN},
    {"EIO", EIO},       {"EBUSY", EBUSY},   {"ENOSPC", ENOSPC}, {0},
};
static const struct name statuses[] = {
    {"LOC_LEN_ERR", IBV_WC_LOC_LEN_ERR},         {"LOC_QP_OP_ERR", IBV_WC_LOC_QP_OP_ERR},
    {"LOC_PROT_ERR", IBV_WC_LOC_PROT_ERR},       {"WR_FLUSH_ERR", IBV_WC_WR_FLUSH_ERR},
    {"MW_BIND_ERR", IBV_WC_MW_BIND_ERR},         {"BAD_RESP_ERR", IBV_WC_BAD_RESP_ERR},
    {"LOC_ACCESS_ERR", IBV_WC_LOC_ACCESS_ERR},   {"REM_INV_REQ_ERR", IBV_WC_REM_INV_REQ_ERR},
    {"REM_ACCESS_ERR", IBV_WC_REM_ACCESS_ERR},   {"REM_OP_ERR", IBV_WC_REM_OP_ERR},
    {"RETRY_EXC_ERR", IBV_WC_RETRY_EXC_ERR},     {"RNR_RETRY_EXC_ERR", IBV_WC_RNR_RETRY_EXC_ERR},
    {"REM_ABORT_ERR", IBV_WC_REM_ABORT_ERR},     {"FATAL_ERR", IBV_WC_FATAL_ERR},
    {"RESP_TIMEOUT_ERR", IBV_WC_RESP_TIMEOUT_ERR}, {"GENERAL_ERR", IBV_WC_GENERAL_ERR},
    {0},
};
static const struct name drop[] = {{"drop", 1}, {0}};

static const struct {
    const char *text;
    const struct name *values;
} kinds[ZS_FAULTS] = {
    [ZS_FAULT_REG] = {"reg", errors},
    [ZS_FAULT_WC] = {"wc", statuses},
    [ZS_FAULT_LINK] = {"link", drop},
    [ZS_FAULT_CM] = {"cm", drop},
};

static bool is(const char *text, size_t n, const char *name)
{
    return strlen(name) == n && memcmp(text, name, n) == 0;
}

static int kind_of(const char *text, size_t n)
{
    for (int k = 0; k < ZS_FAULTS; k++)
        if (is(text, n, kinds[k].text))
            return k;
    return -1;
}

static int value_of(const struct name *names, const char *text, size_t n)
{
    for (; names->text; names++)
        if (is(text, n, names->text))
            return names->value;
    return 0;
}

/* One rule, KIND:COUNT[+]=WHAT, of n characters. */
static bool parse_rule(const char *s, size_t n, struct rule *r)
{
    const char *end = s + n, *colon = memchr(s, ':', n), *equals = memchr(s, '=', n);
    char *after;
    int kind = colon ? kind_of(s, (size_t)(colon - s)) : -1;
    if (kind < 0 || !equals || equals < colon || colon[1] < '0' || colon[1] > '9')
        return false;
    errno = 0;
    r->kind = (enum zs_fault)kind;
    r->at = strtoull(colon + 1, &after, 10);
    r->from = *after == '+';
    r->value = value_of(kinds[kind].values, equals + 1, (size_t)(end - equals - 1));
    return r->at && !errno && after + (r->from ? 1 : 0) == equals && r->value;
}

bool zs_faults_parse(const char *script)
{
    while (*script) {
        size_t n = strcspn(script, ",");
        if (rule_count == RULES_MAX || !parse_rule(script, n, &rules[rule_count]))
            return false;
        zs_faults_on[rules[rule_count++].kind] = true;
        script += n;
        if (*script && !*++script)
            return false; /* a comma at the end: something is missing */
    }
    return true;
}

int zs_fault(enum zs_fault kind)
{
    uint64_t n = atomic_fetch_add(&counts[kind], 1) + 1;
    for (size_t i = 0; i < rule_count; i++)
        if (rules[i].kind == kind && (rules[i].at == n || (rules[i].from && n > rules[i].at)))
            return rules[i].value;
    return 0;
}
