/*
 * A function call made in one thread of a target, as if a signal handler ran.
 *
 *   injection_begin   stop a thread at a safe point, give it a scratch area
 *   injection_put     place arguments there
 *   injection_call    let it work through a list of calls (any number of times)
 *   injection_get     read what they left
 *   injection_end     take the scratch area away, let the thread go on as it was
 *
 * Should the tool die between any two of its own system calls, the thread
 * finishes the list, unmaps the scratch area and restores itself through the
 * frames on its own stack. Nothing stays mapped. (Where a target has no store
 * gadget, a death around the scratch area's mmap leaves an unused mapping.)
 */
#pragma once

#include "attach/deadline.h"
#include "attach/threads.h"
#include "inject/plan.h"
#include "inject/safepoint.h"
#include "inject/syscalls.h"

/*
 * The scratch area:
 *
 *   base            trampoline, read and execute; it is also the stack's guard
 *   base + 0x1000   call header, call records, arguments and results
 *   base + 0x5000   text that a called function hands to a gathering callback
 *   ...
 *   stack, downwards from the end; not used where a collector looks through the
 *   thread's own (inject/collectors.h)
 *
 * A call needs up to 18 KiB of stack, and where a process has thousands of
 * arenas 32 more; the kernel's frame of a collector's signal up to 11.
 */
enum {
    SCRATCH_CODE = 4096,
    SCRATCH_DATA = 16384,
    SCRATCH_ARGUMENTS = 4736,   /* offset in the data at which arguments begin */
    SCRATCH_GATHER = 128 << 10, /* bytes; what is left is more than any call's stack */
    SCRATCH_LEN = SCRATCH_CODE + (256 << 10),
    INJECTION_CALLS_MAX = 60,
    INJECTION_OWN_STACK = 80 << 10, /* of the thread's own stack, where the call runs there */
    INJECTION_SLEEPS = 64,
};

/*
 * A sleep that a stop has interrupted: should the same thread be stopped in it
 * again, its registers no longer tell which system call it was.
 */
struct interrupted_sleep {
    pid_t tid;
    remote_addr pc, sp;
    long nr;
};

struct injection_env {
    const struct target *target;
    struct memory *memory;
    struct modules *modules; /* reloaded when mappings have changed */
    const struct plan *plan;
    struct gate *gate;
    const struct deadline *deadline;
    pid_t only_thread;  /* 0: any thread */
    bool named;         /* the operator named it: also one with a seccomp filter of its own */
    uint64_t search_ns; /* how long a safe point is looked for; 0: until the deadline */
    struct interrupted_sleep *sleeps; /* INJECTION_SLEEPS, kept from one to the next; NULL: none */
};

/* What happened, for the closing line and for -v. Times in nanoseconds. */
struct injection_summary {
    pid_t tid;
    char comm[16];
    long syscall_nr;          /* in which it was asleep; -1: it was running */
    unsigned attempts;        /* threads stopped until one was at a safe point */
    struct evidence rejected; /* why the last unsafe one was not used */
    pid_t rejected_tid;
    size_t withheld;      /* threads not tried for a seccomp filter that others do not have */
    remote_addr pc;       /* at which it was stopped */
    struct evidence safe; /* why it was held to be safe */
    uint64_t search_ns;   /* until the safe point */
    uint64_t held_ns;     /* from the request to stop to the end of the detach */
    unsigned calls;       /* functions called */
    unsigned syscall_stops;
    bool left; /* the call is over, but it was not seen back where it was */
};

enum injection_stage {
    STAGE_UNTOUCHED, /* the thread's registers are its own */
    STAGE_ENTERED,   /* at the exit of a system call that the tool made it make */
    STAGE_IN_CALL,   /* in the called function: it must run to its end */
    STAGE_RETURNED,  /* at the entry of the trampoline's sigreturn */
    STAGE_LAST,      /* in the function that frames.last calls, its signals blocked */
    STAGE_LEFT,      /* it went elsewhere from there, its signals open */
};

struct injection {
    struct injection_env env;
    struct session session;
    uint64_t denied_since; /* CLOCK_MONOTONIC ns of the first EPERM without a cause; 0: none */
    bool unwinder_tried;
    bool may_idle;             /* the tool, while calls are intercepted: cpu_follow_may_idle */
    bool looks;                /* no calls will be made: what they cannot bear does not matter */
    unsigned filters_max;      /* seccomp filters that a thread may have to be used */
    bool own_known;            /* own has been read */
    struct proc_status own;    /* the held thread's, read after its stop */
    bool seasoned;             /* the thread that is tried has surely allocated before */
    struct cpu_follow *follow; /* while calls are intercepted */
    struct unwinder *unwinder; /* while a thread is looked for */
    struct deadline until;
    arch_regs original;               /* at the first stop, rseq applied */
    remote_addr rseq_abort;           /* where a restartable sequence goes on; 0: in none */
    struct interrupted_sleep *sleeps; /* by tid, modulo their number */
    struct interrupted_sleep own_sleeps[INJECTION_SLEEPS];
    bool eintr_by_stop;
    bool restart_block_used; /* a call of ours overwrote the thread's restart block */
    uint64_t mask;
    uint64_t open;  /* signals of a collector that may come during the call */
    bool own_stack; /* the call runs on the thread's own stack, below the frames */
    struct arch_fp fp;
    struct arch_frames frames;
    struct arch_last last; /* gives its cancelability type or state back, */
    uint64_t calm;         /* in place of which there is this one */
    bool calmed;           /* once a call has been intercepted */
    remote_addr scratch;   /* 0: none yet */
    unsigned char *data;   /* what goes to base + SCRATCH_CODE */
    size_t data_used;
    bool code_written;
    bool direct;          /* no executable memory: one call at a time */
    remote_addr errno_at; /* direct: the thread's errno; 0: not known */
    int errno_value;
    enum injection_stage stage;
    uint64_t stopped_at; /* CLOCK_MONOTONIC ns */
    uint64_t stop_ns;    /* from the last interrupt to its stop; UINT64_MAX: there was none */
    struct injection_summary summary;
};

/*
 * FAULT_NO_SAFE_POINT, FAULT_STOPPED, FAULT_NO_STOP, FAULT_GONE, FAULT_DENIED,
 * FAULT_INTERRUPTED, FAULT_NO_SCRATCH, FAULT_UNSUPPORTED, FAULT_WITHHELD: the target is as it was.
 */
fault_code injection_begin(struct injection *injection, const struct injection_env *env,
                           struct fault *fault);

/*
 * The beginning of that alone: a thread stopped at a safe point, its registers
 * in injection->original, nothing of it changed. For a look, and then
 * injection_end. No calls can be made.
 */
fault_code injection_stop(struct injection *injection, const struct injection_env *env,
                          struct fault *fault);

/* Copies len bytes for the next injection_call; 8-aligned. Returns their address, 0: no room. */
remote_addr injection_put(struct injection *injection, const void *bytes, size_t len);

/*
 * Calls count functions in order and fills their results. intercept may be NULL.
 * FAULT_CALL_DEADLINE: detached, the calls finish by themselves.
 */
fault_code injection_call(struct injection *injection, struct arch_call *calls, size_t count,
                          const struct intercept *intercept, struct fault *fault);

/* Reads back len bytes at an address from injection_put, until the next injection_put. */
bool injection_get(struct injection *injection, remote_addr addr, void *out, size_t len);

/*
 * A callback for functions that report by void (*)(void *context, const char
 * *text): it gathers the texts in the scratch area. When that is full, and when
 * flush, a record for the end of the list of calls, says so, the thread makes a
 * write(2) to a descriptor that no process has; the intercept takes it (gather_is_write)
 * and stands in for it. False where there is no executable memory for it.
 */
struct gather {
    remote_addr function, context;
    struct arch_call flush;
};
bool injection_gather(struct injection *injection, struct gather *gather);
/* For intercept.enter: is it that write? Then args[1] is the text's address, args[2] its length. */
bool gather_is_write(const struct gather *gather, uint64_t nr, const uint64_t args[6]);

/* Ends what injection_begin began, in every state; idempotent. */
fault_code injection_end(struct injection *injection, struct fault *fault);
