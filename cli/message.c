#include "cli/message.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { LINE_SIZE = 1024 };

void message(const char *fmt, ...)
{
    va_list ap;

    fputs("jeattach: ", stderr);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
}

const char *message_clean(const char *text, char *out, size_t size)
{
    size_t n = 0;

    for (; text[n] && n < size - 1; n++) {
        unsigned char ch = (unsigned char)text[n];
        out[n] = ch < 0x20 || ch == 0x7f || (ch >= 0x80 && ch < 0xa0) ? '?' : text[n];
    }
    out[n] = '\0';
    return out;
}

const char *message_duration(unsigned long long ns, char *out, size_t size)
{
    if (ns < 1000000)
        snprintf(out, size, "%.2f ms", (double)ns / 1e6);
    else if (ns < 1000000000)
        snprintf(out, size, "%.1f ms", (double)ns / 1e6);
    else
        snprintf(out, size, "%.2f s", (double)ns / 1e9);
    return out;
}

/* One row a fault: its exit code, its cause and its fix. */
struct wording {
    int exit;
    /* %W: fault.what, %E: the errno's text, %P: the pid, %T: fault.pid, %V: the variable */
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
    [FAULT_DENIED] = {EXIT_DENIED, "the kernel refused it (%W%E)",
                      "run jeattach as root, or with CAP_SYS_PTRACE in the target's namespaces; a "
                      "security module of the kernel may forbid it even then"},
    [FAULT_DENIED_UID] = {EXIT_DENIED, "it belongs to another user: %W",
                          "run jeattach as that user or as root (sudo), or give it CAP_SYS_PTRACE"},
    [FAULT_DENIED_YAMA] = {EXIT_DENIED, "kernel.yama.ptrace_scope is %W",
                           "run jeattach as root (scope 1 and 2), or set kernel.yama.ptrace_scope "
                           "to 0; 3 can only be undone by a reboot"},
    [FAULT_DENIED_CAPS] = {EXIT_DENIED, "%W, so its own user may not attach to it",
                           "run jeattach as root (sudo), or give it CAP_SYS_PTRACE"},
    [FAULT_TRACED] = {EXIT_DENIED, "it is already traced by %T (%W)",
                      "end that tracer, then try again"},
    [FAULT_TOOL_TRACED] = {EXIT_DENIED, "jeattach itself is traced by %T (%W)",
                           "run it outside that tracer (strace: without -f)"},
    [FAULT_STOPPED] = {EXIT_NO_SAFE_POINT, "it is stopped by job control (%W)",
                       "continue it (kill -CONT %P), then try again"},
    [FAULT_NO_STOP] = {EXIT_NO_SAFE_POINT, "it does not come to a stop: %W",
                       "thaw it if its cgroup is frozen; else try again, or raise --timeout"},
    [FAULT_NO_ALLOCATOR] = {EXIT_NO_ALLOCATOR, "no jemalloc found: no mallctl in any of its %W",
                            "if it uses another malloc, start it with "
                            "LD_PRELOAD=libjemalloc.so.2"},
    [FAULT_NO_INSTANCE] = {EXIT_USAGE, "it has no jemalloc of that number; instances found: %W",
                           "jeattach status %P lists them, --instance takes their number"},
    [FAULT_UNSUPPORTED] = {EXIT_NO_SAFE_POINT, "%W", "none; the target was not touched"},
    [FAULT_NO_SAFE_POINT] = {EXIT_NO_SAFE_POINT, "no thread was at a safe point: %W",
                             "try again, or raise --timeout; the target was not touched"},
    [FAULT_NO_SCRATCH] = {EXIT_NO_SAFE_POINT,
                          "the kernel refused the target %W of scratch memory%E",
                          "the target was left as it was; look at its memory and security limits"},
    [FAULT_CALL_DEADLINE] = {EXIT_CALL_DEADLINE,
                             "the call did not end in time (%W); it was left to complete by itself",
                             "look at it again with: jeattach status %P"},
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
    [FAULT_TOO_LARGE] = {EXIT_OUTPUT, "it is larger than the limit of %W", NULL},
    [FAULT_DUMP_NAMELESS] = {EXIT_REFUSED,
                             "jemalloc makes no name for it: the prefix of names (%W) is empty",
                             "use --path, or -o FILE"},
    [FAULT_DUMP_HOOK] = {EXIT_REFUSED,
                         "the application has a hook of its own for finished dumps "
                         "(experimental.hooks.prof_dump at %W), which would look for a file that "
                         "is never made",
                         "dump without -o: to a real file"},
    [FAULT_OUTPUT] = {EXIT_OUTPUT, "%W%E", NULL},
    [FAULT_PROFILE] = {EXIT_USAGE, "%W%E",
                       "give a heap profile in jemalloc's own format, as dump writes it"},
    [FAULT_NO_GROUP] = {EXIT_GONE, "there is no control group %W",
                        "give its path as in /proc/PID/cgroup, or that of its directory"},
    [FAULT_AMBIGUOUS] = {EXIT_USAGE, "%W", "give more digits of the one that is meant"},
    [FAULT_NO_MATCH] = {EXIT_GONE, "%W", "jeattach ps lists the processes that use jemalloc"},
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

static void append_directive(char *line, char directive, const struct subject *subject,
                             const struct fault *fault)
{
    char clean[sizeof fault->what];

    switch (directive) {
    case 'W':
        append(line, message_clean(fault->what, clean, sizeof clean));
        break;
    case 'E':
        append_errno(line, fault->err);
        break;
    case 'P':
        append_number(line, subject->pid);
        break;
    case 'T':
        append_number(line, fault->pid);
        break;
    case 'V':
        append(line, subject->variable && *subject->variable ? subject->variable : "MALLOC_CONF");
        break;
    default:
        append(line, refusal_text(fault->err));
        break;
    }
}

static void expand(char *line, const char *template, const struct subject *subject,
                   const struct fault *fault)
{
    line[0] = '\0';
    for (const char *p = template; *p; p++) {
        char one[2] = {*p, '\0'};
        if (*p == '%' && p[1])
            append_directive(line, *++p, subject, fault);
        else
            append(line, one);
    }
}

static void print_head(const struct subject *subject, const struct fault *fault)
{
    char clean[256];

    if (fault->code == FAULT_OUTPUT)
        message("cannot write the output");
    else if (!subject->pid)
        message("cannot %s %s", subject->verb, message_clean(subject->name, clean, sizeof clean));
    else if (subject->name && subject->ns_pid && subject->ns_pid != subject->pid)
        message("cannot %s %d (%s, pid %d in its container)", subject->verb, subject->pid,
                message_clean(subject->name, clean, sizeof clean), subject->ns_pid);
    else if (subject->name)
        message("cannot %s %d (%s)", subject->verb, subject->pid,
                message_clean(subject->name, clean, sizeof clean));
    else if (subject->pid)
        message("cannot %s %d", subject->verb, subject->pid);
    else
        message("cannot %s", subject->verb);
}

int message_fault(const struct subject *subject, const struct fault *fault)
{
    const struct wording *wording = &wordings[fault->code];
    char line[LINE_SIZE];

    print_head(subject, fault);
    expand(line, wording->cause, subject, fault);
    fprintf(stderr, "  cause: %s\n", line);
    if (wording->fix) {
        expand(line, wording->fix, subject, fault);
        fprintf(stderr, "  fix:   %s\n", line);
    }
    return wording->exit;
}

const char *message_cause(const struct subject *subject, const struct fault *fault, char *out,
                          size_t size)
{
    char line[LINE_SIZE];

    expand(line, wordings[fault->code].cause, subject, fault);
    snprintf(out, size, "%s", line);
    return out;
}
