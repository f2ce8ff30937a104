/*
 * What went wrong, as data.
 *
 * Mechanism never prints: it returns a code and fills a struct fault with the
 * errno, the stage and the object. cli/message.c alone makes words of it.
 */
#pragma once

#include <stdbool.h>

/* FAULT_NONE, or one of the codes below. */
typedef int fault_code;

enum {
    FAULT_NONE = 0,
    FAULT_INTERNAL, /* a bug, or the tool's own host refused it something (memory, descriptors) */
    FAULT_GONE,     /* no such process, or it ended, or its thread did */
    FAULT_ZOMBIE,   /* it has ended and waits for its parent */
    FAULT_REUSED,   /* the pid belongs to another process now */
    FAULT_EXECED,   /* it replaced itself by another program */
    FAULT_KERNEL_THREAD,  /* it has no memory of its own */
    FAULT_FOREIGN_ABI,    /* 32-bit, or another machine's code */
    FAULT_DENIED,         /* the kernel said EPERM or EACCES, no cause known */
    FAULT_DENIED_UID,     /* it belongs to another user */
    FAULT_DENIED_YAMA,    /* kernel.yama.ptrace_scope forbids it */
    FAULT_DENIED_CAPS,    /* it has capabilities that the tool lacks */
    FAULT_TRACED,         /* another tracer holds it */
    FAULT_TOOL_TRACED,    /* the tool itself is traced, and so can trace nobody */
    FAULT_STOPPED,        /* stopped by job control (SIGSTOP, SIGTSTP) */
    FAULT_NO_STOP,        /* the thread did not stop in time (frozen, uninterruptible) */
    FAULT_NO_ALLOCATOR,   /* no jemalloc found in it */
    FAULT_NO_INSTANCE,    /* no jemalloc of that number */
    FAULT_UNSUPPORTED,    /* it uses something that a forged call would break */
    FAULT_WITHHELD,       /* a call could harm its threads, which the kernel does not tell */
    FAULT_NO_SAFE_POINT,  /* no thread could be proven outside the allocator in time */
    FAULT_NO_UNWINDER,    /* the same, and the library that could prove more is not installed */
    FAULT_NO_HEADROOM,    /* its memory group is full: the kernel might kill it for a page more */
    FAULT_NO_SCRATCH,     /* the kernel refused the scratch memory */
    FAULT_CALL_DEADLINE,  /* the call did not return in time; left to finish by itself */
    FAULT_NO_ANSWER,      /* a page or a file of it never comes, and the wait has no end */
    FAULT_NO_ANSWER_HELD, /* the same, when a thread had been held already */
    FAULT_INTERRUPTED,    /* the operator asked to stop */
    FAULT_PROF_ABSENT,    /* config.prof is false */
    FAULT_PROF_DISABLED,  /* opt.prof is false */
    FAULT_CTL_REFUSED,    /* mallctl returned an error */
    FAULT_NAME_USAGE,     /* no such name of jemalloc's, or no such value */
    FAULT_NAME_REFUSED,   /* a name that must not be used in this way, or that jemalloc refused */
    FAULT_DUMP_OPEN,      /* the target could not open the profile; err is the errno of its open */
    FAULT_DUMP_WRITE,  /* the target could not write it all; err is the errno, or 0 if cut short */
    FAULT_DUMP_UNSAFE, /* a dump to that file could harm the target */
    FAULT_DUMP_NAMELESS, /* jemalloc has no name for the profile */
    FAULT_DUMP_HOOK, /* a hook of the application's waits for a file that streaming never makes */
    FAULT_HOOKS, /* functions of the application's would run in the call, with locks of theirs */
    FAULT_STATS_ABSENT,  /* config.stats is false */
    FAULT_STATS_MESSAGE, /* a function of the program stands where its report would come out */
    FAULT_STATS_SLOW,    /* its report would be taken out in thousands of stops */
    FAULT_STATS_NO_JSON, /* what it writes for JSON is none */
    FAULT_TOO_LARGE,     /* it grew beyond the limit that the tool sets itself */
    FAULT_OUTPUT,        /* the tool's own output could not be written */
    FAULT_OUTPUT_OTHERS, /* a link or a file of another user is in its way, where all may write */
    FAULT_PROFILE,       /* a file is no heap profile, or cannot be read */
    FAULT_NO_GROUP,      /* no control group of that path */
    FAULT_AMBIGUOUS,     /* the beginning of the ids of several containers */
    FAULT_NO_MATCH,      /* no process that was asked for */
    FAULT_SEVERAL,       /* several, where one was asked for */
    FAULT_LOST,          /* the tool's own process for this target was killed */
    FAULT_TOO_LATE,      /* the time was over before anything was done */

    FAULT_DENIED_GID,      /* it runs with another group */
    FAULT_DENIED_DUMPABLE, /* it is not dumpable */
    FAULT_DENIED_USERNS,   /* the tool's capabilities do not count in its user namespace */
    FAULT_DENIED_SECCOMP,  /* the tool's own seccomp filter refuses what it needs */
    FAULT_DENIED_LSM,      /* a security module refuses it */
    FAULT_HIDDEN,          /* it is there, but /proc does not show it */
    FAULT_OTHER_PIDNS,     /* the pid is that of a process in another pid namespace */
    FAULT_PROCFS,          /* /proc is not that of the tool's pid namespace */
    FAULT_FROZEN,          /* its control group is frozen */
};

#define STAGE_READ_MEMORY "read memory"

struct fault {
    fault_code code;
    int err;           /* errno, or a return code of mallctl; 0: none */
    const char *stage; /* what was being done, static text: "seize", "read maps" */
    char what[256];    /* the object: a path, a name, a thread, a reason */
    int pid;           /* a second process that matters: the other tracer; 0: none */
};

/*
 * Fills *fault (unless it is NULL) and returns code, so that a caller can
 * write: return fault_set(f, FAULT_GONE, ESRCH, "seize", "thread %d", tid);
 */
__attribute__((format(printf, 5, 6))) fault_code fault_set(struct fault *fault, fault_code code,
                                                           int err, const char *stage,
                                                           const char *fmt, ...);
