#include "cli/message.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/fault_name.h"
#include "cli/remedy.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { LINE_SIZE = MESSAGE_LINE };

/* Kept for message_usage_json alone. */
static char last_said[LINE_SIZE];
static bool told_in_json;

void message(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(last_said, sizeof last_said, fmt, ap);
    va_end(ap);
    fputs("jeattach: ", stderr);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
}

const char *message_clean(const char *text, char *out, size_t size)
{
    size_t used = 0;
    bool shown;

    for (size_t n; *text && used < size - 1; text += n) {
        n = text_unit(text, &shown);
        if (shown && n > size - 1 - used) /* no half of a character at the end */
            break;
        if (shown)
            memcpy(out + used, text, n);
        else
            out[used] = '?';
        used += shown ? n : 1;
    }
    out[used] = '\0';
    return out;
}

/* One row a fault: its exit code, its cause and its fix. */
struct wording {
    int exit;
    /* %W: fault.what, %E: the errno's text, %P: the pid, %T: fault.pid, %V: the variable, %Y: what
     * a value of yama's means; and cli/remedy.h */
    const char *cause, *fix;
};

static const struct wording wordings[] = {
    [FAULT_INTERNAL] = {EXIT_INTERNAL, "%W%E", "please report this with the output of -vv"},
    [FAULT_GONE] = {EXIT_GONE, "there is no such process, or it has ended: %W", NULL},
    [FAULT_ZOMBIE] = {EXIT_GONE, "it has ended and waits to be collected by its parent: %W", NULL},
    [FAULT_REUSED] = {EXIT_GONE, "process %W has ended; its pid belongs to another process now",
                      NULL},
    [FAULT_EXECED] = {EXIT_GONE, "it has replaced itself by another program meanwhile", NULL},
    [FAULT_KERNEL_THREAD] = {EXIT_NO_ALLOCATOR,
                             "%W is a thread of the kernel: it has no memory of its own", NULL},
    [FAULT_FOREIGN_ABI] = {EXIT_NO_ALLOCATOR, "it is not a 64-bit program of this machine (%W)",
                           "only 64-bit programs can be attached to"},
    [FAULT_DENIED] =
        {EXIT_DENIED, "the kernel refused it (%W%E)",
         "a security module of the kernel may forbid it (Landlock, BPF, ...); if not, run "
         "jeattach as root, or with CAP_SYS_PTRACE in the target's namespaces"},
    [FAULT_DENIED_UID] = {EXIT_DENIED, "it belongs to another user: %W",
                          "run jeattach as that user or as root (sudo), or give it CAP_SYS_PTRACE"},
    [FAULT_DENIED_GID] = {EXIT_DENIED, "it runs with another group: %W",
                          "run jeattach with that group or as root (sudo), or give it "
                          "CAP_SYS_PTRACE"},
    [FAULT_DENIED_DUMPABLE] =
        {EXIT_DENIED,
         "it is not dumpable (prctl PR_SET_DUMPABLE, a set-user-ID program, or a file that may not "
         "be read), so its own user may not attach to it: %W",
         "run jeattach as root (sudo), or give it CAP_SYS_PTRACE"},
    [FAULT_DENIED_CAPS] =
        {EXIT_DENIED,
         "it has capabilities that the tool lacks, so its own user may not attach "
         "to it: %W",
         "run jeattach as root (sudo), or give it CAP_SYS_PTRACE"},
    [FAULT_DENIED_USERNS] =
        {EXIT_DENIED, "it is in a user namespace where the tool's capabilities do not count: %W",
         "run jeattach as root in the target's user namespace or in one above it: on the host"},
    [FAULT_DENIED_YAMA] = {EXIT_DENIED, "kernel.yama.ptrace_scope is %W: %Y",
                           "run jeattach as root, or with CAP_SYS_PTRACE"},
    [FAULT_DENIED_SECCOMP] =
        {EXIT_DENIED, "a seccomp filter that the tool itself is under is in the way: %W",
         "run jeattach where there is no such filter: it was set by what started it (a container "
         "engine; systemd: SystemCallFilter=)"},
    [FAULT_DENIED_LSM] = {EXIT_DENIED, "a security module of the kernel refuses it: %W", NULL},
    [FAULT_HIDDEN] = {EXIT_DENIED,
                      "process %W exists, but /proc does not show it to this user (mounted with "
                      "hidepid)",
                      "run jeattach as root (sudo), or with the group that the mount option gid= "
                      "names (findmnt /proc)"},
    [FAULT_OTHER_PIDNS] = {EXIT_GONE,
                           "there is no process %P here; in a pid namespace below that pid is %W",
                           "use the pid that it has here%N"},
    [FAULT_PROCFS] = {EXIT_DENIED, "/proc shows another pid namespace than the tool's own: %W%E",
                      "enter the mount namespace as well (nsenter --pid --mount -t PID), or mount "
                      "the right one (unshare --mount-proc)"},
    [FAULT_TRACED] = {EXIT_DENIED, "it is already traced by %T (%W)",
                      "end that tracer, then try again"},
    [FAULT_TOOL_TRACED] = {EXIT_DENIED, "jeattach itself is traced by %T (%W)",
                           "run it outside that tracer (strace: without -f)"},
    [FAULT_STOPPED] = {EXIT_NO_SAFE_POINT, "it is stopped by job control (%W)",
                       "continue it (kill -CONT %P), then try again"},
    [FAULT_NO_STOP] = {EXIT_NO_SAFE_POINT, "it does not come to a stop: %W",
                       "try again, or raise --timeout"},
    [FAULT_FROZEN] = {EXIT_NO_SAFE_POINT, "its control group is frozen: %W",
                      "thaw it, then try again"},
    [FAULT_NO_ALLOCATOR] = {EXIT_NO_ALLOCATOR, "no jemalloc found: no mallctl in any of its %W",
                            "if it uses another malloc, start it with "
                            "LD_PRELOAD=libjemalloc.so.2"},
    [FAULT_NO_INSTANCE] = {EXIT_USAGE, "it has no jemalloc of that number; instances found: %W",
                           "jeattach status %P lists them, --instance takes their number"},
    [FAULT_UNSUPPORTED] = {EXIT_NO_SAFE_POINT, "%W", "none; the target was not touched"},
    [FAULT_WITHHELD] = {EXIT_NO_SAFE_POINT, "%W",
                        "if it runs under no interposer (Wine), name one of its threads: --thread "
                        "TID; the target was not touched"},
    [FAULT_NO_SAFE_POINT] = {EXIT_NO_SAFE_POINT, "no thread was at a safe point: %W",
                             "try again, or raise --timeout; the target was not touched"},
    [FAULT_NO_UNWINDER] = {EXIT_NO_SAFE_POINT,
                           "no thread was at a safe point: %W; its stack could not be unwound, as "
                           "libunwind is not installed where jeattach runs",
                           "put libunwind (package libunwind8) beside jeattach; the target was not "
                           "touched"},
    [FAULT_NO_HEADROOM] =
        {EXIT_NO_SAFE_POINT,
         "its memory limit is reached: %W, and nothing to give back; the kernel "
         "might kill it for the few pages that a call needs",
         "raise the limit for the moment (docker update --memory, podman update "
         "--memory, or the limit of that group), then try again; the target was not "
         "touched"},
    [FAULT_NO_SCRATCH] = {EXIT_NO_SAFE_POINT,
                          "the kernel refused the target %W of scratch memory%E",
                          "the target was left as it was; look at its memory and security limits"},
    [FAULT_CALL_DEADLINE] =
        {EXIT_CALL_DEADLINE,
         "the call did not end in time (%W); it was left to complete by itself, "
         "and until then the thread goes on with its signals blocked",
         "look at it again with: jeattach status %P"},
    [FAULT_NO_ANSWER] =
        {EXIT_NO_SAFE_POINT,
         "its memory or its files do not answer: the kernel waits in %W for what "
         "another process has to supply (userfaultfd, FUSE, NFS)",
         "look at what serves its memory and its mounts; the target was not touched"},
    [FAULT_NO_ANSWER_HELD] = {EXIT_CALL_DEADLINE,
                              "its memory or its files do not answer: the kernel waits in %W for "
                              "what another process has to supply (userfaultfd, FUSE, NFS)",
                              "look at what serves its memory and its mounts; the thread that was "
                              "held is let go, and completes the call by itself"},
    [FAULT_INTERRUPTED] = {EXIT_INTERRUPTED, "interrupted; the target was not changed", NULL},
    [FAULT_PROF_ABSENT] = {EXIT_NO_PROFILING,
                           "this jemalloc was built without profiling (config.prof is false): %W",
                           "start the process with a jemalloc built with --enable-prof"},
    [FAULT_PROF_DISABLED] = {EXIT_NO_PROFILING,
                             "profiling was not enabled when it was started (opt.prof is false): "
                             "%W",
                             "start it with %V=prof:true,prof_active:false in its environment; no "
                             "jemalloc can enable it later"},
    [FAULT_CTL_REFUSED] = {EXIT_REFUSED, "mallctl refused %W%R", NULL},
    [FAULT_NAME_USAGE] = {EXIT_USAGE, "%W",
                          "jeattach mallctl --help; the names: jeattach mallctl %P --list '*'"},
    [FAULT_NAME_REFUSED] = {EXIT_REFUSED, "%W", NULL},
    [FAULT_DUMP_OPEN] =
        {EXIT_REFUSED, "the target could not create %W%E",
         "use -o FILE, which needs no file on the target's side, or another --path"},
    [FAULT_DUMP_WRITE] =
        {EXIT_REFUSED, "the target could not write all of %W%E",
         "use -o FILE, which needs no room on the target's side, or another --path"},
    [FAULT_DUMP_UNSAFE] = {EXIT_REFUSED, "%W",
                           "use -o FILE, which makes no file on the target's side"},
    [FAULT_STATS_ABSENT] = {EXIT_REFUSED,
                            "this jemalloc was built without statistics (config.stats is false): "
                            "%W",
                            "use a jemalloc built with --enable-stats (Rust: the feature 'stats'); "
                            "--full and --json show what there is without them"},
    [FAULT_STATS_MESSAGE] =
        {EXIT_REFUSED,
         "the program has put a function of its own into %W, and where no executable memory is "
         "allowed that would be called with the report",
         "jeattach stats without --full and --json"},
    [FAULT_STATS_SLOW] =
        {EXIT_REFUSED,
         "%W reports in 30,000 pieces and more, and where no executable memory is allowed (a "
         "seccomp filter) each would be a stop of a thread: it would be held for seconds",
         "jeattach stats without --full and --json; or --allow-slow, with a --timeout that is long "
         "enough: what is left at its end goes to the target's stderr"},
    [FAULT_STATS_NO_JSON] = {EXIT_REFUSED,
                             "what it reports is no JSON (%W): jemalloc knows JSON since 4.3",
                             "jeattach stats without --json, or with --full"},
    [FAULT_TOO_LARGE] = {EXIT_OUTPUT, "it is larger than the limit of %W", NULL},
    [FAULT_DUMP_NAMELESS] = {EXIT_REFUSED,
                             "jemalloc makes no name for it: the prefix of names (%W) is empty",
                             "use --path, or -o FILE"},
    [FAULT_DUMP_HOOK] = {EXIT_REFUSED,
                         "the application has a hook of its own for finished dumps "
                         "(experimental.hooks.prof_dump at %W), which would look for a file that "
                         "is never made",
                         "dump without -o, to a real file, with --force-hooks"},
    [FAULT_HOOKS] = {EXIT_REFUSED,
                     "the call could run a function of the application, and would never end if "
                     "that takes a lock which the held thread has: %W",
                     "if that function takes no lock that other code of the application takes, "
                     "use --force-hooks"},
    [FAULT_OUTPUT] = {EXIT_OUTPUT, "%W%E", NULL},
    [FAULT_OUTPUT_OTHERS] = {EXIT_OUTPUT,
                             "%W, in a sticky directory where others may write: it is not followed "
                             "or replaced",
                             "name a file in a directory of your own, or remove the one in the "
                             "way"},
    [FAULT_PROFILE] = {EXIT_USAGE, "%W%E",
                       "give a heap profile in jemalloc's own format, as dump writes it"},
    [FAULT_NO_GROUP] = {EXIT_GONE, "there is no control group %W",
                        "give its path as in /proc/PID/cgroup, or that of its directory"},
    [FAULT_AMBIGUOUS] = {EXIT_USAGE, "%W", "give more digits of the one that is meant"},
    [FAULT_NO_MATCH] = {EXIT_GONE, "%W", "jeattach ps lists the processes that use jemalloc"},
    [FAULT_SEVERAL] = {EXIT_USAGE, "%W",
                       "give the pid of one; or --all for all of them, where the verb has it"},
    [FAULT_LOST] = {EXIT_INTERNAL, "the process %W",
                    "the target completes what was begun by itself; look at it with: "
                    "jeattach status %P"},
    [FAULT_TOO_LATE] = {EXIT_NO_SAFE_POINT, "the time was over %W",
                        "raise --timeout; nothing was touched"},
};

/* mallctl's return codes are errno values with meanings of their own (jemalloc(3)). */
static const char *refusal_text(int rc)
{
    switch (rc) {
    case 0:
        return "";
    case ENOENT:
        return ": this version or build has no such name";
    case EPERM:
        return ": it cannot be written, or cannot be read";
    case EINVAL:
        return ": the value has another size";
    case EAGAIN:
        return ": out of memory, or this thread cannot profile";
    case EFAULT:
        return ": it could not be done, without a system call that failed (EFAULT)";
    default:
        return ": unknown return code";
    }
}

static void append(char *line, const char *text)
{
    size_t used = strlen(line);
    snprintf(line + used, LINE_SIZE - used, "%s", text);
}

static void append_errno(char *line, int err)
{
    if (err == 0)
        return;
    append(line, ": ");
    append(line, strerrordesc_np(err) ? strerrordesc_np(err) : "unknown error");
    append(line, " (");
    append(line, strerrorname_np(err) ? strerrorname_np(err) : "?");
    append(line, ")");
}

static void append_number(char *line, int number)
{
    char text[16];
    snprintf(text, sizeof text, "%d", number);
    append(line, text);
}

static const char *yama_text(const char *scope)
{
    switch (*scope) {
    case '1':
        return "only its ancestors, a tracer that it has named itself (PR_SET_PTRACER) and who has "
               "CAP_SYS_PTRACE may attach";
    case '2':
        return "only who has CAP_SYS_PTRACE may attach";
    case '3':
        return "nobody may attach";
    default:
        return "it restricts who may attach";
    }
}

/* What the templates draw from; remedy NULL: no directive of its is in them. */
struct expansion {
    const struct subject *subject;
    const struct fault *fault;
    const struct remedy *remedy;
};

static void append_remedy(char *line, char directive, const struct remedy *remedy)
{
    char clean[LINE_SIZE / 2];

    if (remedy && directive == 'I')
        append(line, remedy->id);
    else if (remedy && directive == 'U')
        append_number(line, (int)remedy->uid);
    else if (remedy)
        append(line, message_clean(remedy->program, clean, sizeof clean));
}

static void append_directive(char *line, char directive, const struct expansion *from)
{
    const struct fault *fault = from->fault;
    const char *variable = from->subject->variable;
    char clean[sizeof fault->what];

    switch (directive) {
    case 'W':
        append(line, message_clean(fault->what, clean, sizeof clean));
        break;
    case 'E':
        append_errno(line, fault->err);
        break;
    case 'P':
        append_number(line, from->subject->pid);
        break;
    case 'T':
        append_number(line, fault->pid);
        break;
    case 'N':
        append(line, fault->pid ? ": " : "");
        if (fault->pid)
            append_number(line, fault->pid);
        break;
    case 'V':
        append(line, variable && *variable ? variable : "MALLOC_CONF");
        break;
    case 'Y':
        append(line, yama_text(fault->what));
        break;
    case 'R':
        append(line, refusal_text(fault->err));
        break;
    default:
        append_remedy(line, directive, from->remedy);
        break;
    }
}

static void expand(char *line, const char *template, const struct expansion *from)
{
    line[0] = '\0';
    for (const char *p = template; *p; p++) {
        char one[2] = {*p, '\0'};
        if (*p == '%' && p[1])
            append_directive(line, *++p, from);
        else
            append(line, one);
    }
}

static void write_head(char *line, const struct subject *subject, const struct fault *fault)
{
    char clean[256] = "";

    if (subject->name)
        message_clean(subject->name, clean, sizeof clean);
    if (fault->code == FAULT_OUTPUT || fault->code == FAULT_OUTPUT_OTHERS)
        snprintf(line, LINE_SIZE, "cannot write the output");
    else if (!subject->pid)
        snprintf(line, LINE_SIZE, "cannot %s%s%s", subject->verb, *clean ? " " : "", clean);
    else if (*clean && subject->ns_pid && subject->ns_pid != subject->pid)
        snprintf(line, LINE_SIZE, "cannot %s %d (%s, pid %d in its container)", subject->verb,
                 subject->pid, clean, subject->ns_pid);
    else if (*clean)
        snprintf(line, LINE_SIZE, "cannot %s %d (%s)", subject->verb, subject->pid, clean);
    else
        snprintf(line, LINE_SIZE, "cannot %s %d", subject->verb, subject->pid);
}

void message_words(const struct subject *subject, const struct fault *fault,
                   struct fault_words *words)
{
    const struct wording *wording = &wordings[fault->code];
    struct remedy remedy;
    const struct expansion from = {subject, fault, &remedy};
    const char *fix;

    remedy_look(&remedy, subject->pid);
    fix = remedy_template(&remedy, fault);
    words->exit = wording->exit;
    words->fix[0] = '\0';
    write_head(words->what, subject, fault);
    expand(words->cause, wording->cause, &from);
    if (fix || wording->fix)
        expand(words->fix, fix ? fix : wording->fix, &from);
}

void message_json(struct json *json, const struct fault *fault, const struct fault_words *words)
{
    char seen[sizeof fault->what];

    json_text(json, "code", fault_name(fault->code));
    json_number(json, "exit", (uint64_t)words->exit);
    json_text(json, "what", words->what);
    json_text(json, "cause", words->cause);
    json_text_or_null(json, "seen", message_clean(fault->what, seen, sizeof seen));
    json_text_or_null(json, "fix", words->fix);
}

static void print_json(const struct subject *subject, const struct fault *fault,
                       const struct fault_words *words)
{
    struct json json;

    told_in_json = true;
    json_begin(&json, stdout);
    json_object_begin(&json, "error");
    message_json(&json, fault, words);
    if (subject->pid)
        json_number(&json, "pid", (uint64_t)subject->pid);
    else
        json_null(&json, "pid");
    json_text_or_null(&json, "name", subject->name);
    json_object_end(&json);
    json_end(&json);
}

int message_fault(const struct subject *subject, const struct fault *fault)
{
    struct fault_words words;

    message_words(subject, fault, &words);
    message("%s", words.what);
    fprintf(stderr, "  cause: %s\n", words.cause);
    if (words.fix[0])
        fprintf(stderr, "  fix:   %s\n", words.fix);
    if (subject->json)
        print_json(subject, fault, &words);
    return words.exit;
}

void message_usage_json(const char *verb)
{
    char line[LINE_SIZE];
    struct json json;

    if (told_in_json)
        return;
    told_in_json = true;
    json_begin(&json, stdout);
    json_object_begin(&json, "error");
    json_text(&json, "code", "usage");
    json_number(&json, "exit", EXIT_USAGE);
    snprintf(line, sizeof line, "cannot understand the words after jeattach %s", verb);
    json_text(&json, "what", line);
    json_text(&json, "cause", last_said);
    json_null(&json, "seen");
    snprintf(line, sizeof line, "jeattach %s --help", verb);
    json_text(&json, "fix", line);
    json_null(&json, "pid");
    json_null(&json, "name");
    json_object_end(&json);
    json_end(&json);
}

const char *message_cause(const struct subject *subject, const struct fault *fault, char *out,
                          size_t size)
{
    const struct expansion from = {subject, fault, NULL};
    char line[LINE_SIZE];

    expand(line, wordings[fault->code].cause, &from);
    snprintf(out, size, "%s", line);
    return out;
}
