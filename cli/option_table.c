#include "cli/option_table.h"
#include "base/util.h"
#include "cli/options.h"

#include <string.h>

#define AT(member) offsetof(struct options, member)
#define NO_TARGET  (TAKES_FILE | TAKES_HOST)
#define VIEW       (TAKES_FORMAT | TAKES_REFRESH)

const struct option_row option_rows[] = {
    {"when", '\0', OPTION_RULE, 0, TAKES_RULES, 0, OPTIONS_OF_VERB, "RULE",
     "what is waited for; up to 8 rules (required)"},
    {"duration", 'd', OPTION_DURATION, AT(duration_ns), TAKES_DURATION | TAKES_REFRESH, 0,
     OPTIONS_OF_VERB, "D", "how long to sample: 30s (default), 5m, 1h"},
    {"settle", '\0', OPTION_DURATION, AT(settle_ns), TAKES_SETTLE, 0, OPTIONS_OF_VERB, "D",
     "switch sampling off for this long before the second profile, so that short-lived memory is "
     "freed and does not count as growth"},
    {"path", '\0', OPTION_TEXT, AT(path), TAKES_PATH, 0, OPTIONS_OF_VERB, "P",
     "write to this path in the target, relative to its working directory"},
    {"output", 'o', OPTION_TEXT, AT(output), TAKES_OUTPUT, 0, OPTIONS_OF_VERB, "FILE",
     "write to this file, completely or not at all; - is stdout (default)"},
    {"force", '\0', OPTION_FLAG, AT(force), TAKES_FORMAT, 0, OPTIONS_OF_VERB, NULL,
     "replace the file of -o if it exists; without it, existing files are never overwritten"},
    {"mode", '\0', OPTION_MODE, AT(mode), TAKES_OUTPUT, 0, OPTIONS_OF_VERB, "MODE",
     "give the file of -o this mode, in octal, without the bits of the umask (default 0600; a "
     "replaced file of yours keeps its mode)"},
    {"format", 'f', OPTION_TEXT, AT(report.format), TAKES_FORMAT, 0, OPTIONS_OF_VERB, "F",
     "stream the profile in this format, with symbols from the files that the target has mapped; "
     "formats: jeattach report --help. Without -o: to stdout"},
    {"base", '\0', OPTION_TEXT, AT(base), TAKES_FILE, 0, OPTIONS_OF_VERB, "FILE",
     "show the growth since this profile; changes marked ~ or grey are within the sampling error"},
    {"between", '\0', OPTION_BETWEEN, 0, TAKES_FILE, 0, OPTIONS_OF_VERB, "FILE",
     "with --base: a profile of the same process from the time between the two; may be repeated, "
     "in the order of time. Two or more show how much of the growth is noise, and whether it has "
     "stopped"},
    {"core", '\0', OPTION_TEXT, AT(core), TAKES_CORE, 0, OPTIONS_OF_VERB, "FILE",
     "read a process that has ended from its core file, in place of a PID; - is stdin, for a "
     "compressed one: zstd -dc core.zst | jeattach ... --core -"},
    {"exe", '\0', OPTION_TEXT, AT(program), TAKES_FILE | TAKES_CORE, 0, OPTIONS_OF_VERB, "FILE",
     "the program, if it is no longer at its path"},
    {"root", '\0', OPTION_TEXT, AT(report.root), TAKES_FILE | TAKES_CORE, 0, OPTIONS_OF_VERB, "DIR",
     "look for the binaries below this directory"},
    {"perf-map", '\0', OPTION_TEXT, AT(report.perf_map), TAKES_FILE, 0, OPTIONS_OF_VERB, "FILE",
     "take names of code made at run time from this file, in the form of /tmp/perf-PID.map"},
    {"every", '\0', OPTION_DURATION, AT(every_ns), TAKES_SERIES | TAKES_REFRESH, 0, OPTIONS_OF_VERB,
     "D", "take a series: one profile every D, until -d, --count or Ctrl-C"},
    {"every-bytes", '\0', OPTION_BYTES, AT(every_bytes), TAKES_SERIES, 0, OPTIONS_OF_VERB, "SIZE",
     "take a series: one profile each time that the process has allocated SIZE more (512M, 1GiB), "
     "freed or not, and one at the end"},
    {"on-new-peak", '\0', OPTION_FLAG, AT(on_new_peak), TAKES_SERIES, 0, OPTIONS_OF_VERB, NULL,
     "take a series: one profile each time that the RSS is 5 % above its value at the start and at "
     "all profiles before"},
    {"step", '\0', OPTION_NUMBER, AT(step), TAKES_SERIES, 0, OPTIONS_OF_VERB, "N",
     "with --on-new-peak: N percent instead of 5"},
    {"count", '\0', OPTION_NUMBER, AT(count),
     TAKES_SERIES | TAKES_REFRESH | TAKES_RULES | TAKES_PEEK, 0, OPTIONS_OF_VERB, "N",
     "end the series after N profiles"},
    {"once", '\0', OPTION_FLAG, AT(once), TAKES_REFRESH | TAKES_RULES, 0, OPTIONS_OF_VERB, NULL,
     "end after the first profile"},
    {"cooldown", '\0', OPTION_DURATION, AT(watch.cooldown_ns), TAKES_RULES, 0, OPTIONS_OF_VERB, "D",
     "wait at least D before the same rule fires again (default 10m)"},
    {"exec", '\0', OPTION_TEXT, AT(watch.command), TAKES_RULES, 0, OPTIONS_OF_VERB, "COMMAND",
     "start this line of sh(1), with JEATTACH_PID, _NAME, _RULE, _RSS, _LIMIT and _PROFILE in its "
     "environment"},
    {"keep", '\0', OPTION_NUMBER, AT(keep), TAKES_SERIES | TAKES_RULES, 0, OPTIONS_OF_VERB, "N",
     "keep the last N profiles of the series; remove older ones"},
    {"on", '\0', OPTION_FLAG, AT(watch.on), TAKES_RULES, 0, OPTIONS_OF_VERB, NULL,
     "switch profiling on while it is watched, again if another program switches it off"},
    {"sort", '\0', OPTION_TEXT, AT(report.sort), TAKES_REFRESH | TAKES_FILE | TAKES_STATS, 0,
     OPTIONS_OF_VERB, "BY", "cur: by the memory that a site holds (default); growth"},
    {"list", '\0', OPTION_FLAG, AT(list), TAKES_NAMES, 0, OPTIONS_OF_VERB, NULL,
     "list names and their values: those that cost nothing to read; with a PATTERN (* and ?) all "
     "that match: 'opt.*', 'stats.arenas.0.bins.3.*'"},
    {"full", '\0', OPTION_FLAG, AT(full), TAKES_STATS, 0, OPTIONS_OF_VERB, NULL,
     "print jemalloc's own report as text, with --json as JSON; it is made by a call"},
    {"prometheus", '\0', OPTION_FLAG, AT(prometheus), TAKES_STATS, 0, OPTIONS_OF_VERB, NULL,
     "print the rows as Prometheus metrics"},
    {"threads", '\0', OPTION_FLAG, AT(threads), TAKES_STATS, 0, OPTIONS_OF_VERB, NULL,
     "show each thread: what it has allocated and freed since it started, and whether it "
     "samples; read from memory, without a call"},
    {"bins", '\0', OPTION_FLAG, AT(bins), TAKES_STATS, 0, OPTIONS_OF_VERB, NULL,
     "show each size class: live objects and bytes, free space in its slabs"},
    {"samples", '\0', OPTION_FLAG, AT(by_samples), TAKES_GROWTH, 0, OPTIONS_OF_VERB, NULL,
     "take stacks only from the samples of profiling; fail where it is not enabled"},
    {"faults", '\0', OPTION_FLAG, AT(by_faults), TAKES_GROWTH, 0, OPTIONS_OF_VERB, NULL,
     "take stacks only from page faults: profiling is not switched on"},
    {"period", '\0', OPTION_NUMBER, AT(period), TAKES_GROWTH, 0, OPTIONS_OF_VERB, "N",
     "take a sample every N page faults of each thread (default: adapts to the rate)"},
    {"show-bytes", '\0', OPTION_FLAG, AT(show_bytes), TAKES_PEEK, 0, OPTIONS_OF_VERB, NULL,
     "also print the first bytes of examples: a heap holds secrets"},
    {"no-call", '\0', OPTION_FLAG, AT(no_call), TAKES_WAY, 0, OPTIONS_OF_VERB, NULL,
     "make no call and stop nothing; fail if that is not possible"},
    {"call", '\0', OPTION_FLAG, AT(call), TAKES_CALL, 0, OPTIONS_OF_VERB, NULL,
     "make a thread of the process call jemalloc, even where no call is needed"},
    {"repair", '\0', OPTION_FLAG, AT(repair), TAKES_REPAIR, 0, OPTIONS_OF_VERB, NULL,
     "also switch on the threads that do not sample because thread.prof.active is false in them: "
     "each is stopped once; and prof.thread_active_init, if it is false"},
    {"allow", '\0', OPTION_ALLOW, AT(allow), TAKES_HOOKS | TAKES_ALLOW_RESET | TAKES_STATS, 0,
     OPTIONS_OF_VERB, "WHAT",
     "hooks: make the call even if functions of the application may run in it (extent hooks of its "
     "arenas, a hook for finished dumps); if one takes a lock that the stopped thread owns, both "
     "wait forever"},

    {"focus", '\0', OPTION_TEXT, AT(report.focus), VIEW, 0, OPTIONS_PROFILE, "RE",
     "show only stacks with a call that matches this regular expression: by its function, its "
     "source file or its mapped file"},
    {"ignore", '\0', OPTION_TEXT, AT(report.ignore), VIEW, 0, OPTIONS_PROFILE, "RE",
     "omit stacks with a call that matches"},
    {"hide", '\0', OPTION_TEXT, AT(report.hide), VIEW, 0, OPTIONS_PROFILE, "RE",
     "omit matching calls from their stacks"},
    {"show", '\0', OPTION_TEXT, AT(report.show), VIEW, 0, OPTIONS_PROFILE, "RE",
     "omit all other calls from their stacks"},
    {"by-thread", '\0', OPTION_FLAG, AT(report.by_thread), TAKES_FORMAT, 0, OPTIONS_PROFILE, NULL,
     "show threads, by name, as the outermost calls"},
    {"allocator", '\0', OPTION_FLAG, AT(report.keep_allocator), VIEW, 0, OPTIONS_PROFILE, NULL,
     "keep the allocator's own calls"},
    {"no-fold", '\0', OPTION_FLAG, AT(report.no_fold), VIEW, 0, OPTIONS_PROFILE, NULL,
     "keep the innermost calls of the language's library (std::, operator new) and wrappers of "
     "malloc; by default their memory counts as their caller's"},
    {"full-names", '\0', OPTION_FLAG, AT(report.full_names), VIEW, 0, OPTIONS_PROFILE, NULL,
     "show names with template arguments, return types and parameters"},
    {"depth", '\0', OPTION_TEXT, AT(report.depth), VIEW, 0, OPTIONS_PROFILE, "N",
     "show at most N calls of a stack, or levels of the tree; 0: all"},
    {"lines", '\0', OPTION_FLAG, AT(report.lines), TAKES_FORMAT, 0, OPTIONS_PROFILE, NULL,
     "text and tree: show lines of the source instead of functions"},
    {"invert", '\0', OPTION_FLAG, AT(report.invert), TAKES_FORMAT, 0, OPTIONS_PROFILE, NULL,
     "tree and flame: begin with the functions that allocate, with their callers below"},
    {"value", '\0', OPTION_TEXT, AT(report.value), TAKES_FORMAT, 0, OPTIONS_PROFILE, "V",
     "inuse_space (default), inuse_objects, alloc_space, alloc_objects"},
    {"unit", '\0', OPTION_TEXT, AT(report.unit), TAKES_FORMAT, 0, OPTIONS_PROFILE, "U",
     "auto (default), B, KiB, MiB, GiB"},
    {"rows", '\0', OPTION_TEXT, AT(report.rows), VIEW | TAKES_PEEK | TAKES_FRAG | TAKES_STATS, 0,
     OPTIONS_PROFILE, "N",
     "show at most N rows of the table, functions of the graph or calls of the tree; 0: all, "
     "however small"},
    {"no-inlines", '\0', OPTION_FLAG, AT(report.no_inlines), VIEW, 0, OPTIONS_PROFILE, NULL,
     "use only symbol tables: faster, without inlined calls and lines"},
    {"debuginfod", '\0', OPTION_FLAG, AT(report.debuginfod), VIEW, 0, OPTIONS_PROFILE, NULL,
     "ask the servers of $DEBUGINFOD_URLS for debug information"},

    {"name", 'n', OPTION_TEXT, AT(name), 0, TAKES_FILE, OPTIONS_CHOICE, "NAME",
     "named NAME: its comm, or the last part of the path of its program or of argv[0]"},
    {"container", '\0', OPTION_TEXT, AT(container), 0, TAKES_FILE, OPTIONS_CHOICE, "ID",
     "in this container; the first 4 digits of the id are enough if they are unique"},
    {"cgroup", '\0', OPTION_TEXT, AT(cgroup), 0, TAKES_FILE, OPTIONS_CHOICE, "PATH",
     "in this cgroup or one below it"},
    {"subprocesses", 's', OPTION_FLAG, AT(subprocesses), 0, NO_TARGET | TAKES_ONE, OPTIONS_CHOICE,
     NULL, "the given PIDs and their descendants"},
    {"all", '\0', OPTION_FLAG, AT(all), 0, NO_TARGET | TAKES_ONE, OPTIONS_CHOICE, NULL,
     "all processes that match; without other choice: all on this host"},
    {"parallel", '\0', OPTION_PARALLEL, AT(parallel), 0, NO_TARGET | TAKES_ONE, OPTIONS_CHOICE, "N",
     "work on at most N processes at once (default 4; record and leak: 64)"},

    {"pid", 'p', OPTION_PID, 0, 0, NO_TARGET, OPTIONS_COMMON, "PID",
     "the process, as an option; may be repeated"},
    {"timeout", '\0', OPTION_DURATION, AT(timeout_ns), 0, TAKES_FILE, OPTIONS_COMMON, "D",
     "time limit for each process: 500ms, 30s, 5m (default 30s)"},
    {"thread", '\0', OPTION_THREAD, AT(thread), 0, NO_TARGET, OPTIONS_COMMON, "TID",
     "use only this thread"},
    {"instance", '\0', OPTION_INSTANCE, AT(instance), 0, NO_TARGET, OPTIONS_COMMON, "N",
     "use this jemalloc, if the process contains several (see jeattach status)"},
    {"json", '\0', OPTION_FLAG, AT(json), 0, 0, OPTIONS_COMMON, NULL,
     "print the result as one JSON object, one per line for several processes, and an error as "
     "{\"error\": {...}}"},
    {"quiet", 'q', OPTION_FLAG, AT(quiet), 0, 0, OPTIONS_COMMON, NULL,
     "suppress the closing line on stderr"},
    {"verbose", 'v', OPTION_FLAG, AT(verbose), 0, 0, OPTIONS_COMMON, NULL,
     "show which thread was chosen and why"},
    {"help", 'h', OPTION_FLAG, AT(help), 0, 0, OPTIONS_COMMON, NULL,
     "show this help, or that of one verb: jeattach VERB --help"},
    {"version", 'V', OPTION_FLAG, AT(version), 0, 0, OPTIONS_COMMON, NULL, "show the version"},
};

const size_t option_row_count = ARRAY_LEN(option_rows);
_Static_assert(ARRAY_LEN(option_rows) <= OPTION_ROWS_MAX, "options_parse() has space for all");

bool option_is_taken(unsigned takes, const struct option_row *row)
{
    return (!row->needs || (takes & row->needs)) && !(takes & row->excludes);
}

const struct option_row *option_find(unsigned takes, const char *name)
{
    for (size_t i = 0; i < option_row_count; i++)
        if (option_is_taken(takes, &option_rows[i]) && strcmp(option_rows[i].name, name) == 0)
            return &option_rows[i];
    return NULL;
}

/* ---- the verb among the words ---- */

/* The words of an option: itself, or with the next word. */
enum { ALONE = 1 << 0, WITH_NEXT = 1 << 1 };

static unsigned words_of_row(const struct option_row *row)
{
    return row->kind == OPTION_FLAG ? ALONE : WITH_NEXT;
}

/* Returns the words of all options with that name, or whose name begins with it. */
static unsigned words_of_name(const char *name, bool shortened)
{
    unsigned words = 0;

    for (size_t i = 0; i < option_row_count; i++) {
        const struct option_row *row = &option_rows[i];
        if (shortened ? strncmp(row->name, name, strlen(name)) == 0 : strcmp(row->name, name) == 0)
            words |= words_of_row(row);
    }
    return words;
}

/* "-qn": only the last letter can have the next word as its value, as in getopt(3). */
static unsigned words_of_letters(const char *letters)
{
    for (; *letters; letters++) {
        unsigned words = 0;
        for (size_t i = 0; i < option_row_count; i++)
            if (option_rows[i].letter == *letters)
                words |= words_of_row(&option_rows[i]);
        if (words & WITH_NEXT)
            return letters[1] ? ALONE : words;
    }
    return ALONE;
}

/* True if a verb with these options has a flag of that name, or beginning of a name. */
static bool has_flag(unsigned takes, const char *option)
{
    const char *name = option + 2;

    for (size_t i = 0; i < option_row_count; i++) {
        const struct option_row *row = &option_rows[i];
        if (row->kind == OPTION_FLAG && option_is_taken(takes, row) &&
            strncmp(row->name, name, strlen(name)) == 0)
            return true;
    }
    return false;
}

/* True if the word after an option is its value. */
static bool takes_next(const char *option, const char *next, verb_lookup lookup)
{
    const char *name = option + 2;
    unsigned words, takes;

    if (option[1] != '-')
        words = words_of_letters(option + 1);
    else if (strchr(name, '='))
        words = ALONE;
    else
        words = words_of_name(name, false);
    if (!words)
        words = words_of_name(name, true);
    if (words == (ALONE | WITH_NEXT))
        return !(lookup(next, &takes) && has_flag(takes, option));
    return words == WITH_NEXT;
}

int verb_word_find(int argc, char *const *argv, verb_lookup lookup)
{
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (strcmp(word, "--") == 0)
            return i + 1 < argc ? i + 1 : 0;
        if (word[0] != '-' || !word[1])
            return i;
        if (i + 1 < argc && takes_next(word, argv[i + 1], lookup))
            i++;
    }
    return 0;
}
