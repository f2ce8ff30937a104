#include "cli/options_check.h"
#include "run/filename.h"
#include "run/output.h"

#include <stdio.h>
#include <string.h>

enum { INTERVAL_MIN_NS = 100000000 };

bool options_selective(const struct options *options)
{
    return options->name || options->container || options->cgroup || options->all ||
           options->subprocesses;
}

/* The files of a series, of a directory and of a name with directives are always new ones. */
static const char *wrong_with_force(const struct options *options, unsigned takes)
{
    const char *output = options->output;
    bool named = output && strcmp(output, "-") != 0;

    if (!options->force)
        return NULL;
    if (!named && !options->path)
        return "--force requires -o FILE: it replaces that file";
    if (named && takes & (TAKES_PATH | TAKES_SERIES) &&
        (options_is_series(options) || filename_has_directives(output) ||
         filename_is_directory(output)))
        return "--force replaces one file, named by -o FILE: the files of a series, of a directory "
               "and of a name with %p, %t, ... are always new ones";
    return NULL;
}

/* A series and watch always write files, and so does record, whose name is optional. */
static const char *wrong_with_mode(const struct options *options, unsigned takes)
{
    bool named = options->output && strcmp(options->output, "-") != 0;

    if (options->mode == OUTPUT_MODE_UNSET || named ||
        (takes & TAKES_SERIES && !options->output && !options->report.format))
        return NULL;
    return "--mode requires -o FILE: it is the mode of that file";
}

static bool is_empty_text(const char *text)
{
    return text && !*text;
}

static const char *wrong_with_file(const struct options *options)
{
    if (!options->file)
        return "no profile given: give a file, or - for stdin";
    if (options->base && strcmp(options->file, "-") == 0 && strcmp(options->base, "-") == 0)
        return "only one of the two profiles can come from stdin";
    if (options->between_count && !options->base)
        return "--between requires --base: it is for profiles between the two";
    for (size_t i = 0; i < options->between_count; i++)
        if (strcmp(options->between[i], "-") == 0)
            return "a profile given with --between cannot come from stdin";
    if (options->json && strcmp(options->report.format, "json") != 0)
        return "--json cannot be combined with another format (-f)";
    return NULL;
}

static const char one_output[] =
    "-o FILE works with one process only, unless FILE is a directory or contains %p";

const char *options_wrong_with_several(const struct options *options, unsigned takes)
{
    if (takes & TAKES_ONE)
        return "this verb works on one process at a time";
    if (options->path || options->thread || options->instance)
        return "--path, --thread and --instance work with one process only";
    if (options->output && takes & TAKES_SETTLE)
        return "-o FILE works with one process only";
    if (options->output && !filename_is_of_each(options->output))
        return one_output;
    return NULL;
}

/* True if a shell takes the text as one word, as it is. */
static bool is_plain_word(const char *text)
{
    return !text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                              "%+,-./:=@_")];
}

const char *options_fix(const struct options *options, const char *wrong, const char *verb,
                        char *out, size_t size)
{
    if (wrong != one_output)
        snprintf(out, size, "jeattach %s --help", verb);
    else if (is_plain_word(options->output) && strcmp(options->output, "-") != 0)
        snprintf(out, size, "-o '%%n-%%p.heap'; or make it a directory: mkdir -p %s",
                 options->output);
    else
        snprintf(out, size, "-o '%%n-%%p.heap', or -o DIR, which must exist");
    return out;
}

/* Returns an error in the choice of processes; NULL: none. */
static const char *wrong_with_choice(const struct options *options)
{
    bool pids = options->pid_count > 0;

    if (is_empty_text(options->name) || is_empty_text(options->container) ||
        is_empty_text(options->cgroup))
        return "-n, --container and --cgroup require a value that is not empty";
    if (options->subprocesses && !pids)
        return "-s requires a PID: it adds the descendants of that process";
    if (pids && options_selective(options) && !options->subprocesses)
        return "a PID cannot be combined with -n, --container, --cgroup or --all, except with -s";
    if (!pids && !options_selective(options))
        return "no process given: give a PID, or -n NAME";
    return NULL;
}

static const char *wrong_with_host(const struct options *options)
{
    if (options->pid_count)
        return "this verb lists all processes and takes no PID";
    return options_selective(options) ? wrong_with_choice(options) : NULL;
}

static const char *wrong_with_refresh(const struct options *options)
{
    if (options->interval_ns < INTERVAL_MIN_NS)
        return "the interval (-d) must be at least 100ms";
    return options->once && options->count ? "--once and --count exclude each other" : NULL;
}

static const char *wrong_with_rules(const struct options *options)
{
    if (!options->watch.rule_count)
        return "no rule given: add one, such as --when 'rss>80%'";
    if (!options->output)
        return "no output directory given: add -o DIR";
    return NULL;
}

static const char *wrong_with_way(const struct options *options, unsigned takes)
{
    if (options->call && options->no_call)
        return "--call and --no-call exclude each other";
    if (options->no_call && takes & TAKES_PATH && !options->output)
        return "--no-call requires -o FILE: without -o the process writes the profile, by a call";
    if (options->no_call && options->thread)
        return "--no-call cannot be combined with --thread: it stops no thread";
    if (options->no_call && options->full)
        return "--no-call and --full exclude each other: only a call makes jemalloc's report";
    return NULL;
}

/* Returns an error in the options of size classes, which are those of stats. */
static const char *wrong_with_bins(const struct options *options)
{
    if (!options->bins)
        return options->report.rows || options->report.sort ? "--rows and --sort require --bins"
                                                            : NULL;
    if (options->threads || options->full)
        return "--bins cannot be combined with --threads or --full";
    if (options->core)
        return "--bins requires a running process, not --core";
    return NULL;
}

/* Returns an error in the options of a core file, which is in place of a process. */
static const char *wrong_with_core(const struct options *options)
{
    if (is_empty_text(options->core))
        return "--core requires a file, or - for stdin";
    if (options->pid_count || options_selective(options))
        return "--core reads a process that has ended: it cannot be combined with a PID, -n, "
               "--container, --cgroup, --all or -s";
    if (options->path || options->thread || options->force_hooks || options->call)
        return "--path, --thread, --call and --force-hooks require a running process, not --core";
    if (options->full || options->threads || (options->json && options->prometheus))
        return "--full and --threads require a running process; --json and --prometheus exclude "
               "each other";
    if (options->duration_ns)
        return "-d watches a running process, not --core";
    if (options->output && filename_has_directives(options->output))
        return "with --core, -o names one file, without %p, %n, %t, ...";
    if (options->json && options_to_stdout(options))
        return "--json requires -o FILE: both would write to stdout";
    return NULL;
}

static const char *wrong_with_series(const struct options *options)
{
    if (!!options->every_ns + !!options->every_bytes + options->on_new_peak > 1)
        return "--every, --every-bytes and --on-new-peak exclude each other";
    if (options->step && !options->on_new_peak)
        return "--step requires --on-new-peak";
    if ((options->count || options->keep) && !options_is_series(options))
        return "--count and --keep require --every, --every-bytes or --on-new-peak";
    return NULL;
}

static const char *wrong_with_process(const struct options *options, unsigned takes)
{
    if (takes & TAKES_STATS && wrong_with_bins(options))
        return wrong_with_bins(options);
    if (options->core)
        return wrong_with_core(options);
    if (takes & TAKES_CORE && (options->program || options->report.root))
        return "--exe and --root require --core";
    if (wrong_with_choice(options))
        return wrong_with_choice(options);
    if (takes & TAKES_NAMES && options->name_count == 0 && !options->list)
        return "no name given: give at least one, or --list";
    if (options->output && options->path)
        return "-o and --path exclude each other: -o writes here, --path in the target";
    if (options->prometheus && (options->json || options->full))
        return "--prometheus excludes --json and --full";
    if (options->threads && (options->full || options->prometheus))
        return "--threads cannot be combined with --full or --prometheus";
    if (takes & TAKES_REFRESH && wrong_with_refresh(options))
        return wrong_with_refresh(options);
    if (wrong_with_way(options, takes))
        return wrong_with_way(options, takes);
    if (takes & TAKES_RULES && wrong_with_rules(options))
        return wrong_with_rules(options);
    if (takes & TAKES_SERIES && wrong_with_series(options))
        return wrong_with_series(options);
    return options->pid_count > 1 ? options_wrong_with_several(options, takes) : NULL;
}

const char *options_inconsistency(const struct options *options, unsigned takes)
{
    if (options->help || options->version)
        return NULL;
    if (wrong_with_mode(options, takes))
        return wrong_with_mode(options, takes);
    if (wrong_with_force(options, takes))
        return wrong_with_force(options, takes);
    if (takes & TAKES_FILE)
        return wrong_with_file(options);
    if (takes & TAKES_HOST)
        return wrong_with_host(options);
    return wrong_with_process(options, takes);
}
