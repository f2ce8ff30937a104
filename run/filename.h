/*
 * File names with facts of a process in them:
 *
 *   %n  its name          redis-server
 *   %p  its pid           4242
 *   %P  its pid in its own pid namespace
 *   %t  the time, UTC     20261120T102233Z
 *   %r  its RSS           41MiB
 *   %h  the host's name   db7
 *   %%  a percent sign
 *
 * The target chooses its own name: of %n and %h only letters, digits and . _ + - @ are
 * kept, and the first is neither a dot nor a dash. All others become '_'.
 */
#pragma once

#include "attach/target.h"

#include <time.h>

/* With an extension: redis-server-4242-20261120T102233Z-41MiB.heap */
#define FILENAME_DEFAULT "%n-%p-%t-%r"

enum { FILENAME_MAX_BYTES = 4096, FILENAME_TEXT_MAX = 80 };

struct filename_facts {
    char name[FILENAME_TEXT_MAX], host[FILENAME_TEXT_MAX]; /* untrusted */
    int pid, ns_pid;
    time_t time; /* of the wall clock */
    uint64_t rss_bytes;
};

/* Reads the facts as they are now. */
void filename_facts(struct filename_facts *facts, const struct target *target);

/* Writes a name as %n does. Returns out. */
const char *filename_clean(const char *name, char out[FILENAME_TEXT_MAX]);

/* Flaws of a template. */
enum filename_flaw {
    FILENAME_GOOD,
    FILENAME_EMPTY,
    FILENAME_TOO_LONG,
    FILENAME_DIRECTIVE, /* another letter after % than those above */
    FILENAME_VARIES,    /* %t or %r in the directory, which must exist from the beginning */
};

enum filename_flaw filename_check(const char *template);
/* True if the template contains a directive. */
bool filename_has_directives(const char *template);
/* True if filename_expand takes it as a directory. */
bool filename_is_directory(const char *template);
/* True if each process gets its own file, by %p or because it is a directory. */
bool filename_is_of_each(const char *template);

/*
 * Expands the template; false if the result is longer than size. If it names a
 * directory ("dir/", or an existing one), FILENAME_DEFAULT and the extension
 * (".heap") are appended.
 */
bool filename_expand(const char *template, const char *extension,
                     const struct filename_facts *facts, char *out, size_t size);

/* Changes the facts to those of a profile that was taken before: its CLOCK_REALTIME, and the RSS.
 */
void filename_facts_then(struct filename_facts *facts, uint64_t time_ns, uint64_t rss_bytes);

/*
 * Inserts a word before the extension: "x-cut-short.pb.gz". False if the result is longer than
 * size.
 */
bool filename_mark(const char *path, const char *word, char *out, size_t size);
/*
 * Inserts a number before the extension: "x-2.pb.gz". number 0: copies the path.
 * False if the result is longer than size.
 */
bool filename_number(const char *path, unsigned number, char *out, size_t size);
