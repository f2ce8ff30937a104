#include "cli/notes.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/output/language_hint.h"
#include "run/children.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { CHILDREN_SHOWN = 20 }; /* pids in one line, while the parent lives */

static const char *lack_text(enum symbols_lack lack, bool one)
{
    switch (lack) {
    case SYMBOLS_LACK_FILE:
        return "its file cannot be opened";
    case SYMBOLS_LACK_BUILD_ID:
        return "its file is not the one that was mapped";
    case SYMBOLS_LACK_ELF:
        return "its file is not an ELF file for this kind of machine";
    case SYMBOLS_LACK_TABLE:
        return "it is stripped, and no debug file was found";
    default:
        return one ? "no symbol covers it" : "no symbol covers them";
    }
}

/*
 * names: what would give them to JIT code; NULL: unknown. of_file: options can name another file,
 * or the directory of a container.
 */
static void print_missing_names(const struct symbols_coverage *coverage, const char *names,
                                bool of_file)
{
    const bool elsewhere =
        coverage->lack == SYMBOLS_LACK_FILE || coverage->lack == SYMBOLS_LACK_BUILD_ID;
    const char *path = coverage->path ? coverage->path : "";
    char clean[256];

    unsigned long long all = coverage->addresses, nameless = all - coverage->with_function;
    bool one = nameless == 1;

    if (*path)
        message("%s: %llu of %llu addresses ha%s no name: %s%s%s%s",
                message_clean(path, clean, sizeof clean), nameless, all, one ? "s" : "ve",
                lack_text(coverage->lack, one), coverage->err ? ": " : "",
                coverage->err ? strerror(coverage->err) : "",
                of_file && elsewhere ? "; give it with --exe FILE, or --root DIR of its container"
                                     : "");
    else if (names)
        message("JIT code has no names (%llu of %llu addresses); %s", nameless, all, names);
    else
        message("code without a file has no names (%llu of %llu addresses): it is of a JIT "
                "compiler and not in a perf map (/tmp/perf-PID.map), or of a library that is no "
                "longer loaded",
                nameless, all);
}

/* Says what was not read of a module's files, and why. */
static void print_unread(const struct symbols_coverage *coverage)
{
    static const char *const parts[] = {
        [SYMBOLS_TRUST_ALL] = "some of its names are not shown",
        [SYMBOLS_TRUST_TABLES] = "its debug information is not shown",
        [SYMBOLS_TRUST_RAW] = "its names are not demangled",
        [SYMBOLS_TRUST_NONE] = "its names are not shown",
    };
    static const char *const reasons[] = {
        [SYMBOLS_LOSS_CRASHED] = "the process that read it crashed",
        [SYMBOLS_LOSS_MEMORY] = "it needs too much memory",
        [SYMBOLS_LOSS_TIME] = "it needs too much time",
        [SYMBOLS_LOSS_INTERRUPTED] = "there was no time left",
        [SYMBOLS_LOSS_NO_READER] = "no process could be started to read it",
        [SYMBOLS_LOSS_WORK] = "its debug file would take too long to check or to unpack",
    };
    char clean[256];

    message("%s: %s: %s", message_clean(coverage->path, clean, sizeof clean),
            parts[coverage->with_function ? coverage->trust : SYMBOLS_TRUST_NONE],
            reasons[coverage->loss]);
}

/* Nobody has done anything wrong: right after `on` this is the usual case. */
static void print_empty(const struct run_note *note)
{
    char period[UNITS_TEXT];

    if (note->count > 1)
        message("the profile has no samples: while prof.active is true, jemalloc takes one for "
                "every %s that are allocated, on average, and keeps it until that memory is freed",
                units_bytes((double)note->count, period));
    else
        message("the profile has no samples: jemalloc takes them only while prof.active is true");
}

static void print_unmatched(const struct profile_options *report, uint64_t which)
{
    const char *option = which == FILTER_FOCUS    ? "focus"
                         : which == FILTER_IGNORE ? "ignore"
                         : which == FILTER_HIDE   ? "hide"
                                                  : "show";
    const char *pattern = which == FILTER_FOCUS    ? report->focus
                          : which == FILTER_IGNORE ? report->ignore
                          : which == FILTER_HIDE   ? report->hide
                                                   : report->show;
    char clean[256];

    message("no call of any stack matches --%s '%s'%s", option,
            message_clean(pattern ? pattern : "", clean, sizeof clean),
            which == FILTER_FOCUS || which == FILTER_SHOW ? ": nothing is left to show" : "");
}

void notes_print_profile(void *ctx, const struct run_note *note)
{
    const struct options *options = ctx;
    const struct symbols_coverage *coverage = note->coverage;
    const unsigned long long count = note->count;
    char first[UNITS_TEXT], second[UNITS_TEXT], module[256], path[256];

    if (options->quiet)
        return;
    switch (note->kind) {
    case NOTE_PROFILE_CUT:
        message("the profile is truncated: it ends within a line, which is not counted");
        break;
    case NOTE_PROFILE_ODD_LINES:
        message("%llu line%s of the profile ha%s an unknown form and %s ignored", count,
                count == 1 ? "" : "s", count == 1 ? "s" : "ve", count == 1 ? "was" : "were");
        break;
    case NOTE_PROFILE_ODD_MAPS:
        message("%llu line%s of MAPPED_LIBRARIES ha%s an unknown form: some addresses may have no "
                "name",
                count, count == 1 ? "" : "s", count == 1 ? "s" : "ve");
        break;
    case NOTE_PROFILE_NO_MAPS:
        message("the profile has no MAPPED_LIBRARIES section: its addresses have no names");
        break;
    case NOTE_FILTER_UNMATCHED:
        print_unmatched(&options->report, note->count);
        break;
    case NOTE_PROFILE_EMPTY:
        print_empty(note);
        break;
    case NOTE_PROFILES_OVERLAP:
        message("if the profiles are of one process, memory that stays in use counts in each; to "
                "compare two: jeattach report NEW --base OLD");
        break;
    case NOTE_PROFILE_DOUBT:
        message("%s", message_clean(note->why, module, sizeof module));
        break;
    case NOTE_NAMES_MISSING:
    case NOTE_NAMES_UNREAD:
    case NOTE_SPLIT_MISSING:
        if (!coverage)
            message("%llu more module%s", count, count == 1 ? " lacks names" : "s lack names");
        else if (note->kind == NOTE_NAMES_MISSING)
            print_missing_names(coverage, NULL,
                                (options->file || options->core) && !options->report.root);
        else if (note->kind == NOTE_NAMES_UNREAD)
            print_unread(coverage);
        else
            message("%s: the inlined calls of %llu unit%s are missing: the .dwo file%s not here: "
                    "%s",
                    message_clean(coverage->path, module, sizeof module),
                    (unsigned long long)coverage->split_missing,
                    coverage->split_missing == 1 ? "" : "s",
                    coverage->split_missing == 1 ? " is" : "s are",
                    message_clean(coverage->split_path ? coverage->split_path : "?", path,
                                  sizeof path));
        break;
    case NOTE_PERF_MAP_UNUSED:
        if (count == EPERM)
            message("the perf map of the process (/tmp/perf-PID.map) is not used: it belongs to "
                    "another user");
        else if (count == EFBIG)
            message("the perf map is not used: it gives too many names to the same addresses");
        else
            message("the perf map is not used: %s", strerror((int)count));
        break;
    case NOTE_STACKS_TRUNCATED:
        message("%llu stack%s as deep as jemalloc records: outer calls may be missing "
                "([truncated])",
                count, count == 1 ? " is" : "s are");
        break;
    case NOTE_PERIODS_DIFFER:
        message("the two profiles have different sampling periods: %s and %s",
                units_bytes((double)note->count, first), units_bytes((double)note->total, second));
        break;
    case NOTE_OUTPUT_SLOW:
        message("the file system took %s to write the file and flush it to disk; no thread was "
                "stopped meanwhile",
                units_duration(note->count, first));
        break;
    default:
        break;
    }
}

/* Names each of a few, so that the command works whatever becomes of their parents. */
static void print_children(const struct job *job, const struct children *children)
{
    const struct target *target = &job->attachment->target;
    const size_t shown = children->count < CHILDREN_LISTED ? children->count : CHILDREN_LISTED;
    const bool one = children->count == 1;
    char which[CHILDREN_LISTED * 12 + 32] = "";
    struct fault ignored;

    for (size_t i = 0; i < shown; i++)
        text_append(which, sizeof which, " %d", (int)children->first[i]);
    if (children->count > shown)
        text_append(which, sizeof which, " and %zu more", children->count - shown);
    if (shown > CHILDREN_SHOWN && target_check(target, &ignored) == FAULT_NONE)
        snprintf(which, sizeof which, " -s --all %d", (int)target->pid);
    message("prof.active %s true in %zu process%s that %d forked meanwhile; to switch %s off: "
            "jeattach off%s",
            children->active_at ? "is" : "may be", children->count, one ? "" : "es",
            (int)target->pid, one ? "it" : "them", which);
}

void notes_print(void *ctx, const struct run_note *note)
{
    const struct job *job = ctx;
    const struct subject subject = job_subject(job);
    const bool quiet = job->options->quiet, verbose = job->options->verbose;
    const int pid = (int)job->attachment->target.pid;
    char text[512];

    switch (note->kind) {
    case NOTE_NEW_THREADS_SILENT:
        message("new threads are not sampled (prof.thread_active_init is false)");
        break;
    case NOTE_THREADS_MISSED:
        message(
            "%llu of %llu threads do not sample: they reached no safe point before the timeout, "
            "and jemalloc %s does not make them sample again",
            (unsigned long long)note->count, (unsigned long long)note->total, note->version);
        break;
    case NOTE_THREADS_UNSURE:
        message("%llu of %llu threads sample only if they have not sampled before, which a build "
                "without statistics does not show (see jeattach on --help)",
                (unsigned long long)note->count, (unsigned long long)note->total);
        break;
    case NOTE_ALREADY_ACTIVE:
        if (verbose)
            message("prof.active is already true, and stays true until the end");
        break;
    case NOTE_SHARED:
        if (verbose)
            message("prof.active is already true because of another run of jeattach; it stays true "
                    "until the end of the last one, which switches it off");
        break;
    case NOTE_SWITCHED_ON:
        if (verbose)
            message("prof.active: false -> true until the end of this run; if jeattach is killed "
                    "before, switch it off with: jeattach off %d",
                    pid);
        break;
    case NOTE_SWITCHED_BY_ANOTHER:
        message("prof.active of %d was switched %s by another program; it is left that way", pid,
                note->active ? "on" : "off");
        break;
    case NOTE_NOT_SETTLED:
        message("prof.active stays true for another run of jeattach: what is allocated while it "
                "settles is in the result, too");
        break;
    case NOTE_CHILDREN_LEFT:
        print_children(job, note->children);
        break;
    case NOTE_NOTHING_SAMPLED:
        print_empty(note);
        break;
    case NOTE_PROFILES_SKIPPED:
        message("writing a profile takes longer than --every: some profiles are skipped");
        break;
    case NOTE_KEPT:
        if (verbose)
            message("a profile of %s is kept, to be written if the process ends",
                    units_bytes((double)note->count, text));
        break;
    case NOTE_NOT_KEPT:
        if (!quiet)
            message("if the process ends before, %s: %s",
                    note->more ? "only an older profile is written" : "no profile is left",
                    message_cause(&subject, note->fault, text, sizeof text));
        break;
    case NOTE_UNREADABLE:
        if (!quiet)
            message("%s; a thread is stopped for a call instead",
                    message_cause(&subject, note->fault, text, sizeof text));
        break;
    case NOTE_CALL_NEEDED:
        if (verbose)
            message("a call is needed: %s", note->why);
        break;
    case NOTE_HOLD_RETRIED:
        message("the process cannot be stopped yet, trying again: %s",
                message_cause(&subject, note->fault, text, sizeof text));
        break;
    case NOTE_RESTORE_RETRIED:
        message("prof.active is not back to %s yet, trying again: %s",
                note->active ? "true" : "false",
                message_cause(&subject, note->fault, text, sizeof text));
        break;
    case NOTE_NAMES_MISSING:
        if (note->coverage && !quiet) {
            const struct target *target = &job->attachment->target;
            const unsigned kinds = heap_kinds_of_modules(&job->attachment->modules);
            print_missing_names(note->coverage, language_jit_text(kinds, target, text),
                                target->record && !job->options->report.root);
            break;
        }
        /* fallthrough */
    default:
        notes_print_profile((void *)job->options, note);
        break;
    }
}
