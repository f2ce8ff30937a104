/*
 * A function call made in one thread of a target, as if a signal handler ran.
 *
 *   injection_begin   stops a thread at a safe point, gives it a scratch area
 *   injection_put     puts arguments there
 *   injection_call    lets it execute a list of calls (any number of times)
 *   injection_get     reads the memory that they have filled
 *   injection_end     unmaps the scratch area, restores and resumes the thread
 *
 * If the tool dies between any two of its own system calls, the thread finishes
 * the list, unmaps the scratch area and restores itself through the frames on
 * its own stack. Nothing stays mapped. (If a target has no store gadget, a death
 * around the mmap of the scratch area leaves an unused mapping.)
 */
#pragma once

#include "attach/target.h"
#include "base/interruptions.h"
#include "host/priority.h"
#include "inject/plan.h"
#include "inject/safepoint.h"
#include "inject/stops.h"
#include "inject/syscalls.h"

/*
 * The scratch area:
 *
 *   base            trampoline, read and execute; it is also the stack's guard
 *   base + 0x1000   call header, call records, arguments and results
 *   base + 0x5000   text that a called function hands to a gathering callback
 *   ...
 *   stack, downwards from the end
 *
 * A call needs up to 18 KiB of stack, and 32 KiB more if a process has thousands
 * of arenas; the kernel's frame for musl's signal needs up to 11 KiB.
 */
enum {
    SCRATCH_CODE = 4096,
    SCRATCH_DATA = 16384,
    SCRATCH_ARGUMENTS = 4736,   /* offset of the arguments in the data */
    SCRATCH_GATHER = 128 << 10, /* bytes; the rest is larger than any call's stack */
    SCRATCH_LEN = SCRATCH_CODE + (256 << 10),
    INJECTION_CALLS_MAX = 60,
    INJECTION_SLEEPS = 64,
};

/*
 * A sleep that a stop has interrupted. If the same thread is stopped in it
 * again, its registers no longer show which system call it was.
 */
struct interrupted_sleep {
    pid_t tid;
    remote_addr pc, sp;
    long nr;
};

struct injection_env {
    const struct target *target;
    struct memory *memory;
    struct modules *modules; /* reloaded if the mappings have changed */
    const struct plan *plan;
    struct gate *gate;
    const struct deadline *deadline;
    pid_t only_thread; /* 0: any thread */
    bool named;        /* the operator named it: it is used even if it has its own seccomp filter */
    uint64_t search_ns; /* time limit of the search for a safe point; 0: until the deadline */
    struct interrupted_sleep *sleeps; /* INJECTION_SLEEPS, kept between injections; NULL: none */
    struct stops *stops;              /* kept between injections; NULL: none */
    bool brief; /* the search ends when another stop would only show what the last one has shown */
};

/* How the thread was last seen. */
enum injection_outcome {
    INJECTION_BACK,      /* where it was */
    INJECTION_LEFT,      /* the call is over, but it was not seen back where it was */
    INJECTION_ABANDONED, /* in the call, or on the way to it or back, which it ends on its own */
};

/* The result, for the closing line and for -v. Times in nanoseconds. */
struct injection_summary {
    pid_t tid;
    char comm[16];
    long syscall_nr;          /* the system call that it slept in; -1: it was running */
    unsigned attempts;        /* threads stopped until one was at a safe point */
    unsigned in_code;         /* of these, those that were in forbidden code themselves */
    struct evidence rejected; /* why the last unsafe thread was not used */
    pid_t rejected_tid;
    size_t withheld; /* threads not tried because of a seccomp filter that others do not have */
    remote_addr pc;  /* where it was stopped */
    struct evidence safe; /* why it was considered safe */
    uint64_t search_ns;   /* time until the safe point */
    uint64_t held_ns;     /* from the request to stop to the end of the detach */
    unsigned calls;       /* functions called */
    enum injection_outcome outcome;
    long
        waits_in; /* INJECTION_ABANDONED: the system call in which it waits; -1: unknown, or none */
};

enum injection_stage {
    STAGE_UNTOUCHED, /* the thread has its own registers */
    STAGE_ENTERED,   /* at the exit of a system call that the tool made the thread execute */
    STAGE_IN_CALL,   /* in the called function, which must run to its end */
    STAGE_RETURNED,  /* at the entry of the trampoline's sigreturn */
    STAGE_LAST,      /* in the function that frames.last calls, its signals blocked */
    STAGE_LEFT,      /* it left that function another way, its signals unblocked */
};

struct injection {
    struct injection_env env;
    struct session session;
    struct priority priority; /* the tool's, until the thread is resumed */
    uint64_t denied_since;    /* CLOCK_MONOTONIC ns of the first unexplained EPERM; 0: none */
    bool unwinder_tried;
    bool looks;                /* no calls will be made: restrictions on calls do not matter */
    unsigned filters_max;      /* seccomp filters that a usable thread may have at most */
    bool own_known;            /* own has been read */
    struct proc_status own;    /* of the stopped thread, read after its stop */
    bool seasoned;             /* the thread that is tried has certainly allocated before */
    struct unwinder *unwinder; /* during the search for a thread */
    struct deadline until;
    arch_regs original;               /* at the first stop, with rseq applied */
    remote_addr rseq_abort;           /* where a restartable sequence continues; 0: in none */
    struct interrupted_sleep *sleeps; /* indexed by tid modulo their number */
    struct stops *stops;              /* env.stops, or of this search alone */
    bool judged;                      /* the last stop had a result */
    struct interrupted_sleep own_sleeps[INJECTION_SLEEPS];
    bool eintr_by_stop;
    bool restart_block_used; /* one of our calls overwrote the thread's restart block */
    uint64_t mask;
    uint64_t
        open; /* signals that may arrive during the call: that by which musl stops all threads */
    struct arch_fp fp;
    struct arch_frames frames;
    unsigned char beneath[ARCH_FRAMES_MAX]; /* the bytes that the frames have replaced */
    struct arch_last last;                  /* restores its cancelability type or state */
    uint64_t calm;                          /* the type or state that it has until then */
    bool calmed;                            /* once a call has been intercepted */
    remote_addr scratch;                    /* 0: none yet */
    unsigned char *data;                    /* copied to base + SCRATCH_CODE */
    size_t data_used;
    bool code_written;
    bool filtered;        /* the thread has a seccomp filter */
    bool direct;          /* no executable memory: one call at a time */
    remote_addr errno_at; /* direct: the thread's errno; 0: not known */
    int errno_value;
    enum injection_stage stage;
    uint64_t stopped_at; /* CLOCK_MONOTONIC ns */
    uint64_t stop_ns;    /* from the last interrupt to its stop; UINT64_MAX: none */
    struct injection_summary summary;
};

/*
 * Starts an injection. On FAULT_NO_SAFE_POINT,
 * FAULT_NO_UNWINDER, FAULT_STOPPED, FAULT_NO_STOP, FAULT_GONE, FAULT_DENIED,
 * FAULT_INTERRUPTED, FAULT_NO_SCRATCH, FAULT_UNSUPPORTED and FAULT_WITHHELD the
 * target is as it was. FAULT_CALL_WAITS and FAULT_CALL_DEADLINE: it restores itself
 * later.
 */
fault_code injection_begin(struct injection *injection, const struct injection_env *env,
                           struct fault *fault);

/*
 * Does only the first part of it: stops a thread at a safe point, with its
 * registers in injection->original, and changes nothing in it. For inspection,
 * followed by injection_end; no calls can be made.
 */
fault_code injection_stop(struct injection *injection, const struct injection_env *env,
                          struct fault *fault);

/*
 * Copies len bytes for the next injection_call, aligned to 8. Returns their
 * address; 0: no space left.
 */
remote_addr injection_put(struct injection *injection, const void *bytes, size_t len);

/*
 * Calls count functions in order and fills their results. intercept may be
 * NULL. FAULT_CALL_DEADLINE and FAULT_CALL_WAITS: the tool has detached, and the
 * target will finish the calls on its own.
 */
fault_code injection_call(struct injection *injection, struct arch_call *calls, size_t count,
                          const struct intercept *intercept, struct fault *fault);

/* Reads back len bytes at an address from injection_put. Valid until the next injection_put. */
bool injection_get(struct injection *injection, remote_addr addr, void *out, size_t len);

/*
 * A callback for functions that report by void (*)(void *context, const char
 * *text): it gathers the texts in the scratch area. When the area is full, and
 * at flush, a record for the end of the list of calls, the thread makes a
 * write(2) to a file descriptor that no process has; the intercept recognizes
 * it (gather_is_write) and replaces it. False if there is no executable memory
 * for it.
 */
struct gather {
    remote_addr function, context;
    struct arch_call flush;
};
bool injection_gather(struct injection *injection, struct gather *gather);
/*
 * For intercept.enter: true if it is that write. Then args[1] is the address of
 * the text and args[2] its length.
 */
bool gather_is_write(const struct gather *gather, uint64_t nr, const uint64_t args[6]);

/* Ends an injection, in any state; idempotent. */
fault_code injection_end(struct injection *injection, struct fault *fault);
