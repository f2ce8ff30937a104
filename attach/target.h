/*
 * The identity of a target: pid, start time and pidfd, so that a pid that has
 * been reused meanwhile is never touched.
 */
#pragma once

#include "base/fault.h"
#include "host/parse.h"
#include "host/procfs.h"

struct target {
    struct procfs *proc;
    pid_t pid;
    pid_t via;             /* a thread that lives, when the first one has ended; else 0 */
    int pidfd;             /* -1: the kernel has no pidfd_open(2) */
    struct proc_stat stat; /* as first seen; stat.start is the identity */
    struct proc_status status;
};

/*
 * The id whose /proc entry shows the memory, files and root of the process: the
 * first thread's entry is empty once that has ended (pthread_exit in main).
 */
static inline pid_t target_via(const struct target *target)
{
    return target->via ? target->via : target->pid;
}

/*
 * The same process as one of its threads sees it: the table of descriptors, the root and the
 * working directory are a thread's own where it has unshared them (unshare(2)). A copy that owns
 * nothing: it is not closed, and lives no longer than the original.
 */
static inline struct target target_seen_by(const struct target *target, pid_t tid)
{
    struct target view = *target;

    view.via = tid;
    return view;
}

/*
 * The text of /proc/PID/maps, by another thread if the one of target_via has
 * ended since target_open. As procfs_slurp; 0: the process has no memory any
 * more, or a target that has only a pid as yet has no first thread.
 */
ssize_t target_maps(const struct target *target, char **text, size_t limit);

/* Its pid as it sees itself, in its own pid namespace. */
static inline pid_t target_ns_pid(const struct target *target)
{
    return target->status.ns_pid ? target->status.ns_pid : target->pid;
}

/*
 * Fills *target. Refuses the missing, the ended, kernel threads and pids that
 * are a thread of another process. proc must outlive the target.
 */
fault_code target_open(struct target *target, struct procfs *proc, pid_t pid, struct fault *fault);
void target_close(struct target *target);

/* A process that was chosen, to be opened later as the same or not at all. */
struct target_pin {
    pid_t pid;
    uint64_t start; /* as in struct proc_stat; TARGET_NO_START: there was none when it was chosen */
    int pidfd;      /* -1: none */
};

#define TARGET_NO_START UINT64_MAX

/*
 * Takes over what identifies an open target; the rest of it can then be closed.
 * target_pin_close releases it.
 */
struct target_pin target_take_pin(struct target *target);
void target_pin_close(struct target_pin *pin);

/* As target_open; FAULT_REUSED if the pid belongs to another process than the one pinned. */
fault_code target_open_pinned(struct target *target, struct procfs *proc,
                              const struct target_pin *pin, struct fault *fault);

/* FAULT_NONE while it is the process that was opened; else GONE, ZOMBIE or REUSED. */
fault_code target_check(const struct target *target, struct fault *fault);

/*
 * For another use of a target that was opened before: target_check, and what
 * may have changed since (status, via). On a fault they are as they were.
 */
fault_code target_renew(struct target *target, struct fault *fault);

/*
 * target_check after up to 200 ms: a process that has been killed fails in many
 * ways before it can be seen to have ended. For failures without another cause.
 */
fault_code target_check_end(const struct target *target, struct fault *fault);

/* Its RLIMIT_FSIZE in bytes; UINT64_MAX: unlimited, or not to be read. */
uint64_t target_file_size_limit(const struct target *target);
/* The same of RLIMIT_STACK, how large the stack of its first thread may be. */
uint64_t target_stack_limit(const struct target *target);

/* Its resident memory in bytes (VmRSS); 0: not to be read. Cheap: no walk over its page tables. */
uint64_t target_rss(const struct target *target);

/* By what it uses of the machine's memory, in order of exactness. */
enum usage_source { USAGE_ROLLUP, USAGE_SMAPS, USAGE_STATUS };

/*
 * Fills *usage from /proc/PID/smaps_rollup, else smaps, else status. Takes the
 * time of a walk over its page tables, in which it cannot change its mappings:
 * not to be called while one of its threads is held.
 */
fault_code target_usage(const struct target *target, struct proc_usage *usage,
                        enum usage_source *source, struct fault *fault);
