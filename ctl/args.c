/* See args.h. */
#include "args.h"

#include <errno.h>
#include <string.h>

enum { NAMES_MAX = 96 };

/* One option as it stands on the command line. */
struct found {
    const char *name;                   /* without dashes, up to '=' */
    size_t length;
    const char *value;                  /* behind '=' or the letter; NULL: none yet */
    const struct args_option *option;   /* one of the two, */
    const struct zc_option *run;        /* or both NULL */
};

static const struct args_option *find_name(const struct args_option *table, const char *name, size_t length)
{
    for (; table != NULL && table->name != NULL; table++)
        if (strlen(table->name) == length && memcmp(table->name, name, length) == 0)
            return table;
    return NULL;
}

static const struct args_option *find_letter(const struct args_option *table, char letter)
{
    for (; table != NULL && table->name != NULL; table++)
        if (table->letter == letter)
            return table;
    return NULL;
}

static struct found look_up(const struct args *args, const char *word)
{
    struct found found = { 0 };

    if (word[1] != '-') {
        found.name = word + 1;
        found.length = 1;
        found.value = word[2] != '\0' ? word + 2 : NULL;
        found.option = find_letter(args->own, word[1]);
        if (found.option == NULL)
            found.option = find_letter(args->common, word[1]);
        if (found.option == NULL && args->run != NULL)
            found.run = zc_option_find_letter(word[1]);
        return found;
    }
    found.name = word + 2;
    found.length = strcspn(found.name, "=");
    found.value = found.name[found.length] == '=' ? found.name + found.length + 1 : NULL;
    found.option = find_name(args->own, found.name, found.length);
    if (found.option == NULL)
        found.option = find_name(args->common, found.name, found.length);
    if (found.option == NULL && args->run != NULL)
        found.run = zc_option_find(found.name, found.length);
    return found;
}

static size_t add_names(const struct args_option *table, const char **names, size_t count)
{
    for (; table != NULL && table->name != NULL && count < NAMES_MAX; table++)
        names[count++] = table->name;
    return count;
}

static int unknown(const struct args *args, const char *word, struct zc_error *err)
{
    const char *names[NAMES_MAX + 1] = { NULL }, *nearest;
    char typed[64] = "";
    const char *name = word + (word[1] == '-' ? 2 : 1);
    size_t count = add_names(args->common, names, add_names(args->own, names, 0)), rows = 0;
    const struct zc_option *table = args->run != NULL ? zc_options(&rows) : NULL;

    for (size_t i = 0; i < rows && count < NAMES_MAX; i++)
        names[count++] = table[i].name;
    names[count] = NULL;
    strncat(typed, name, strcspn(name, "=") < sizeof(typed) ? strcspn(name, "=") : sizeof(typed) - 1);
    nearest = zc_choice_nearest(names, typed);
    if (nearest == NULL)
        return zc_error_set(err, ZC_ERR_INVALID, EINVAL, NULL, "unknown option %.64s", word);
    return zc_error_set(err, ZC_ERR_INVALID, EINVAL, NULL, "unknown option %.*s%s (did you mean --%s?)",
                        (int)(name - word), word, typed, zc_option_dashed(nearest).text);
}

static int store(struct args *args, const struct found *found, const char *value, struct zc_error *err)
{
    if (found->run != NULL) {
        args->given |= zc_option_bit(found->run->name);
        return zc_option_parse(found->run, value, args->run, err);
    }
    if (found->option->flag != NULL)
        *found->option->flag = true;
    else
        *found->option->value = value;
    return 0;
}

/* *index is that of the word; moved on if the next word is its value. */
static int parse_option(struct args *args, int argc, char **argv, int *index, struct zc_error *err)
{
    const char *word = argv[*index], *dashes = word[1] == '-' ? "--" : "-";
    struct found found = look_up(args, word);
    bool flag = found.option != NULL ? found.option->flag != NULL : found.run != NULL && found.run->type == ZC_OPTION_FLAG;

    if (found.option == NULL && found.run == NULL)
        return unknown(args, word, err);
    if (flag && found.value != NULL)
        return zc_error_set(err, ZC_ERR_INVALID, EINVAL, NULL, "%s%.*s takes no value", dashes, (int)found.length, found.name);
    if (!flag && found.value == NULL) {
        if (*index + 1 >= argc)
            return zc_error_set(err, ZC_ERR_INVALID, EINVAL, NULL, "the value of %s%.*s is missing", dashes, (int)found.length,
                                found.name);
        found.value = argv[++*index];
    }
    return store(args, &found, found.value, err);
}

int args_parse(struct args *args, int argc, char **argv, struct zc_error *err)
{
    bool options_end = false;

    args->given = 0;
    args->operands = argc > 0 ? argv + 1 : argv;
    args->operand_count = 0;
    for (int i = 1; i < argc; i++) {
        if (!options_end && strcmp(argv[i], "--") == 0) {
            options_end = true;
        } else if (options_end || argv[i][0] != '-' || argv[i][1] == '\0') {
            if (args->stop_at_operand) {
                args->operands = argv + i;
                args->operand_count = argc - i;
                return 0;
            }
            args->operands[args->operand_count++] = argv[i];    /* never beyond i */
        } else {
            int rc = parse_option(args, argc, argv, &i, err);
            if (rc != 0)
                return rc;
        }
    }
    return 0;
}
