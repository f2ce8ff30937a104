#include "inject/selfcheck.h"
#include "inject/arch.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>

enum { CHECK_TIMEOUT_NS = 2000000000, CHILD_GOOD = 42 };

struct shared {
    volatile int ready, go;
};

/* Runs in the child: never returns. */
static void child_main(struct shared *shared, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    _exit(arch_hold_pattern(&shared->ready, &shared->go) ? CHILD_GOOD : 1);
}

static bool stop_child(struct session *session, const struct target *target, struct gate *gate)
{
    struct deadline soon = {.at = clock_now() + CHECK_TIMEOUT_NS};

    return session_seize(session, target, target->pid, gate, NULL) == FAULT_NONE &&
           session_interrupt(session, NULL) == FAULT_NONE &&
           session_wait(session, &soon, false, NULL) == FAULT_NONE &&
           session->state == SESSION_EVENT;
}

static bool write_child(pid_t pid, remote_addr addr, const void *bytes, size_t len)
{
    struct iovec local = {(void *)(uintptr_t)bytes, len};
    struct iovec remote = {(void *)(uintptr_t)addr, len};

    return process_vm_writev(pid, &local, 1, &remote, 1, 0) == (ssize_t)len;
}

/* Every extended register changed; then the thread is sent through the frame. */
static bool wreck_and_forge(struct session *session)
{
    struct arch_fp fp, wrecked;
    struct arch_frames frames;
    const struct arch_gadgets gadgets = {arch_own_sigreturn(), arch_own_sigreturn()};
    arch_regs regs, jump;
    uint64_t mask;

    if (!arch_get_regs(session, &regs) || !arch_get_fp(session, &fp) ||
        !session_get_sigmask(session, &mask) ||
        !arch_forge(&frames, &regs, &regs, mask, &fp, &gadgets, 0))
        return false;
    wrecked = fp;
    arch_wreck_fp(&wrecked);
    jump = regs;
    arch_enter_sigreturn(&jump, &gadgets, frames.frame0);
    return write_child(session->tid, frames.addr, frames.bytes, frames.len) &&
           arch_set_fp(session, &wrecked) && arch_set_regs(session, &jump);
}

static bool check_child(struct procfs *proc, pid_t pid, struct shared *shared)
{
    struct target target = {.proc = proc, .pid = pid, .pidfd = -1};
    struct gate gate = {0}; /* the child is no target: its calls are not counted */
    struct session session;
    bool good;

    while (!shared->ready)
        if (waitpid(pid, NULL, WNOHANG) != 0)
            return false;
    good = stop_child(&session, &target, &gate) && wreck_and_forge(&session);
    session_detach(&session);
    shared->go = 1;
    return good;
}

enum fault_code selfcheck_run(struct procfs *proc, struct fault *fault)
{
    struct shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t parent = getpid(), pid;
    int status = 0;
    bool good;

    if (shared == MAP_FAILED)
        return fault_set(fault, FAULT_INTERNAL, errno, "check itself", "mmap");
    pid = fork();
    if (pid == 0)
        child_main(shared, parent);
    if (pid < 0)
        return fault_set(fault, FAULT_INTERNAL, errno, "check itself", "fork");
    good = check_child(proc, pid, shared);
    if (!good)
        kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    munmap(shared, sizeof *shared);
    if (good && WIFEXITED(status) && WEXITSTATUS(status) == CHILD_GOOD)
        return FAULT_NONE;
    return fault_set(fault, FAULT_UNSUPPORTED, 0, "check itself",
                     good ? "a forged frame does not restore all registers on this kernel"
                          : "the tool cannot trace its own child");
}
