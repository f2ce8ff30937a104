#include "cli/notes.h"
#include "base/units.h"
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

static void print_missing_names(const struct symbols_coverage *coverage)
{
    const char *path = coverage->path ? coverage->path : "";
    char clean[256];

    unsigned long long all = coverage->addresses, nameless = all - coverage->with_function;
    bool one = nameless == 1;

    if (*path)
        message("%s: %llu of %llu addresses ha%s no name: %s%s%s",
                message_clean(path, clean, sizeof clean), nameless, all, one ? "s" : "ve",
                lack_text(coverage->lack, one), coverage->err ? ": " : "",
                coverage->err ? strerror(coverage->err) : "");
    else
        message(
            "%llu of %llu addresses in memory without a file ha%s no name: code of a JIT compiler "
            "that is not in a perf map (/tmp/perf-PID.map), or of a library that is no longer "
            "loaded",
            nameless, all, one ? "s" : "ve");
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

static void print_missing(const struct run_note *note)
{
    const struct symbols_coverage *coverage = note->coverage;
    char module[256], path[256];

    if (!coverage)
        message("%llu more module%s", (unsigned long long)note->count,
                note->count == 1 ? " lacks names" : "s lack names");
    else if (note->kind == NOTE_NAMES_MISSING)
        print_missing_names(coverage);
    else if (note->kind == NOTE_NAMES_UNREAD)
        print_unread(coverage);
    else
        message(
            "%s: the inlined calls of %llu unit%s are missing: the .dwo file%s not here: %s",
            message_clean(coverage->path, module, sizeof module),
            (unsigned long long)coverage->split_missing, coverage->split_missing == 1 ? "" : "s",
            coverage->split_missing == 1 ? " is" : "s are",
            message_clean(coverage->split_path ? coverage->split_path : "?", path, sizeof path));
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

static void print_slow_output(const struct run_note *note)
{
    char took[UNITS_TEXT];

    message("the file system took %s to write the file and flush it to disk; no thread was stopped "
            "meanwhile",
            units_duration(note->count, took));
}

static void print_truncated_stacks(unsigned long long count)
{
    message("%llu stack%s as deep as jemalloc records: %s in [truncated]", count,
            count == 1 ? " is" : "s are", count == 1 ? "it ends" : "they end");
}

static void print_periods(const struct run_note *note)
{
    char first[UNITS_TEXT], second[UNITS_TEXT];

    message("the two profiles have different sampling periods: %s and %s",
            units_bytes((double)note->count, first), units_bytes((double)note->total, second));
}

static void print_odd_lines(unsigned long long count)
{
    message("%llu line%s of the profile ha%s an unknown form and %s ignored", count,
            count == 1 ? "" : "s", count == 1 ? "s" : "ve", count == 1 ? "was" : "were");
}

static void print_maps(const struct run_note *note)
{
    if (note->kind == NOTE_PROFILE_NO_MAPS)
        message("the profile has no MAPPED_LIBRARIES section: its addresses have no names");
    else
        message("%llu line%s of MAPPED_LIBRARIES ha%s an unknown form: some addresses may have no "
                "name",
                (unsigned long long)note->count, note->count == 1 ? "" : "s",
                note->count == 1 ? "s" : "ve");
}

static void print_perf_map(const struct run_note *note)
{
    if (note->count == EPERM)
        message("the perf map of the process (/tmp/perf-PID.map) is not used: it belongs to "
                "another user");
    else if (note->count == EFBIG)
        message("the perf map is not used: it gives too many names to the same addresses");
    else
        message("the perf map is not used: %s", strerror((int)note->count));
}

/* Something is odd about the text of the profile. */
static void print_oddity(const struct run_note *note)
{
    if (note->kind == NOTE_PROFILE_CUT)
        message("the profile is truncated: it ends within a line, which is not counted");
    else if (note->kind == NOTE_PROFILE_ODD_LINES)
        print_odd_lines(note->count);
    else
        print_maps(note);
}

void notes_print_profile(void *ctx, const struct run_note *note)
{
    const struct options *options = ctx;

    if (options->quiet)
        return;
    switch (note->kind) {
    case NOTE_PROFILE_CUT:
    case NOTE_PROFILE_ODD_LINES:
    case NOTE_PROFILE_ODD_MAPS:
    case NOTE_PROFILE_NO_MAPS:
        print_oddity(note);
        break;
    case NOTE_FILTER_UNMATCHED:
        print_unmatched(&options->report, note->count);
        break;
    case NOTE_PROFILE_EMPTY:
        print_empty(note);
        break;
    case NOTE_NAMES_MISSING:
    case NOTE_NAMES_UNREAD:
    case NOTE_SPLIT_MISSING:
        print_missing(note);
        break;
    case NOTE_PERF_MAP_UNUSED:
        print_perf_map(note);
        break;
    case NOTE_STACKS_TRUNCATED:
        print_truncated_stacks(note->count);
        break;
    case NOTE_PERIODS_DIFFER:
        print_periods(note);
        break;
    default:
        if (note->kind == NOTE_OUTPUT_SLOW)
            print_slow_output(note);
        break;
    }
}

static void print_retried(const struct job *job, const struct run_note *note)
{
    const struct subject subject = job_subject(job);
    char cause[512];

    message_cause(&subject, note->fault, cause, sizeof cause);
    if (note->kind == NOTE_HOLD_RETRIED)
        message("the process cannot be stopped yet, trying again: %s", cause);
    else
        message("prof.active is not back to %s yet, trying again: %s",
                note->active ? "true" : "false", cause);
}

static void print_unreadable(const struct job *job, const struct run_note *note)
{
    const struct subject subject = job_subject(job);
    char cause[512];

    if (!job->options->quiet)
        message("%s; a thread is stopped for a call instead",
                message_cause(&subject, note->fault, cause, sizeof cause));
}

static void print_kept(const struct job *job, const struct run_note *note)
{
    const struct subject subject = job_subject(job);
    char text[512];

    if (note->kind == NOTE_KEPT && job->options->verbose)
        message("a profile of %s is kept, to be written if the process ends",
                units_bytes((double)note->count, text));
    else if (note->kind == NOTE_NOT_KEPT && !job->options->quiet)
        message("if the process ends before, %s: %s",
                note->more ? "only an older profile is written" : "no profile is left",
                message_cause(&subject, note->fault, text, sizeof text));
}

/* Most of them have the cause of a failure. */
static void print_attempt(const struct job *job, const struct run_note *note)
{
    if (note->kind == NOTE_UNREADABLE)
        print_unreadable(job, note);
    else if (note->kind == NOTE_CALL_NEEDED) {
        if (job->options->verbose)
            message("a call is needed: %s", note->why);
    } else if (note->kind == NOTE_KEPT || note->kind == NOTE_NOT_KEPT)
        print_kept(job, note);
    else
        print_retried(job, note);
}

/* Names each of a few, so that the command works whatever becomes of their parents. */
static void print_children(const struct job *job, const struct children *children)
{
    const struct target *target = &job->attachment->target;
    const size_t shown = children->count < CHILDREN_LISTED ? children->count : CHILDREN_LISTED;
    const bool one = children->count == 1;
    char which[CHILDREN_LISTED * 12 + 32];
    struct fault ignored;
    size_t len = 0;

    for (size_t i = 0; i < shown; i++)
        len += (size_t)snprintf(which + len, sizeof which - len, " %d", (int)children->first[i]);
    if (children->count > shown)
        snprintf(which + len, sizeof which - len, " and %zu more", children->count - shown);
    if (shown > CHILDREN_SHOWN && target_check(target, &ignored) == FAULT_NONE)
        snprintf(which, sizeof which, " -s --all %d", (int)target->pid);
    message("prof.active %s true in %zu process%s that %d forked meanwhile; to switch %s off: "
            "jeattach off%s",
            children->active_at ? "is" : "may be", children->count, one ? "" : "es",
            (int)target->pid, one ? "it" : "them", which);
}

static void print_switched(const struct job *job, const struct run_note *note)
{
    if (note->children)
        print_children(job, note->children);
    else if (note->kind == NOTE_SWITCHED_BY_ANOTHER)
        message("prof.active of %d was switched %s by another program; it is left that way",
                (int)job->attachment->target.pid, note->active ? "on" : "off");
    else if (note->kind == NOTE_NOT_SETTLED)
        message("prof.active stays true for another run of jeattach: what is allocated while it "
                "settles is in the result, too");
    else if (!job->options->verbose)
        return;
    else if (note->kind == NOTE_ALREADY_ACTIVE)
        message("prof.active is already true, and stays true until the end");
    else if (note->kind == NOTE_SHARED)
        message("prof.active is already true because of another run of jeattach; it stays true "
                "until the end of the last one, which switches it off");
    else
        message("prof.active: false -> true until the end; if jeattach is killed before, switch it "
                "off with: jeattach off %d",
                (int)job->attachment->target.pid);
}

static void print_threads(const struct run_note *note)
{
    unsigned long long count = note->count, total = note->total;

    if (note->kind == NOTE_NEW_THREADS_SILENT)
        message("new threads are not sampled (prof.thread_active_init is false)");
    else if (note->kind == NOTE_THREADS_MISSED)
        message("%llu of %llu threads do not sample: they did not reach a safe point in time, and "
                "jemalloc %s does not make them sample again",
                count, total, note->version);
    else
        message("%llu of %llu threads sample only if they have not sampled before, which a build "
                "without statistics does not show (see jeattach on --help)",
                count, total);
}

void notes_print(void *ctx, const struct run_note *note)
{
    const struct job *job = ctx;

    switch (note->kind) {
    case NOTE_NEW_THREADS_SILENT:
    case NOTE_THREADS_MISSED:
    case NOTE_THREADS_UNSURE:
        print_threads(note);
        break;
    case NOTE_ALREADY_ACTIVE:
    case NOTE_SWITCHED_ON:
    case NOTE_SHARED:
    case NOTE_SWITCHED_BY_ANOTHER:
    case NOTE_NOT_SETTLED:
    case NOTE_CHILDREN_LEFT:
        print_switched(job, note);
        break;
    case NOTE_NOTHING_SAMPLED:
        print_empty(note);
        break;
    case NOTE_PROFILES_SKIPPED:
        message("writing a profile takes longer than --every: some profiles are skipped");
        break;
    case NOTE_KEPT:
    case NOTE_NOT_KEPT:
    case NOTE_UNREADABLE:
    case NOTE_CALL_NEEDED:
    case NOTE_HOLD_RETRIED:
    case NOTE_RESTORE_RETRIED:
        print_attempt(job, note);
        break;
    default:
        notes_print_profile((void *)job->options, note);
        break;
    }
}
