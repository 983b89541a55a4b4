/* See gnuplot.h. */
#include "gnuplot.h"

#include <ctype.h>
#include <errno.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static const char terminal[] = "set terminal svg size 760,440 dynamic noenhanced font 'sans-serif,15'\n"
                               "set border 3 linecolor rgb '" GNUPLOT_INK "'\n"
                               "set tics nomirror textcolor rgb '" GNUPLOT_INK "'\n"
                               "set key tmargin center horizontal maxcols 3 textcolor rgb '" GNUPLOT_INK "'\n"
                               "set grid y linecolor rgb '#808080' linewidth 0.5 dashtype 3\n"
                               "set datafile missing 'NaN'\n";

/* Files in memory: neither side ever waits for the other. */
struct files {
    int in, out, errors;
};

static bool open_files(struct files *files, const char *script)
{
    size_t head = sizeof(terminal) - 1, length = strlen(script);

    files->in = memfd_create("script", MFD_CLOEXEC);
    files->out = memfd_create("svg", MFD_CLOEXEC);
    files->errors = memfd_create("errors", MFD_CLOEXEC);
    return files->in >= 0 && files->out >= 0 && files->errors >= 0 && write(files->in, terminal, head) == (ssize_t)head &&
           write(files->in, script, length) == (ssize_t)length && lseek(files->in, 0, SEEK_SET) == 0;
}

static void close_files(const struct files *files)
{
    const int all[] = { files->in, files->out, files->errors };

    for (size_t i = 0; i < 3; i++)
        if (all[i] >= 0)
            close(all[i]);
}

/* 0 or an errno; *status as of waitpid(2). */
static int run(const struct files *files, int *status)
{
    char name[] = "gnuplot", defaults[] = "-d", standard[] = "-";
    char *argv[] = { name, defaults, standard, NULL };
    posix_spawn_file_actions_t actions;
    pid_t child;
    int failed = posix_spawn_file_actions_init(&actions);

    if (failed != 0)
        return failed;
    posix_spawn_file_actions_adddup2(&actions, files->in, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, files->out, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, files->errors, STDERR_FILENO);
    failed = posix_spawnp(&child, name, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    while (failed == 0 && waitpid(child, status, 0) < 0)
        if (errno != EINTR)
            failed = errno;
    return failed;
}

/* The whole file with a zero behind it, malloc'ed; NULL without memory. */
static char *contents(int fd)
{
    struct stat stat;
    char *text = fstat(fd, &stat) == 0 ? calloc(1, (size_t)stat.st_size + 1) : NULL;

    if (text != NULL && pread(fd, text, (size_t)stat.st_size, 0) != (ssize_t)stat.st_size) {
        free(text);
        return NULL;
    }
    return text;
}

/* ---- from a picture to a part of a page ---- */

/* Replaced wherever they stand. %u is the number of the plot, so that ids are those of one plot only. */
static const struct { const char *from, *to; } changes[] = {
    { " color=\"black\"", "" }, { " color=\"white\"", "" }, { " color=\"gray\"", "" }, { " color=\"red\"", "" },
    { "rgb(  1,   2,   3)", "currentColor" }, { "rgb(1,2,3)", "currentColor" }, { "'black'", "'currentColor'" },
    { " id='", " id='p%u" }, { " id=\"", " id=\"p%u" }, { "'#gp", "'#p%ugp" },
};

static size_t replace(FILE *out, const char *text, unsigned number)
{
    char changed[64];

    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        size_t length = strlen(changes[i].from);
        const char *place = strncmp(text, changes[i].from, length) == 0 ? strstr(changes[i].to, "%u") : NULL;
        if (strncmp(text, changes[i].from, length) != 0)
            continue;
        snprintf(changed, sizeof(changed), "%s", changes[i].to);
        if (place != NULL)
            snprintf(changed, sizeof(changed), "%.*s%u%s", (int)(place - changes[i].to), changes[i].to, number, place + 2);
        fputs(changed, out);
        return length;
    }
    return 0;
}

/* From <svg on, without the title: the page says what the plot shows. */
static char *adopt(const char *svg, unsigned number)
{
    char *text = NULL;
    size_t length, skipped;
    FILE *out = open_memstream(&text, &length);
    const char *title = strstr(svg, "<title>"), *end = strstr(svg, "</title>");

    for (const char *c = svg; out != NULL && *c != '\0';) {
        if (c == title && end != NULL) {
            c = end + strlen("</title>");
            continue;
        }
        skipped = replace(out, c, number);
        if (skipped == 0)
            fputc(*c++, out);
        else
            c += skipped;
    }
    if (out != NULL)
        fclose(out);
    return text;
}

static char *finish(const struct files *files, int status, unsigned number, struct zc_error *err)
{
    char *picture = contents(files->out), *said = contents(files->errors), *svg = NULL;
    const char *start = picture != NULL ? strstr(picture, "<svg") : NULL;

    if (said != NULL)
        said[strcspn(said + strspn(said, "\n"), "\n") + strspn(said, "\n")] = '\0';
    if (status == 0 && start != NULL && strstr(start, "</svg>") != NULL)
        svg = adopt(start, number);
    else
        zc_error_set(err, ZC_ERR_INTERNAL, -EIO, NULL, "gnuplot made no plot: %.200s", said != NULL && *said != '\0' ? said : "it gave no reason");
    free(picture);
    free(said);
    return svg;
}

char *gnuplot_svg(const char *script, unsigned number, struct zc_error *err)
{
    struct files files;
    int status = 0, failed = open_files(&files, script) ? run(&files, &status) : errno;
    char *svg = NULL;

    if (failed == ENOENT)
        zc_error_set(err, ZC_ERR_NOT_FOUND, -ENOENT, NULL,
                     "the plots need gnuplot: install the Debian package gnuplot-nox (--format csv, json and md work without)");
    else if (failed != 0)
        zc_error_set(err, ZC_ERR_RESOURCE, -failed, NULL, "cannot run gnuplot: %s", strerror(failed));
    else
        svg = finish(&files, status, number, err);
    close_files(&files);
    return svg;
}

char *gnuplot_quote(const char *text, char *quoted, size_t size)
{
    size_t used = 0;

    quoted[used++] = '"';
    for (; *text != '\0' && used + 3 < size; text++) {
        bool plain = isalnum((unsigned char)*text) || (unsigned char)*text >= 0x80 || strchr(" -_.,:;/()[]+=%<>&", *text) != NULL;
        quoted[used++] = plain ? *text : '?';
    }
    quoted[used++] = '"';
    quoted[used] = '\0';
    return quoted;
}
