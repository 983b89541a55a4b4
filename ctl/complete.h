/* Completion for shells: `zcctl __complete WORD... CURRENT` prints what the last word can become, from the tables that the command
 * line is parsed with. etc/completion/ has the scripts that ask. */
#ifndef CTL_COMPLETE_H
#define CTL_COMPLETE_H

#include "command.h"

/* The words behind "__complete"; the last one is being typed and may be empty. Each answer is a line: the word, and behind a tab what
 * it means, if there is more to say. The line ":files" asks for names of files. Never an error: nothing to offer is no output. */
void complete(struct context *context, int argc, char **argv, const struct args_option *common);

/* The part of it that knows the options of a subcommand: called by command_args() instead of parsing, when context->completing. */
void complete_command(struct context *context, const struct command *command, const struct args *args, int argc, char **argv);

/* Write the verbs in a command's operands, "[list | cancel ID...]", to `verbs`, NULL-terminated; they point into `storage`. Returns
 * how many. */
enum { VERBS_MAX = 8, VERB_STORAGE = 128 };
size_t complete_verbs(const struct command *command, const char *verbs[VERBS_MAX + 1], char storage[VERB_STORAGE]);

#endif
