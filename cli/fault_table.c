#include "cli/fault_table.h"
#include "base/util.h"
#include "cli/faults.h"
#include "cli/message.h"

static const struct fault_row rows[] = {
    {FAULT_INTERNAL, "internal", EXIT_INTERNAL, "%W%E", "please report this with the output of -v"},
    {FAULT_GONE, "gone", EXIT_GONE, "there is no such process or thread, or it has ended: %W",
     "jeattach ps lists the processes that use jemalloc"},
    {FAULT_ZOMBIE, "zombie", EXIT_GONE,
     "it has ended; it stays a zombie until its parent collects it: %W", NULL},
    {FAULT_REUSED, "reused", EXIT_GONE,
     "process %W has ended; its pid now belongs to another process", NULL},
    {FAULT_EXECED, "execed", EXIT_GONE, "it has replaced itself with another program (exec)", NULL},
    {FAULT_KERNEL_THREAD, "kernel_thread", EXIT_NO_ALLOCATOR,
     "%W is a kernel thread: it has no memory of its own", NULL},
    {FAULT_FOREIGN_ABI, "foreign_abi", EXIT_NO_ALLOCATOR,
     "it is not a 64-bit program of this machine (%W)",
     "none: jeattach supports only 64-bit programs of the machine it runs on"},
    {FAULT_DENIED, "denied", EXIT_DENIED, "the kernel refused access%E: %W",
     "run jeattach as root, or with CAP_SYS_PTRACE in the target's user namespace; if that "
     "does not help, a kernel security module (Landlock, BPF, ...) forbids it"},
    {FAULT_DENIED_UID, "denied_uid", EXIT_DENIED, "it belongs to another user: %W",
     "run jeattach as that user or as root (sudo), or give it CAP_SYS_PTRACE"},
    {FAULT_DENIED_GID, "denied_gid", EXIT_DENIED, "it runs with another group: %W",
     "run jeattach with that group or as root (sudo), or give it CAP_SYS_PTRACE"},
    {FAULT_DENIED_DUMPABLE, "denied_dumpable", EXIT_DENIED,
     "it is not dumpable (prctl PR_SET_DUMPABLE, a set-user-ID program, or an unreadable program "
     "file), so its own user may not attach to it: %W",
     "run jeattach as root (sudo), or give it CAP_SYS_PTRACE"},
    {FAULT_DENIED_CAPS, "denied_capabilities", EXIT_DENIED,
     "it has capabilities that jeattach lacks, so its own user may not attach to it: %W",
     "run jeattach as root (sudo), or give it CAP_SYS_PTRACE"},
    {FAULT_DENIED_USERNS, "denied_user_namespace", EXIT_DENIED,
     "jeattach's capabilities do not count in its user namespace, which is %W",
     "run jeattach as root in the target's user namespace or in an ancestor of it: on the host"},
    {FAULT_DENIED_YAMA, "denied_yama", EXIT_DENIED, "kernel.yama.ptrace_scope is %W: %Y",
     "run jeattach as root, or with CAP_SYS_PTRACE"},
    {FAULT_DENIED_SECCOMP, "denied_seccomp", EXIT_DENIED,
     "jeattach itself runs under a seccomp filter: %W",
     "run jeattach without that filter, which was set by whatever started it (a container engine; "
     "systemd: SystemCallFilter=)"},
    {FAULT_DENIED_LSM, "denied_security_module", EXIT_DENIED,
     "a kernel security module refuses it: %W", NULL},
    {FAULT_HIDDEN, "hidden", EXIT_DENIED,
     "process %W exists, but /proc does not show it to this user (mount option hidepid)",
     "run jeattach as root (sudo), or with the group that the mount option gid= names (findmnt "
     "/proc)"},
    {FAULT_OTHER_PIDNS, "other_pid_namespace", EXIT_GONE,
     "there is no process %P here; in another pid namespace that pid belongs to %W",
     "use its pid in this namespace%N"},
    {FAULT_PROCFS, "foreign_proc", EXIT_DENIED,
     "/proc belongs to another pid namespace than jeattach: %W%E",
     "enter the mount namespace as well (nsenter --pid --mount -t PID), or mount a matching /proc "
     "(unshare --mount-proc)"},
    {FAULT_TRACED, "traced", EXIT_DENIED, "it is already traced by %T (%W)",
     "end that tracer, then try again"},
    {FAULT_TOOL_TRACED, "tool_traced", EXIT_DENIED, "jeattach itself is traced by %T (%W)",
     "run it outside that tracer (strace: without -f)"},
    {FAULT_PERF_PARANOID, "perf_paranoid", EXIT_DENIED,
     "kernel.perf_event_paranoid is %W, which refuses perf events to users without CAP_PERFMON",
     "run jeattach as root (sudo), or give it CAP_PERFMON; or: sudo sysctl "
     "kernel.perf_event_paranoid=2"},
    {FAULT_PERF_SECCOMP, "perf_seccomp", EXIT_DENIED,
     "jeattach itself runs under a seccomp filter, which %W",
     "run jeattach without that filter; in a container: with --cap-add PERFMON or --security-opt "
     "seccomp=unconfined"},
    {FAULT_PERF_MODULE, "perf_security_module", EXIT_DENIED,
     "the kernel refuses perf events, although perf_event_paranoid permits them%E; security "
     "modules: %W",
     "SELinux: permit the class perf_event to jeattach's domain; lockdown: none, the kernel was "
     "started so"},
    {FAULT_PERF_TARGET, "perf_target", EXIT_DENIED,
     "the kernel refuses perf events of this process%E: %W",
     "run jeattach as root (sudo), or give it CAP_PERFMON"},
    {FAULT_PERF_ABSENT, "perf_absent", EXIT_DENIED,
     "this kernel has no perf events (perf_event_open: %W)",
     "use a kernel with CONFIG_PERF_EVENTS=y"},
    {FAULT_PERF_FILES, "perf_files", EXIT_DENIED,
     "jeattach may not open enough files for perf events (%W)",
     "raise the limit of open files: ulimit -n"},
    {FAULT_PERF_MEMORY, "perf_memory", EXIT_DENIED,
     "jeattach may not lock enough memory for the samples%E",
     "raise the limit of locked memory (ulimit -l) or kernel.perf_event_mlock_kb, or give it "
     "CAP_IPC_LOCK"},
    {FAULT_FROZEN, "frozen", EXIT_NO_SAFE_POINT, "its cgroup is frozen: %W",
     "thaw it, then try again"},
    {FAULT_STOPPED, "stopped", EXIT_NO_SAFE_POINT, "it is stopped by job control (%W)",
     "continue it (kill -CONT %P), then try again"},
    {FAULT_NO_STOP, "no_stop", EXIT_NO_SAFE_POINT, "the thread did not stop in time: %W",
     "try again, or raise --timeout"},
    {FAULT_NO_ALLOCATOR, "no_jemalloc", EXIT_NO_ALLOCATOR,
     "no jemalloc found: no mallctl in any of its %W",
     "for profiles of its malloc start it with LD_PRELOAD=%L "
     "MALLOC_CONF=prof:true,prof_active:false"},
    {FAULT_NO_INSTANCE, "no_instance", EXIT_USAGE,
     "it has no jemalloc with that number; instances found: %W",
     "list them with jeattach status %P, and give one of their numbers to --instance"},
    {FAULT_UNSUPPORTED, "unsupported", EXIT_NO_SAFE_POINT, "%W",
     "none; the target was not touched"},
    {FAULT_WITHHELD, "withheld", EXIT_NO_SAFE_POINT, "%W",
     "if it does not run under an interposer (Wine), name one of its threads: --thread TID; the "
     "target was not touched"},
    {FAULT_NO_SAFE_POINT, "no_safe_point", EXIT_NO_SAFE_POINT,
     "no thread was at a safe point before the timeout: %W",
     "try again, or raise --timeout; the target was not changed"},
    {FAULT_NO_UNWINDER, "no_unwinder", EXIT_NO_SAFE_POINT,
     "no thread was at a safe point: %W; its stack could not be unwound, because libunwind is not "
     "installed where jeattach runs",
     "install libunwind (package libunwind8) where jeattach runs; the target was not touched"},
    {FAULT_NO_HEADROOM, "no_room", EXIT_NO_SAFE_POINT,
     "its memory limit is reached: %W, and nothing more can be reclaimed; the kernel might kill it "
     "for a page",
     "raise the limit temporarily (docker update --memory, podman update --memory, or the limit of "
     "that cgroup), then try again; the target was not touched"},
    {FAULT_NO_CPU, "no_cpu", EXIT_NO_SAFE_POINT,
     "a stopped thread might wait long for jeattach to get a CPU: %W",
     "run jeattach with CAP_SYS_NICE (as root), or with an ordinary priority and CPU share (nice "
     "0); "
     "the target was not touched"},
    {FAULT_NO_SCRATCH, "no_scratch_memory", EXIT_NO_SAFE_POINT,
     "the kernel refused the target %W of scratch memory%E",
     "check its memory and security limits; the target was left as it was"},
    {FAULT_STOPS_THREADS, "stops_threads", EXIT_NO_SAFE_POINT,
     "%W waits in a signal handler: the program seems to stop its threads by signals, and a call "
     "might wait for a lock whose owner is stopped, while the program waits for the call",
     "if it stops them rarely (a crash report, a thread dump), try again later; the target was not "
     "changed"},
    {FAULT_OCCUPIED, "occupied", EXIT_NO_SAFE_POINT,
     "a thread seems to keep the address space of the process locked, as long mmap, munmap and "
     "madvise calls and pinning do, and a call would wait for it: %W",
     "try again when it has finished, or raise --timeout; the target was not changed"},
    {FAULT_CALL_DEADLINE, "call_deadline", EXIT_CALL_DEADLINE,
     "the call did not end in time (%W); the target will finish it on its own, and until then that "
     "thread runs with its signals blocked",
     "check it later with: jeattach status %P"},
    {FAULT_CALL_HANGS, "call_hangs", EXIT_CALL_DEADLINE,
     "the call did not end in time (%W), and a signal that the program handles waits for its end: "
     "if the program stops its threads by that signal, one of them may own the lock that the call "
     "waits for, and the process may hang until it is restarted",
     "check whether it answers; if it does not, restart it"},
    {FAULT_CALL_WAITS, "call_waits", EXIT_CALL_DEADLINE,
     "another thread keeps the address space of the process locked: %W; that thread goes on by "
     "itself as soon as the lock is free, and until then its signals are blocked",
     "none; check it later with: jeattach status %P"},
    {FAULT_NO_ANSWER, "no_answer", EXIT_NO_SAFE_POINT,
     "its memory or its files do not respond: the kernel waits in %W for data that another process "
     "has to supply (userfaultfd, FUSE, NFS)",
     "check what serves its memory and its mounts; the target was not touched"},
    {FAULT_NO_ANSWER_HELD, "no_answer_held", EXIT_CALL_DEADLINE,
     "its memory or its files do not respond: the kernel waits in %W for data that another process "
     "has to supply (userfaultfd, FUSE, NFS)",
     "check what serves its memory and its mounts; the stopped thread was resumed, and will finish "
     "the call on its own"},
    {FAULT_INTERRUPTED, "interrupted", EXIT_INTERRUPTED, "interrupted; the target was not changed",
     NULL},
    {FAULT_PROF_ABSENT, "profiling_absent", EXIT_NO_PROFILING,
     "this jemalloc was built without profiling (config.prof is false): %W",
     "start it with %V=prof:true,prof_active:false and a jemalloc built with --enable-prof: "
     "another "
     "build of the program, or, where jemalloc is a library, LD_PRELOAD=FILE"},
    {FAULT_PROF_DISABLED, "profiling_disabled", EXIT_NO_PROFILING,
     "profiling was not enabled when it was started (opt.prof is false; %W)",
     "start it with %V=prof:true,prof_active:false in its environment; no jemalloc can enable "
     "profiling later"},
    {FAULT_NO_COUNTS, "no_counts", EXIT_REFUSED,
     "what its threads have allocated cannot be read from its memory: %W",
     "take profiles by time (--every) or by the RSS (--on-new-peak)"},
    {FAULT_UNREADABLE, "unreadable", EXIT_REFUSED, "its profile cannot be read from its memory: %W",
     "let the process write it by a call: the same command without --no-call"},
    {FAULT_OBJECTS_UNREADABLE, "objects_unreadable", EXIT_REFUSED,
     "its live objects cannot be found in its memory: %W",
     "jeattach stats --full prints the counts of jemalloc itself, by a call; jeattach leak shows "
     "which code makes it grow"},
    {FAULT_UNWRITABLE, "unwritable", EXIT_REFUSED,
     "prof.active cannot be written in its memory: %W%E",
     "let the process switch it by a call: the same command without --no-call"},
    {FAULT_CALL_FORBIDDEN, "call_forbidden", EXIT_REFUSED,
     "that needs a call in the process, which --no-call forbids",
     "the same command without --no-call"},
    {FAULT_CTL_REFUSED, "call_refused", EXIT_REFUSED, "mallctl refused %W%R", NULL},
    {FAULT_NAME_USAGE, "name_usage", EXIT_USAGE, "%W",
     "see jeattach mallctl --help; list the names with: jeattach mallctl %P --list '*'"},
    {FAULT_NAME_REFUSED, "name_refused", EXIT_REFUSED, "%W", NULL},
    {FAULT_DUMP_OPEN, "dump_open", EXIT_REFUSED, "the target could not create %W%E",
     "use -o FILE, which needs no file on the target's side, or another --path"},
    {FAULT_DUMP_WRITE, "dump_write", EXIT_REFUSED, "the target could not write all of %W%E",
     "use -o FILE, which needs no disk space on the target's side, or another --path"},
    {FAULT_DUMP_EXISTS, "dump_exists", EXIT_OUTPUT, "the file %W exists in the target",
     "give another name, or --force to replace that file"},
    {FAULT_DUMP_UNSAFE, "dump_unsafe", EXIT_REFUSED, "%W",
     "use -o FILE, which creates no file on the target's side"},
    {FAULT_DUMP_NAMELESS, "dump_nameless", EXIT_REFUSED,
     "jemalloc cannot name the profile: the prefix of its names (%W) is empty",
     "use --path, or -o FILE"},
    {FAULT_DUMP_HOOK, "dump_hook", EXIT_REFUSED,
     "the application has its own hook for finished dumps (experimental.hooks.prof_dump at %W), "
     "which would look for a file that -o does not create",
     "dump without -o, to a real file, with --allow hooks"},
    {FAULT_HOOKS, "hooks", EXIT_REFUSED,
     "the call could run a function of the application, and would never end if that function takes "
     "a lock which the stopped thread holds: %W",
     "if that function takes no lock that other code of the application takes, use --allow hooks"},
    {FAULT_STATS_ABSENT, "stats_absent", EXIT_REFUSED,
     "this jemalloc was built without statistics (config.stats is false): %W",
     "use a jemalloc built with --enable-stats (Rust: the feature 'stats'); --full shows what "
     "is available without it, --bins the size classes (since 5.0)"},
    {FAULT_STATS_MESSAGE, "stats_message", EXIT_REFUSED,
     "the program has set %W to its own function, which would be called with the report, "
     "because executable memory is not allowed",
     "run jeattach stats without --full"},
    {FAULT_STATS_NOT_FOUND, "stats_not_found", EXIT_REFUSED,
     "this build of jemalloc has no malloc_stats_print that can be called: %W",
     "run jeattach stats without --full"},
    {FAULT_STATS_SLOW, "stats_slow", EXIT_REFUSED,
     "%W reports in 30,000 pieces or more; where executable memory is not allowed (a seccomp "
     "filter) each piece costs a stop, so a thread would be stopped for seconds",
     "run jeattach stats without --full; or with --allow slow and a long --timeout: "
     "whatever is left at the timeout goes to the target's stderr"},
    {FAULT_STATS_NO_JSON, "stats_no_json", EXIT_REFUSED,
     "its report is not JSON (%W): jemalloc has JSON since 4.3",
     "run jeattach stats without --json, or with --full"},
    {FAULT_CORE, "core", EXIT_USAGE, "%W%E",
     "give a core file of a 64-bit process: of the kernel, of gcore, or of coredumpctl dump"},
    {FAULT_CORE_INPUT, "core_input", EXIT_USAGE, "%W%E", NULL},
    {FAULT_CORE_PROGRAM, "core_program", EXIT_USAGE, "%W%E",
     "give the program that had ended (--exe), and the directory with its libraries (--root)"},
    {FAULT_CORE_LACKS, "core_lacks", EXIT_REFUSED, "the core file does not show it: %W",
     "a core file is complete with 0x33 in /proc/PID/coredump_filter and no size limit (ulimit -c "
     "unlimited)"},
    {FAULT_CORE_FILES, "core_files", EXIT_REFUSED,
     "files that the process had mapped are needed with the core file, and are not here: %W",
     "give the program (--exe), and the directory with its libraries (--root), as they were"},
    {FAULT_TOO_LARGE, "too_large", EXIT_OUTPUT, "it is larger than the limit of %W", NULL},
    {FAULT_OUTPUT, "output", EXIT_OUTPUT, "%W%E", NULL},
    {FAULT_OUTPUT_OTHERS, "output_of_others", EXIT_OUTPUT,
     "%W, who is neither root nor you: it is not followed, written or replaced",
     "write to your own directory, or remove the file in the way"},
    {FAULT_DRAW, "draw", EXIT_OUTPUT, "%W",
     "draw less (--rows N, default 80), write a flame graph (-f flame), or write the graph alone "
     "(-f dot)"},
    {FAULT_PROFILE, "profile", EXIT_USAGE, "%W%E",
     "give a heap profile in jemalloc's own format, as jeattach dump writes it"},
    {FAULT_NO_GROUP, "no_group", EXIT_GONE, "there is no cgroup %W",
     "give its path as in /proc/PID/cgroup, or that of its directory"},
    {FAULT_AMBIGUOUS, "ambiguous", EXIT_USAGE, "%W",
     "give more digits of the id, or the path of its cgroup: --cgroup"},
    {FAULT_NO_MATCH, "no_match", EXIT_GONE, "%W",
     "jeattach ps lists the processes that use jemalloc, ps -e all"},
    {FAULT_SEVERAL, "several", EXIT_USAGE, "only one may match; none was touched",
     "give one PID, or --all if the verb accepts it"},
    {FAULT_LOST, "lost", EXIT_INTERNAL, "%W",
     "the target will finish the call on its own; check it with: jeattach status %P"},
    {FAULT_TOO_LATE, "too_late", EXIT_NO_SAFE_POINT, "timed out: %W", "raise --timeout"},
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
