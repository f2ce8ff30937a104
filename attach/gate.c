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

void gate_init(struct gate *gate)
{
    memset(gate, 0, sizeof *gate);
    gate->die_at = number_from_env("JEATTACH_DIE_AT");
    gate->die_after = number_from_env("JEATTACH_DIE_AFTER");
    unsigned signal = number_from_env("JEATTACH_DIE_SIGNAL");
    gate->die_signal = signal ? (int)signal : SIGKILL;
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

long gate_ptrace(struct gate *gate, int request, pid_t tid, uint64_t addr, uint64_t data)
{
    gate_enter(gate);
    long rc = syscall(SYS_ptrace, (long)request, (long)tid, addr, data);
    gate_leave(gate);
    return rc;
}

ssize_t gate_vm_write(struct gate *gate, pid_t pid, remote_addr addr, const void *buf, size_t len)
{
    struct iovec local = {(void *)(uintptr_t)buf, len};
    struct iovec remote = {(void *)(uintptr_t)addr, len};

    gate_enter(gate);
    ssize_t done = process_vm_writev(pid, &local, 1, &remote, 1, 0);
    gate_leave(gate);
    return done;
}

ssize_t gate_mem_write(struct gate *gate, int memfd, remote_addr addr, const void *buf, size_t len)
{
    gate_enter(gate);
    ssize_t done = pwrite(memfd, buf, len, (off_t)addr);
    gate_leave(gate);
    return done;
}
