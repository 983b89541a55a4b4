/* See complete.h. */
#include "complete.h"

#include <stdlib.h>
#include <string.h>

#include "format.h"

enum { PATIENCE_MS = 2000 };    /* for the daemon, while somebody holds the Tab key */

/* What is being typed, and how to offer something for it. */
struct offer {
    FILE *out;
    const char *current;    /* the whole word */
    const char *typed;      /* of the part that is looked for, behind "--option=" or a comma */
};

/* One candidate, if it begins with what is typed; what stands before that part is repeated. */
static void offer_word(const struct offer *offer, const char *dashes, const char *word, const char *help)
{
    char full[160];

    snprintf(full, sizeof(full), "%s%s", dashes, *dashes != '\0' ? zc_option_dashed(word).text : word);
    if (strncmp(full, offer->typed, strlen(offer->typed)) != 0)
        return;
    fprintf(offer->out, "%.*s%s%s%s\n", (int)(offer->typed - offer->current), offer->current, full, help != NULL ? "\t" : "",
            help != NULL ? help : "");
}

/* ---- what the daemon knows ---- */

/* The answer to a method that takes no parameters, or NULL: a new reference. */
static json_t *ask(const struct context *context, const char *method)
{
    struct client *client = NULL;
    struct zc_error err;
    json_t *message = NULL, *borrowed = NULL;
    int64_t call;

    if (client_open(context->socket_path, &client, &err) == CLIENT_OK && client_send(client, method, NULL, &call, &err) == CLIENT_OK &&
        client_receive(client, -1, PATIENCE_MS, &message, &err) == CLIENT_OK &&
        client_reply(message, call, &borrowed, &err) == CLIENT_OK)
        json_incref(borrowed);
    else
        borrowed = NULL;
    json_decref(message);
    client_close(client);
    return borrowed;
}

/* A row's member as a word; numbers are ids of sessions. What would need quoting is left out. */
static bool word_at(const json_t *row, const char *member, char *word, size_t size)
{
    const json_t *value = json_object_get(row, member);

    if (json_is_integer(value))
        snprintf(word, size, "%lld", (long long)json_integer_value(value));
    else if (json_is_string(value) && strlen(json_string_value(value)) < size)
        strcpy(word, json_string_value(value));
    else
        return false;
    for (const char *c = word; *c != '\0'; c++)
        if (strchr("-_.:[]%", *c) == NULL && !(*c >= '0' && *c <= '9') && !(*c >= 'A' && *c <= 'Z') && !(*c >= 'a' && *c <= 'z'))
            return false;
    return *word != '\0';
}

/* `member` of every row of the answer's array, each value once; help from up to two other members. */
static void offer_rows(const struct context *context, const struct offer *offer, const char *method, const char *member,
                       const char *const help[2])
{
    json_t *answer = ask(context, method), *rows = NULL, *row, *seen = json_object();
    const char *name;
    size_t index;
    char word[128], more[160];

    clean_strings(answer);
    json_object_foreach (answer, name, row)
        rows = json_is_array(row) ? row : rows;
    json_array_foreach (rows, index, row) {
        if (!word_at(row, member, word, sizeof(word)) || json_object_get(seen, word) != NULL)
            continue;
        json_object_set_new(seen, word, json_true());
        if (help != NULL)
            snprintf(more, sizeof(more), "%.80s%s%.40s", text_at(row, help[0]), help[1] != NULL ? ", " : "",
                     help[1] != NULL ? text_at(row, help[1]) : "");
        offer_word(offer, "", word, help != NULL ? more : NULL);
    }
    json_decref(seen);
    json_decref(answer);
}

static void offer_ids(const struct context *context, const struct offer *offer, const struct command *command)
{
    static const char *const results[2] = { "strategy", "state" }, *const runs[2] = { "strategy", "phase" },
                             *const sessions[2] = { "peer", NULL };

    if (command == NULL || command->ids == NULL)
        return;
    offer_rows(context, offer, command->ids, "id", strcmp(command->ids, "session.list") == 0 ? sessions
               : strcmp(command->ids, "run.list") == 0 ? runs : results);
}

static void offer_peers(const struct context *context, const struct offer *offer)
{
    offer_word(offer, "", "self", NULL);
    offer_rows(context, offer, "result.list", "peer", NULL);
}

/* "sweep:ID", as soon as it is not the number of a size that is typed. */
static void offer_sweeps(const struct context *context, const struct offer *offer)
{
    json_t *answer = ask(context, "result.list"), *row;
    size_t index;
    char id[128], word[160];

    clean_strings(answer);
    json_array_foreach (json_object_get(answer, "results"), index, row) {
        if (strcmp(text_at(row, "strategy"), "sweep") != 0 || !word_at(row, "id", id, sizeof(id)))
            continue;
        snprintf(word, sizeof(word), "sweep:%s", id);
        offer_word(offer, "", word, text_at(row, "peer"));
    }
    json_decref(answer);
}

/* ---- values ---- */

/* Names with commas between them, or all. */
static void offer_strategies(const struct offer *whole)
{
    struct offer offer = *whole;
    const char *comma = strrchr(offer.typed, ',');

    if (comma != NULL)
        offer.typed = comma + 1;
    else
        offer_word(&offer, "", "all", "one after another, one table");
    for (int i = 0; i < ZC_STRATEGY_COUNT; i++)
        offer_word(&offer, "", zc_strategy_infos[i].name, zc_strategy_infos[i].shows);
}

/* "none|first|all": each small word. "auto|N|none" has one that is no word. */
static void offer_alternatives(const struct offer *offer, const char *metavar)
{
    char word[64];

    for (size_t length; *metavar != '\0'; metavar += length + (metavar[length] == '|')) {
        length = strcspn(metavar, "|");
        if (*metavar >= 'A' && *metavar <= 'Z')
            continue;
        snprintf(word, sizeof(word), "%.*s", (int)length, metavar);
        offer_word(offer, "", word, NULL);
    }
}

static void offer_values(const struct context *context, const struct offer *offer, const struct command *command, const char *name,
                         const char *metavar)
{
    if (strcmp(name, "strategy") == 0)
        offer_strategies(offer);
    else if (strncmp(metavar, "HOST", 4) == 0)
        offer_peers(context, offer);
    else if (strcmp(name, "device") == 0)
        offer_rows(context, offer, "device.list", "name", NULL);
    else if (strcmp(metavar, "FILE") == 0 || strcmp(metavar, "PATH") == 0)
        fputs(":files\n", offer->out);
    else if (strstr(metavar, "sweep:ID") != NULL)
        offer_sweeps(context, offer);
    else if (strcmp(metavar, "ID") == 0)
        offer_ids(context, offer, command);
    else
        offer_alternatives(offer, metavar);
}

/* ---- words ---- */

/* What the value of the option in `word` ("--peer", "-o", up to '=') is called; NULL: it is no option that takes one. *name is it. */
static const char *metavar_of(const struct args *args, const char *word, const char **name)
{
    const struct args_option *tables[] = { args->own, args->common };
    size_t length = strcspn(word, "=") - 2;
    const struct zc_option *run = NULL;

    if (strncmp(word, "--", 2) == 0 && args->run != NULL)
        run = zc_option_find(word + 2, length);
    else if (word[0] == '-' && word[1] != '-' && word[2] == '\0' && args->run != NULL)
        run = zc_option_find_letter(word[1]);
    if (run != NULL) {
        *name = run->name;
        return run->metavar;
    }
    for (size_t i = 0; i < 2; i++)
        for (const struct args_option *row = tables[i]; row != NULL && row->name != NULL; row++)
            if ((strncmp(word, "--", 2) == 0 && strlen(row->name) == length && strncmp(row->name, word + 2, length) == 0) ||
                (word[0] == '-' && word[1] != '-' && word[1] == row->letter && word[2] == '\0')) {
                *name = row->name;
                return row->metavar;
            }
    return NULL;
}

static void offer_options(const struct offer *offer, const struct args *args)
{
    const struct args_option *tables[] = { args->own, args->common };
    size_t count = 0;
    const struct zc_option *run = args->run != NULL ? zc_options(&count) : NULL;

    for (size_t i = 0; i < count; i++)
        offer_word(offer, "--", run[i].name, run[i].help);
    for (size_t i = 0; i < 2; i++)
        for (const struct args_option *row = tables[i]; row != NULL && row->name != NULL; row++)
            if (row->help != NULL)
                offer_word(offer, "--", row->name, row->help);
}

/* The options where one is being typed, or the values of the one before. False: neither, an operand is being typed. */
static bool offer_option(const struct context *context, const struct offer *offer, const struct command *command,
                         const struct args *args, const char *before)
{
    const char *name, *metavar = before != NULL && strchr(before, '=') == NULL ? metavar_of(args, before, &name) : NULL;
    struct offer value = *offer;

    if (metavar == NULL && strncmp(offer->current, "--", 2) == 0 && strchr(offer->current, '=') != NULL) {
        metavar = metavar_of(args, offer->current, &name);
        value.typed = strchr(offer->current, '=') + 1;
        if (metavar == NULL)
            return true;
    }
    if (metavar != NULL)
        offer_values(context, &value, command, name, metavar);
    else if (offer->current[0] == '-')
        offer_options(offer, args);
    else
        return false;
    return true;
}

size_t complete_verbs(const struct command *command, const char *verbs[VERBS_MAX + 1], char storage[VERB_STORAGE])
{
    size_t count = 0;
    char *rest;

    snprintf(storage, VERB_STORAGE, "%s", command->operands[0] == '[' ? command->operands + 1 : "");
    for (char *part = strtok_r(storage, "|]", &rest); part != NULL && count < VERBS_MAX; part = strtok_r(NULL, "|]", &rest)) {
        part += strspn(part, " ");
        part[strcspn(part, " ")] = '\0';
        verbs[count++] = part;
    }
    verbs[count] = NULL;
    return count;
}

/* Operands that stand before the word that is being typed; *first is the first of them. */
static int operands_before(const struct args *args, int argc, char **argv, const char **first)
{
    const char *name;
    int count = 0;

    for (int i = 1; i < argc - 1; i++) {
        if (argv[i][0] == '-' && argv[i][1] != '\0')
            i += strchr(argv[i], '=') == NULL && metavar_of(args, argv[i], &name) != NULL;
        else if (count++ == 0)
            *first = argv[i];
    }
    return count;
}

/* Where the operands say what belongs to a verb: "get ID | delete ID...". */
static bool takes_another_id(const struct command *command, const char *verb, int operands)
{
    const char *place = verb != NULL ? strstr(command->operands, verb) : command->operands;
    const char *id = place != NULL ? strstr(place, "ID") : NULL;
    size_t length = place != NULL ? strcspn(place, "|]") : 0;
    int ids = operands - (verb != NULL);

    if (id == NULL || id >= place + length)
        return false;
    for (; ids > 0 && strncmp(id, "ID...", 5) != 0; ids--) {
        id = strstr(id + 1, "ID");
        if (id == NULL || id >= place + length)
            return false;
    }
    return true;
}

void complete_command(struct context *context, const struct command *command, const struct args *args, int argc, char **argv)
{
    const char *current = argc > 1 ? argv[argc - 1] : "", *verbs[VERBS_MAX + 1], *first = NULL;
    struct offer offer = { .out = context->out, .current = current, .typed = current };
    char storage[VERB_STORAGE];
    size_t count = complete_verbs(command, verbs, storage);
    int operands;

    if (argc < 2 || offer_option(context, &offer, command, args, argc > 2 ? argv[argc - 2] : NULL))
        return;
    operands = operands_before(args, argc, argv, &first);
    if (count > 0 && operands == 0)
        for (size_t i = 0; i < count; i++)
            offer_word(&offer, "", verbs[i], NULL);
    else if (takes_another_id(command, count > 0 ? first : NULL, operands))
        offer_ids(context, &offer, command);
}

static const struct command *find_command(const char *name)
{
    for (const struct command *command = commands; command->name != NULL; command++)
        if (strcmp(command->name, name) == 0)
            return command;
    return NULL;
}

/* Nothing of a subcommand is typed yet. */
static void complete_first(struct context *context, const struct args *args, int argc, char **argv)
{
    const char *current = argv[argc - 1];
    struct offer offer = { .out = context->out, .current = current, .typed = current };

    if (offer_option(context, &offer, NULL, args, argc > 1 ? argv[argc - 2] : NULL))
        return;
    for (const struct command *command = commands; command->name != NULL; command++)
        offer_word(&offer, "", command->name, command->help);
}

void complete(struct context *context, int argc, char **argv, const struct args_option *common)
{
    struct args args = { .common = common };
    const struct command *command;
    const char *name;

    context->completing = true;
    for (int i = 0; i < argc - 1; i++) {        /* what stands before the subcommand */
        if (strcmp(argv[i], "--socket") == 0 && i + 1 < argc - 1)
            context->socket_path = argv[i + 1];
        else if (strncmp(argv[i], "--socket=", 9) == 0)
            context->socket_path = argv[i] + 9;
    }
    for (int i = 0; i < argc - 1; i++) {
        if (argv[i][0] == '-') {
            i += strchr(argv[i], '=') == NULL && metavar_of(&args, argv[i], &name) != NULL;
            continue;
        }
        command = find_command(argv[i]);
        if (command != NULL)
            command->run(context, command, argc - i, argv + i);
        return;
    }
    if (argc > 0)
        complete_first(context, &args, argc, argv);
}
