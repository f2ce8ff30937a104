#include "cli/fault_table.h"
#include "base/util.h"
#include "cli/faults.h"
#include "cli/message.h"

static const struct fault_row rows[] = {
    {FAULT_INTERNAL, "internal", EXIT_INTERNAL, "%W%E",
     "please report this with the output of -vv"},
    {FAULT_GONE, "gone", EXIT_GONE, "there is no such process, or it has ended: %W", NULL},
    {FAULT_ZOMBIE, "zombie", EXIT_GONE, "it has ended and waits to be collected by its parent: %W",
     NULL},
    {FAULT_REUSED, "reused", EXIT_GONE,
     "process %W has ended; its pid belongs to another process now", NULL},
    {FAULT_EXECED, "execed", EXIT_GONE, "it has replaced itself by another program meanwhile",
     NULL},
    {FAULT_KERNEL_THREAD, "kernel_thread", EXIT_NO_ALLOCATOR,
     "%W is a thread of the kernel: it has no memory of its own", NULL},
    {FAULT_FOREIGN_ABI, "foreign_abi", EXIT_NO_ALLOCATOR,
     "it is not a 64-bit program of this machine (%W)", "only 64-bit programs can be attached to"},
    {FAULT_DENIED, "denied", EXIT_DENIED, "the kernel refused it (%W%E)",
     "a security module of the kernel may forbid it (Landlock, BPF, ...); if not, run "
     "jeattach as root, or with CAP_SYS_PTRACE in the target's namespaces"},
    {FAULT_DENIED_UID, "denied_uid", EXIT_DENIED, "it belongs to another user: %W",
     "run jeattach as that user or as root (sudo), or give it CAP_SYS_PTRACE"},
    {FAULT_DENIED_GID, "denied_gid", EXIT_DENIED, "it runs with another group: %W",
     "run jeattach with that group or as root (sudo), or give it "
     "CAP_SYS_PTRACE"},
    {FAULT_DENIED_DUMPABLE, "denied_dumpable", EXIT_DENIED,
     "it is not dumpable (prctl PR_SET_DUMPABLE, a set-user-ID program, or a file that may not "
     "be read), so its own user may not attach to it: %W",
     "run jeattach as root (sudo), or give it CAP_SYS_PTRACE"},
    {FAULT_DENIED_CAPS, "denied_capabilities", EXIT_DENIED,
     "it has capabilities that the tool lacks, so its own user may not attach "
     "to it: %W",
     "run jeattach as root (sudo), or give it CAP_SYS_PTRACE"},
    {FAULT_DENIED_USERNS, "denied_user_namespace", EXIT_DENIED,
     "it is in a user namespace where the tool's capabilities do not count: %W",
     "run jeattach as root in the target's user namespace or in one above it: on the host"},
    {FAULT_DENIED_YAMA, "denied_yama", EXIT_DENIED, "kernel.yama.ptrace_scope is %W: %Y",
     "run jeattach as root, or with CAP_SYS_PTRACE"},
    {FAULT_DENIED_SECCOMP, "denied_seccomp", EXIT_DENIED,
     "a seccomp filter that the tool itself is under is in the way: %W",
     "run jeattach where there is no such filter: it was set by what started it (a container "
     "engine; systemd: SystemCallFilter=)"},
    {FAULT_DENIED_LSM, "denied_security_module", EXIT_DENIED,
     "a security module of the kernel refuses it: %W", NULL},
    {FAULT_HIDDEN, "hidden", EXIT_DENIED,
     "process %W exists, but /proc does not show it to this user (mounted with "
     "hidepid)",
     "run jeattach as root (sudo), or with the group that the mount option gid= "
     "names (findmnt /proc)"},
    {FAULT_OTHER_PIDNS, "other_pid_namespace", EXIT_GONE,
     "there is no process %P here; in a pid namespace below that pid is %W",
     "use the pid that it has here%N"},
    {FAULT_PROCFS, "foreign_proc", EXIT_DENIED,
     "/proc shows another pid namespace than the tool's own: %W%E",
     "enter the mount namespace as well (nsenter --pid --mount -t PID), or mount "
     "the right one (unshare --mount-proc)"},
    {FAULT_TRACED, "traced", EXIT_DENIED, "it is already traced by %T (%W)",
     "end that tracer, then try again"},
    {FAULT_TOOL_TRACED, "tool_traced", EXIT_DENIED, "jeattach itself is traced by %T (%W)",
     "run it outside that tracer (strace: without -f)"},
    {FAULT_FROZEN, "frozen", EXIT_NO_SAFE_POINT, "its control group is frozen: %W",
     "thaw it, then try again"},
    {FAULT_STOPPED, "stopped", EXIT_NO_SAFE_POINT, "it is stopped by job control (%W)",
     "continue it (kill -CONT %P), then try again"},
    {FAULT_NO_STOP, "no_stop", EXIT_NO_SAFE_POINT, "it does not come to a stop: %W",
     "try again, or raise --timeout"},
    {FAULT_NO_ALLOCATOR, "no_jemalloc", EXIT_NO_ALLOCATOR,
     "no jemalloc found: no mallctl in any of its %W",
     "if it uses another malloc, start it with "
     "LD_PRELOAD=libjemalloc.so.2"},
    {FAULT_NO_INSTANCE, "no_instance", EXIT_USAGE,
     "it has no jemalloc of that number; instances found: %W",
     "jeattach status %P lists them, --instance takes their number"},
    {FAULT_UNSUPPORTED, "unsupported", EXIT_NO_SAFE_POINT, "%W",
     "none; the target was not touched"},
    {FAULT_WITHHELD, "withheld", EXIT_NO_SAFE_POINT, "%W",
     "if it runs under no interposer (Wine), name one of its threads: --thread "
     "TID; the target was not touched"},
    {FAULT_NO_SAFE_POINT, "no_safe_point", EXIT_NO_SAFE_POINT, "no thread was at a safe point: %W",
     "try again, or raise --timeout; the target was not touched"},
    {FAULT_NO_UNWINDER, "no_unwinder", EXIT_NO_SAFE_POINT,
     "no thread was at a safe point: %W; its stack could not be unwound, as "
     "libunwind is not installed where jeattach runs",
     "put libunwind (package libunwind8) beside jeattach; the target was not "
     "touched"},
    {FAULT_NO_HEADROOM, "no_room", EXIT_NO_SAFE_POINT,
     "its memory limit is reached: %W, and nothing to give back; the kernel "
     "might kill it for the few pages that a call needs",
     "raise the limit for the moment (docker update --memory, podman update "
     "--memory, or the limit of that group), then try again; the target was not "
     "touched"},
    {FAULT_NO_SCRATCH, "no_scratch_memory", EXIT_NO_SAFE_POINT,
     "the kernel refused the target %W of scratch memory%E",
     "the target was left as it was; look at its memory and security limits"},
    {FAULT_CALL_DEADLINE, "call_deadline", EXIT_CALL_DEADLINE,
     "the call did not end in time (%W); it was left to complete by itself, "
     "and until then the thread goes on with its signals blocked",
     "look at it again with: jeattach status %P"},
    {FAULT_NO_ANSWER, "no_answer", EXIT_NO_SAFE_POINT,
     "its memory or its files do not answer: the kernel waits in %W for what "
     "another process has to supply (userfaultfd, FUSE, NFS)",
     "look at what serves its memory and its mounts; the target was not touched"},
    {FAULT_NO_ANSWER_HELD, "no_answer_held", EXIT_CALL_DEADLINE,
     "its memory or its files do not answer: the kernel waits in %W for "
     "what another process has to supply (userfaultfd, FUSE, NFS)",
     "look at what serves its memory and its mounts; the thread that was "
     "held is let go, and completes the call by itself"},
    {FAULT_INTERRUPTED, "interrupted", EXIT_INTERRUPTED, "interrupted; the target was not changed",
     NULL},
    {FAULT_PROF_ABSENT, "profiling_absent", EXIT_NO_PROFILING,
     "this jemalloc was built without profiling (config.prof is false): %W",
     "start the process with a jemalloc built with --enable-prof"},
    {FAULT_PROF_DISABLED, "profiling_disabled", EXIT_NO_PROFILING,
     "profiling was not enabled when it was started (opt.prof is false): "
     "%W",
     "start it with %V=prof:true,prof_active:false in its environment; no "
     "jemalloc can enable it later"},
    {FAULT_CTL_REFUSED, "call_refused", EXIT_REFUSED, "mallctl refused %W%R", NULL},
    {FAULT_NAME_USAGE, "name_usage", EXIT_USAGE, "%W",
     "jeattach mallctl --help; the names: jeattach mallctl %P --list '*'"},
    {FAULT_NAME_REFUSED, "name_refused", EXIT_REFUSED, "%W", NULL},
    {FAULT_DUMP_OPEN, "dump_open", EXIT_REFUSED, "the target could not create %W%E",
     "use -o FILE, which needs no file on the target's side, or another --path"},
    {FAULT_DUMP_WRITE, "dump_write", EXIT_REFUSED, "the target could not write all of %W%E",
     "use -o FILE, which needs no room on the target's side, or another --path"},
    {FAULT_DUMP_UNSAFE, "dump_unsafe", EXIT_REFUSED, "%W",
     "use -o FILE, which makes no file on the target's side"},
    {FAULT_DUMP_NAMELESS, "dump_nameless", EXIT_REFUSED,
     "jemalloc makes no name for it: the prefix of names (%W) is empty", "use --path, or -o FILE"},
    {FAULT_DUMP_HOOK, "dump_hook", EXIT_REFUSED,
     "the application has a hook of its own for finished dumps "
     "(experimental.hooks.prof_dump at %W), which would look for a file that "
     "is never made",
     "dump without -o, to a real file, with --force-hooks"},
    {FAULT_HOOKS, "hooks", EXIT_REFUSED,
     "the call could run a function of the application, and would never end if "
     "that takes a lock which the held thread has: %W",
     "if that function takes no lock that other code of the application takes, "
     "use --force-hooks"},
    {FAULT_STATS_ABSENT, "stats_absent", EXIT_REFUSED,
     "this jemalloc was built without statistics (config.stats is false): "
     "%W",
     "use a jemalloc built with --enable-stats (Rust: the feature 'stats'); "
     "--full and --json show what there is without them"},
    {FAULT_STATS_MESSAGE, "stats_message", EXIT_REFUSED,
     "the program has put a function of its own into %W, and where no executable memory is "
     "allowed that would be called with the report",
     "jeattach stats without --full and --json"},
    {FAULT_STATS_SLOW, "stats_slow", EXIT_REFUSED,
     "%W reports in 30,000 pieces and more, and where no executable memory is allowed (a "
     "seccomp filter) each would be a stop of a thread: it would be held for seconds",
     "jeattach stats without --full and --json; or --allow-slow, with a --timeout that is long "
     "enough: what is left at its end goes to the target's stderr"},
    {FAULT_STATS_NO_JSON, "stats_no_json", EXIT_REFUSED,
     "what it reports is no JSON (%W): jemalloc knows JSON since 4.3",
     "jeattach stats without --json, or with --full"},
    {FAULT_TOO_LARGE, "too_large", EXIT_OUTPUT, "it is larger than the limit of %W", NULL},
    {FAULT_OUTPUT, "output", EXIT_OUTPUT, "%W%E", NULL},
    {FAULT_OUTPUT_OTHERS, "output_of_others", EXIT_OUTPUT,
     "%W, in a sticky directory where others may write: it is not followed "
     "or replaced",
     "name a file in a directory of your own, or remove the one in the "
     "way"},
    {FAULT_PROFILE, "profile", EXIT_USAGE, "%W%E",
     "give a heap profile in jemalloc's own format, as dump writes it"},
    {FAULT_NO_GROUP, "no_group", EXIT_GONE, "there is no control group %W",
     "give its path as in /proc/PID/cgroup, or that of its directory"},
    {FAULT_AMBIGUOUS, "ambiguous", EXIT_USAGE, "%W", "give more digits of the one that is meant"},
    {FAULT_NO_MATCH, "no_match", EXIT_GONE, "%W",
     "jeattach ps lists the processes that use jemalloc"},
    {FAULT_SEVERAL, "several", EXIT_USAGE, "%W",
     "give the pid of one; or --all for all of them, where the verb has it"},
    {FAULT_LOST, "lost", EXIT_INTERNAL, "the process %W",
     "the target completes what was begun by itself; look at it with: "
     "jeattach status %P"},
    {FAULT_TOO_LATE, "too_late", EXIT_NO_SAFE_POINT, "the time was over %W",
     "raise --timeout; nothing was touched"},
};

/* For a code without a row, which the tests rule out. */
static const struct fault_row unknown = {FAULT_NONE, "failed", EXIT_INTERNAL, "%W%E", NULL};

const struct fault_row *fault_row(fault_code code)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].code == code)
            return &rows[i];
    return &unknown;
}

const struct fault_row *fault_row_at(size_t i)
{
    return i < ARRAY_LEN(rows) ? &rows[i] : NULL;
}
