/*
 * Samples the page faults of a process: which address was touched first, by which
 * calls. The kernel counts them as a software event (perf_event_open(2),
 * PERF_COUNT_SW_PAGE_FAULTS) in each thread or, where there are many, on each CPU; threads that
 * start later are included.
 * No thread is stopped, and nothing remains after the end of the tool.
 */
#pragma once

#include "attach/target.h"
#include "perf/user_state.h"

struct page_fault {
    uint64_t time_ns; /* CLOCK_MONOTONIC */
    remote_addr addr;
    pid_t tid;
    uint64_t weight;         /* number of page faults that this sample stands for */
    struct user_state state; /* valid during the call only */
};

struct page_fault_request {
    uint64_t period;      /* one sample every N faults of a thread; 0: adapts to the rate */
    uint32_t stack_bytes; /* of each copy; 0: the usual number */
    unsigned most_per_s;  /* samples a second, at most; 0: the usual number */
    /* For the opening, also when the period changes: threads that are not open by then are not
       observed. NULL: none. It may be changed until page_faults_close. */
    const struct deadline *deadline;
};

/* How many faults there were, and why some have no sample. */
struct page_fault_lack {
    /* Those that the kernel has counted since the start, also where samples were lost. The
       weights of the samples estimate it: scale them to it for an exact sum. If by_cpu: the
       share of the process in the weights of all samples, of all that were counted. */
    uint64_t counted;
    bool kernel;        /* faults in system calls (read(2) into new memory) are not permitted */
    bool listed;        /* threads that live for less than listed_ms are not seen: too many */
    unsigned listed_ms; /* between two lists of the threads, at most */
    uint64_t started;   /* threads that were started meanwhile, as far as that is seen */
    size_t threads;     /* threads that are not observed */
    size_t all_threads; /* their number, with those that are; 0 if by_cpu */
    int threads_err;    /* why, an errno; ENOBUFS: more would cost too much memory; ETIMEDOUT */
    bool cpus_denied;   /* that all are observed by CPU is not permitted */
    bool by_cpu;        /* all processes were sampled, and counted is an estimate */
    uint64_t others;    /* samples of other processes, which were dropped */
    uint64_t lost;      /* samples that the kernel has dropped */
    uint64_t throttled; /* times that the kernel stopped the sampling for a while */
};

struct page_faults;

/*
 * Starts the sampling. FAULT_PERF_*: the kernel refuses it, with the cause (perf/faults.h).
 * page_faults_close releases everything, also after a failure.
 */
fault_code page_faults_open(struct page_faults **faults, const struct target *target,
                            const struct page_fault_request *request, struct fault *fault);

typedef void (*page_fault_action)(void *ctx, const struct page_fault *fault);

/*
 * Waits at most timeout_ms for samples, and calls the action for each one. After the
 * end of the process those that it took before are passed on, and the fault is that of
 * target_check.
 */
fault_code page_faults_read(struct page_faults *faults, int timeout_ms, page_fault_action action,
                            void *ctx, struct fault *fault);
/*
 * Makes the copies of stacks larger from now on, between two reads: too many end before the
 * outermost call. The most samples a second become fewer, so that the kernel copies no more
 * than 64 MiB a second of the time of the process. Returns FAULT_NONE, too, if they cannot be
 * larger: page_faults_stack_bytes is then as before.
 */
fault_code page_faults_deepen(struct page_faults *faults, struct fault *fault);
/* Returns the bytes of each copy, at most. */
uint32_t page_faults_stack_bytes(const struct page_faults *faults);
/* Since page_faults_open. */
struct page_fault_lack page_faults_lack(const struct page_faults *faults);
void page_faults_close(struct page_faults *faults);
