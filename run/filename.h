/*
 * Names of files that are made from what a process is:
 *
 *   %n  its name          redis-server
 *   %p  its pid           4242
 *   %P  its pid as it sees itself, in its own pid namespace
 *   %t  the time, UTC     20261120T102233Z
 *   %r  its RSS           41MiB
 *   %h  the host's name   db7
 *   %%  a percent sign
 *
 * The target chooses its name: what is put in holds no slash and no control
 * character, and does not begin with a dot or a dash.
 */
#pragma once

#include "attach/target.h"

#include <time.h>

/* With an extension behind it: redis-server-4242-20261120T102233Z-41MiB.heap */
#define FILENAME_DEFAULT "%n-%p-%t-%r"

enum { FILENAME_MAX_BYTES = 4096, FILENAME_TEXT_MAX = 80 };

struct filename_facts {
    char name[FILENAME_TEXT_MAX], host[FILENAME_TEXT_MAX]; /* untrusted */
    int pid, ns_pid;
    time_t time; /* of the wall clock */
    uint64_t rss_bytes;
};

/* What is so now. */
void filename_facts(struct filename_facts *facts, const struct target *target);

/* What is wrong with a template. */
enum filename_flaw {
    FILENAME_GOOD,
    FILENAME_EMPTY,
    FILENAME_TOO_LONG,
    FILENAME_DIRECTIVE, /* another letter after % than those above */
    FILENAME_VARIES,    /* %t or %r in the directory, which must exist from the beginning */
};

enum filename_flaw filename_check(const char *template);
/* Does it have anything to put in? */
bool filename_has_directives(const char *template);
/* Does it name a directory, as filename_expand takes it? */
bool filename_is_directory(const char *template);
/* Is it another file for each process, by %p or as a directory? */
bool filename_is_of_each(const char *template);

/*
 * The template with the facts put in. False: longer than size. A template that
 * names a directory ("dir/", or one that exists) is continued by
 * FILENAME_DEFAULT and the extension (".heap").
 */
bool filename_expand(const char *template, const char *extension,
                     const struct filename_facts *facts, char *out, size_t size);

/*
 * The same name with a number before its extension: "x-2.pb.gz". number 0: as
 * it is. False: longer than size.
 */
bool filename_number(const char *path, unsigned number, char *out, size_t size);
