#include "attach/gate.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>

static unsigned number_from_env(const char *name)
{
    const char *text = getenv(name);
    return text ? (unsigned)strtoul(text, NULL, 10) : 0;
}

void gate_init(struct gate *gate, FILE *trace)
{
    memset(gate, 0, sizeof *gate);
    gate->die_at = number_from_env("JEATTACH_DIE_AT");
    gate->die_after = number_from_env("JEATTACH_DIE_AFTER");
    unsigned signal = number_from_env("JEATTACH_DIE_SIGNAL");
    gate->die_signal = signal ? (int)signal : SIGKILL;
    gate->trace = trace;
}

static void gate_enter(struct gate *gate)
{
    if (++gate->count == gate->die_at)
        raise(gate->die_signal);
}

static void gate_leave(struct gate *gate)
{
    int saved = errno;
    if (gate->count == gate->die_after)
        raise(gate->die_signal);
    errno = saved;
}

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
        {PTRACE_PEEKUSER, "PEEKUSER"},
        {PTRACE_POKEUSER, "POKEUSER"},
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

long gate_ptrace(struct gate *gate, int request, pid_t tid, uint64_t addr, uint64_t data)
{
    gate_enter(gate);
    long rc = syscall(SYS_ptrace, (long)request, (long)tid, addr, data);
    if (gate->trace) {
        int saved = errno;
        fprintf(gate->trace, "jeattach: call %u: ptrace %s thread %d = %ld%s%s\n", gate->count,
                request_name(request), (int)tid, rc, rc < 0 ? " " : "",
                rc < 0 ? strerrorname_np(saved) : "");
        errno = saved;
    }
    gate_leave(gate);
    return rc;
}

static void trace_write(const struct gate *gate, const char *how, remote_addr addr, size_t len,
                        ssize_t done)
{
    int saved = errno;

    if (gate->trace)
        fprintf(gate->trace, "jeattach: call %u: %s 0x%llx, %zu bytes = %zd\n", gate->count, how,
                (unsigned long long)addr, len, done);
    errno = saved;
}

ssize_t gate_vm_write(struct gate *gate, pid_t pid, remote_addr addr, const void *buf, size_t len)
{
    struct iovec local = {(void *)(uintptr_t)buf, len};
    struct iovec remote = {(void *)(uintptr_t)addr, len};

    gate_enter(gate);
    ssize_t done = process_vm_writev(pid, &local, 1, &remote, 1, 0);
    trace_write(gate, "process_vm_writev", addr, len, done);
    gate_leave(gate);
    return done;
}

ssize_t gate_mem_write(struct gate *gate, int memfd, remote_addr addr, const void *buf, size_t len)
{
    gate_enter(gate);
    ssize_t done = pwrite(memfd, buf, len, (off_t)addr);
    trace_write(gate, "write to /proc/PID/mem at", addr, len, done);
    gate_leave(gate);
    return done;
}
