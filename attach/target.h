/*
 * The identity of a target: pid, start time and pidfd, so that a process that
 * reuses the pid is never touched.
 */
#pragma once

#include "base/fault.h"
#include "host/procfs.h"
#include "host/task.h"

#include <limits.h>

/*
 * A process that has ended, as a core file records it. Its /proc does not exist: procfs
 * has no directory, so that nothing is read of a process that has the same pid now.
 */
struct target_record {
    const char *maps; /* in the format of /proc/PID/maps */
    size_t maps_len;
    int root;    /* O_PATH descriptor of the directory with its files; -1: the tool's "/" */
    int program; /* its program's file, in place of the path in maps; -1: none */
    remote_addr program_at; /* an address in its program; 0: unknown */
};

struct target {
    struct procfs *proc;
    const struct target_record *record; /* NULL: a running process */
    pid_t pid;
    pid_t via;             /* a live thread, if the first one has ended; else 0 */
    int pidfd;             /* -1: the kernel has no pidfd_open(2) */
    const int *kept_root;  /* O_PATH: its root directory, for after its end; NULL: not kept */
    struct proc_stat stat; /* as first read; stat.start is the identity */
    struct proc_status status;
};

/*
 * Returns the id whose /proc entry shows the memory, files and root of the process:
 * the first thread's entry is empty after its end (pthread_exit in main).
 */
static inline pid_t target_via(const struct target *target)
{
    return target->via ? target->via : target->pid;
}

/*
 * Returns the process as one of its threads sees it: a thread that has called
 * unshare(2) has its own file descriptors, root or working directory. The result is
 * a copy that owns nothing: do not close it, and do not use it after the original.
 */
static inline struct target target_seen_by(const struct target *target, pid_t tid)
{
    struct target view = *target;

    view.via = tid;
    return view;
}

/*
 * Maximum bytes of /proc/PID/maps. The 65,530 mappings that vm.max_map_count allows by
 * default have 6 MiB with paths of 30 bytes, and 260 MiB with the longest.
 */
enum { TARGET_MAPS_MAX = 16 << 20 };

/*
 * Reads /proc/PID/maps like procfs_slurp, through another thread if the one of
 * target_via has ended since target_open. Returns 0 if the process has no memory
 * any more, or if a target of which only the pid is known has no first thread;
 * -EFBIG if it is longer than TARGET_MAPS_MAX.
 */
ssize_t target_maps(const struct target *target, char **text);

/* Returns its pid in its own pid namespace. */
static inline pid_t target_ns_pid(const struct target *target)
{
    return target->status.ns_pid ? target->status.ns_pid : target->pid;
}

/*
 * Fills *target. Refuses pids that do not exist, ended processes, kernel threads
 * and threads of another process. proc must outlive the target.
 */
fault_code target_open(struct target *target, struct procfs *proc, pid_t pid, struct fault *fault);
void target_close(struct target *target);

/* A chosen process, to be opened later if it is still the same. */
struct target_pin {
    pid_t pid;
    uint64_t start; /* as in struct proc_stat, or TARGET_NO_START */
    int pidfd;      /* -1: none */
};

#define TARGET_NO_START UINT64_MAX /* the process did not exist when it was chosen */

/*
 * Takes over the identity of an open target, which can then be closed.
 * target_pin_close releases it.
 */
struct target_pin target_take_pin(struct target *target);
void target_pin_close(struct target_pin *pin);

/*
 * Does the same as target_open; FAULT_REUSED if the pid now belongs to another
 * process than the pinned one.
 */
fault_code target_open_pinned(struct target *target, struct procfs *proc,
                              const struct target_pin *pin, struct fault *fault);

/* FAULT_NONE while it is the process that was opened; otherwise GONE, ZOMBIE or REUSED. */
fault_code target_check(const struct target *target, struct fault *fault);

/*
 * Prepares an open target for another use: target_check, then reads again what may
 * have changed (status, via). On a fault these stay unchanged.
 */
fault_code target_renew(struct target *target, struct fault *fault);

/*
 * Repeats target_check for up to 200 ms: the calls on a killed process fail in many
 * ways before /proc shows its end. For failures without another cause.
 */
fault_code target_check_end(const struct target *target, struct fault *fault);

enum target_end { TARGET_LIVES, TARGET_THREAD_ENDS, TARGET_ENDS };

/*
 * Returns what has ended or is certain to end, the process or this thread of it. Does not
 * wait: a thread that was killed has SIGKILL pending until it ends.
 */
enum target_end target_look_end(const struct target *target, pid_t tid);

/*
 * The name by which a program was started and by which ps shows it, if that is a link to a file of
 * another name: "redis-server", whose file is redis-check-rdb.
 */
struct target_alias {
    char path[PATH_MAX]; /* of the file; "": its name is the program's */
    char name[64];
};

/* target NULL: there is none. */
void target_alias_find(struct target_alias *alias, const struct target *target);
/* Returns the last component of a path, or the alias if it is of that file. */
const char *target_file_name(const struct target_alias *alias, const char *path);

/* Returns its RLIMIT_FSIZE in bytes; UINT64_MAX: unlimited or unknown. */
uint64_t target_file_size_limit(const struct target *target);
/* Returns its RLIMIT_STACK, the largest size of its first thread's stack, in the same way. */
uint64_t target_stack_limit(const struct target *target);
/* Returns its RLIMIT_AS, the largest size of its address space, in the same way. */
uint64_t target_space_limit(const struct target *target);

/*
 * Returns its resident memory in bytes (VmRSS); 0: unknown. Cheap: does not walk
 * its page tables.
 */
uint64_t target_rss(const struct target *target);

/*
 * Fills *usage from /proc/PID/status, as cheaply. False: the process has no memory of its own any
 * more, or it cannot be read.
 */
bool target_status_usage(const struct target *target, struct proc_usage *usage);

/* The file that its memory use was read from, the most exact first. */
enum usage_source { USAGE_ROLLUP, USAGE_SMAPS, USAGE_STATUS };

/*
 * Fills *usage from /proc/PID/smaps_rollup, else smaps, else status. The kernel
 * walks its page tables, and the process cannot change its mappings during that
 * time: do not call this while one of its threads is stopped.
 */
fault_code target_usage(const struct target *target, struct proc_usage *usage,
                        enum usage_source *source, struct fault *fault);

/* ---- its threads, as /proc/PID/task shows them without stopping any ---- */

struct thread {
    pid_t tid;
    char state;         /* as in struct proc_stat */
    unsigned flags;     /* as in struct proc_stat */
    int cpu;            /* the CPU that it last ran on */
    uint64_t cpu_ticks; /* CPU time, clock ticks */
    char comm[16];      /* untrusted: the process names its threads */
};

struct threads {
    struct thread *list;
    size_t count;
};

enum { THREADS_MAX = 1 << 20 };

/* Lists the threads, without any that end in between; threads_free releases the list. */
fault_code threads_list(struct threads *threads, const struct target *target, struct fault *fault);
void threads_free(struct threads *threads);

/*
 * Reads where a sleeping thread is, without stopping it; false if it has ended or
 * may not be read.
 */
bool thread_read_syscall(const struct thread *thread, const struct target *target,
                         struct proc_syscall *out);

/* Reads the thread's present state; false if it has ended. */
bool thread_refresh(struct thread *thread, const struct target *target);
