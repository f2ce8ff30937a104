/*
 * The tasks in /proc, that is processes and their threads: their stat and status, lists of
 * them, and parsers of these and other texts in /proc.
 */
#pragma once

#include "base/cursor.h"
#include "base/util.h"
#include "host/procfs.h"

#include <dirent.h>
#include <sys/types.h>

/*
 * ---- parsers ----
 *
 * They take a text, never a path, and trust nothing: the target chooses its own name and the
 * names of its files.
 */

/* From /proc/PID/stat or /proc/PID/task/TID/stat. */
struct proc_stat {
    int pid;
    char comm[64]; /* as in the kernel: may have blanks, parentheses, control characters */
    char state;    /* R S D T t Z X I */
    int ppid;
    unsigned flags;      /* PF_*; PF_KTHREAD 0x00200000; PF_IO_WORKER */
    uint64_t cpu_ticks;  /* utime + stime, clock ticks */
    uint64_t user_ticks; /* utime */
    uint64_t threads;    /* num_threads: of its process, with those that are ending */
    uint64_t start; /* starttime, clock ticks since boot: with the pid it identifies a process */
    int cpu;        /* the CPU that it last ran on */
    remote_addr stack_start; /* of the first thread at the exec; 0: not shown, or no memory */
    remote_addr env_start, env_end; /* its environment; 0 if the kernel does not show it */
};

enum { PF_IO_WORKER = 0x10 }; /* include/linux/sched.h: a thread of io_uring */

bool parse_stat(const char *text, size_t len, struct proc_stat *out);

enum { STATUS_SECCOMP_STRICT = 1, STATUS_SECCOMP_FILTER = 2 }; /* linux/seccomp.h */

enum { NS_PIDS_MAX = 33 }; /* MAX_PID_NS_LEVEL + 1, include/linux/pid_namespace.h */

/* From /proc/PID/status or /proc/PID/task/TID/status; a missing field stays 0. */
struct proc_status {
    int tgid;   /* the pid of the process that the thread belongs to */
    int tracer; /* TracerPid */
    /* NSpid: its pid in the reader's pid namespace, then in each descendant, down to its own. */
    int ns_pids[NS_PIDS_MAX];
    size_t ns_pid_count;
    int ns_pid; /* the last one: its pid in its own pid namespace */
    uid_t uid, euid, suid;
    gid_t gid, egid, sgid;
    int seccomp;              /* 0 off, or STATUS_SECCOMP_*; of this thread */
    unsigned seccomp_filters; /* their number; before Linux 5.9 at least 1 */
    bool shadow_stack;        /* x86_Thread_features names shstk; of this thread */
    uint64_t sig_pending, sig_shared_pending, sig_blocked, sig_caught; /* bit n-1: signal n */
    uint64_t cap_permitted, cap_effective, cap_bounding;
    uint64_t rss_bytes;          /* VmRSS */
    uint64_t locked_bytes;       /* VmLck */
    uint64_t swap_bytes;         /* VmSwap */
    uint64_t voluntary_switches; /* how often the thread has slept */
};

bool parse_status(const char *text, size_t len, struct proc_status *out);

/* From /proc/PID/task/TID/syscall: where a sleeping thread is, without stopping it. */
struct proc_syscall {
    bool asleep; /* in the kernel and not running; otherwise the other members are unknown */
    long nr; /* number of the system call; -1: asleep for another reason, such as a page fault */
    remote_addr sp, pc;
};

bool parse_syscall(const char *text, size_t len, struct proc_syscall *out);

/* How much of a process is in memory, bytes. */
struct proc_usage {
    uint64_t rss;
    uint64_t anonymous; /* of rss: not backed by a file */
    uint64_t file;      /* of rss: pages of files; only in status */
    uint64_t shared;    /* of rss: shared memory, tmpfs; only in status */
    uint64_t lazy_free; /* of rss: released with MADV_FREE, not yet reclaimed by the kernel */
    uint64_t huge;      /* of anonymous: in huge pages; not in status */
    uint64_t swap;
};

/*
 * Parses /proc/PID/smaps_rollup ("Rss:  1234 kB"), /proc/PID/smaps, whose mappings
 * are added up, or /proc/PID/status ("VmRSS:", "VmSwap:"). False if the text has
 * neither Rss nor VmRSS.
 */
bool parse_usage(const char *text, size_t len, struct proc_usage *out);

enum { MAP_READ = 1, MAP_WRITE = 2, MAP_EXEC = 4, MAP_SHARED_ = 8 };

/* From a line of /proc/PID/maps. */
struct map_entry {
    remote_addr start, end;
    unsigned prot;   /* MAP_READ | MAP_WRITE | MAP_EXEC | MAP_SHARED_ */
    uint64_t offset; /* bytes into the file */
    unsigned dev_major, dev_minor;
    uint64_t inode;   /* 0: no file */
    const char *path; /* points into the text, not NUL-terminated; \012 stands for a newline */
    size_t path_len;  /* 0: anonymous */
};

/*
 * Takes the next line off the text. Returns 1 for an entry, 0 at the end, -1 for a
 * line that is not one and is skipped.
 */
int parse_map_line(struct cursor *text, struct map_entry *out);

/*
 * ---- tasks ----
 *
 * PROC_SELF in place of a pid stands for the tool itself. Each function returns 0 or -errno:
 * -ENOENT or -ESRCH if there is no such task, -EBADMSG if the text is malformed. *out is valid
 * only after 0; if nothing could be read, it is zeroed.
 */

/* Reads /proc/PID/stat: the times are of all threads, the state is the first thread's. */
int process_stat(const struct procfs *proc, pid_t pid, struct proc_stat *out);
/* Returns the time since the process started, in ns, with the precision of a tick. */
uint64_t process_age_ns(const struct proc_stat *stat);
/* Reads /proc/PID/task/TID/stat. */
int thread_stat(const struct procfs *proc, pid_t pid, pid_t tid, struct proc_stat *out);

/*
 * Reads /proc/PID/status: signals, capabilities and the seccomp filter are the
 * first thread's. About 20 us.
 */
int process_status(const struct procfs *proc, pid_t pid, struct proc_status *out);
/* Reads /proc/PID/task/TID/status. */
int thread_status(const struct procfs *proc, pid_t pid, pid_t tid, struct proc_status *out);

/*
 * Reads the function of the kernel in which the thread waits (/proc/PID/task/TID/wchan)
 * and ends it with a NUL. False if it waits in none, or if the tool may not read its
 * memory.
 */
bool thread_wchan(const struct procfs *proc, pid_t pid, pid_t tid, char *out, size_t size);

/* The processes in /proc, or the threads of one process, in the order of the kernel. */
struct task_dir {
    DIR *stream;
};

/* Open the directory; return 0 or -errno. task_dir_close releases it, also after an error. */
int task_dir_of_processes(struct task_dir *dir, const struct procfs *proc);
int task_dir_of_threads(struct task_dir *dir, const struct procfs *proc, pid_t pid);
void task_dir_close(struct task_dir *dir);

/* Returns the next pid or tid; 0 at the end. */
pid_t task_dir_next(struct task_dir *dir);
