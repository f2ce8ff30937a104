/*
 * Shows each ptrace call and each write into the target, with its number, on stderr.
 *
 * The line stands after the call, also if the tool dies after it (JEATTACH_DIE_AFTER). Linked with
 * --wrap; the tool itself writes nothing while a thread is stopped.
 */
#include "trace.h"
#include "attach/gate.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>

ssize_t __real_gate_vm_write(struct gate *gate, pid_t pid, remote_addr addr, const void *buf,
                             size_t len);
ssize_t __wrap_gate_vm_write(struct gate *gate, pid_t pid, remote_addr addr, const void *buf,
                             size_t len);
ssize_t __real_gate_mem_write(struct gate *gate, int memfd, remote_addr addr, const void *buf,
                              size_t len);
ssize_t __wrap_gate_mem_write(struct gate *gate, int memfd, remote_addr addr, const void *buf,
                              size_t len);
long __wrap_gate_ptrace(struct gate *gate, int request, pid_t tid, uint64_t addr, uint64_t data);

static const char *request_name(int request)
{
    static const struct {
        int request;
        const char *name;
    } names[] = {
        {PTRACE_SEIZE, "SEIZE"},
        {PTRACE_INTERRUPT, "INTERRUPT"},
        {PTRACE_DETACH, "DETACH"},
        {PTRACE_CONT, "CONT"},
        {PTRACE_SYSCALL, "SYSCALL"},
        {PTRACE_GETREGSET, "GETREGSET"},
        {PTRACE_SETREGSET, "SETREGSET"},
        {PTRACE_GETSIGMASK, "GETSIGMASK"},
        {PTRACE_SETSIGMASK, "SETSIGMASK"},
        {PTRACE_GET_SYSCALL_INFO, "GET_SYSCALL_INFO"},
        {PTRACE_GET_RSEQ_CONFIGURATION, "GET_RSEQ_CONFIGURATION"},
        {0x4211, "GET_SYSCALL_USER_DISPATCH_CONFIG"}, /* not in the headers of older kernels */
        {PTRACE_PEEKDATA, "PEEKDATA"},
        {PTRACE_POKEDATA, "POKEDATA"},
    };

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (names[i].request == request)
            return names[i].name;
    return "?";
}

/* The gate of the tool's own child is not initialized, and not shown (inject/selfcheck.c). */
static bool is_shown(const struct gate *gate)
{
    return gate->die_signal != 0;
}

static bool dies_after_next(const struct gate *gate)
{
    return is_shown(gate) && gate->die_after && gate->count + 1 == gate->die_after;
}

static void show_request(const struct gate *gate, unsigned count, int request, pid_t tid, long rc)
{
    int saved = errno;

    if (!is_shown(gate))
        return;
    fprintf(stderr, "jeattach: call %u: ptrace %s thread %d = %ld%s%s\n", count,
            request_name(request), (int)tid, rc, rc < 0 ? " " : "",
            rc < 0 ? strerrorname_np(saved) : "");
    errno = saved;
}

static void show_write(const struct gate *gate, unsigned count, const char *how, remote_addr addr,
                       size_t len, ssize_t done)
{
    int saved = errno;

    if (!is_shown(gate))
        return;
    fprintf(stderr, "jeattach: call %u: %s 0x%llx, %zu bytes = %zd\n", count, how,
            (unsigned long long)addr, len, done);
    errno = saved;
}

long __wrap_gate_ptrace(struct gate *gate, int request, pid_t tid, uint64_t addr, uint64_t data)
{
    if (dies_after_next(gate))
        show_request(gate, gate->count + 1, request, tid, 0);
    long rc = traced_gate_ptrace(gate, request, tid, addr, data);
    show_request(gate, gate->count, request, tid, rc);
    return rc;
}

ssize_t __wrap_gate_vm_write(struct gate *gate, pid_t pid, remote_addr addr, const void *buf,
                             size_t len)
{
    if (dies_after_next(gate))
        show_write(gate, gate->count + 1, "process_vm_writev", addr, len, (ssize_t)len);
    ssize_t done = __real_gate_vm_write(gate, pid, addr, buf, len);
    show_write(gate, gate->count, "process_vm_writev", addr, len, done);
    return done;
}

ssize_t __wrap_gate_mem_write(struct gate *gate, int memfd, remote_addr addr, const void *buf,
                              size_t len)
{
    if (dies_after_next(gate))
        show_write(gate, gate->count + 1, "write to /proc/PID/mem at", addr, len, (ssize_t)len);
    ssize_t done = __real_gate_mem_write(gate, memfd, addr, buf, len);
    show_write(gate, gate->count, "write to /proc/PID/mem at", addr, len, done);
    return done;
}
