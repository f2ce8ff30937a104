/*
 * jeattach on a system where executable anonymous memory is refused.
 *
 * SELinux (execmem) answers such an mmap(2) with EACCES, and nothing in /proc says so beforehand.
 * Here the kernel gives the same answer for another reason: the mapping is requested of the
 * target's file descriptor 2, which the tests open write-only. The tool is otherwise that of
 * trace.c.
 */
#include "attach/gate.h"
#include "trace.h"

#include <elf.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>

long __real_gate_ptrace(struct gate *gate, int request, pid_t tid, uint64_t addr, uint64_t data);

static bool asks_for_executable_memory(const struct user_regs_struct *regs)
{
    return regs->rax == SYS_mmap && (regs->rdx & PROT_EXEC) && (regs->r10 & MAP_ANONYMOUS);
}

long refused_gate_ptrace(struct gate *gate, int request, pid_t tid, uint64_t addr, uint64_t data)
{
    struct user_regs_struct regs;
    struct iovec iov;

    if (request != PTRACE_SETREGSET || addr != NT_PRSTATUS)
        return __real_gate_ptrace(gate, request, tid, addr, data);
    memcpy(&iov, (void *)(uintptr_t)data, sizeof iov); /* the request's data is its address */
    memcpy(&regs, iov.iov_base, sizeof regs);
    if (asks_for_executable_memory(&regs)) {
        regs.r10 &= ~(unsigned long long)MAP_ANONYMOUS;
        regs.r8 = STDERR_FILENO;
    }
    iov = (struct iovec){&regs, sizeof regs};
    return __real_gate_ptrace(gate, request, tid, addr, (uint64_t)(uintptr_t)&iov);
}
