#include "inject/selfcheck.h"
#include "attach/memory.h"
#include "attach/permit.h"
#include "host/priority.h"
#include "inject/arch.h"
#include "inject/faults.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { CHECK_TIMEOUT_NS = 2000000000, CHILD_GOOD = 42 };

/* Changes every extended register; then sends the thread through the frame. */
static bool wreck_and_forge(struct session *session)
{
    struct arch_fp fp, wrecked;
    struct arch_frames frames;
    const struct arch_gadgets gadgets = {.syscall_return = arch_own_sigreturn(),
                                         .sigreturn = arch_own_sigreturn()};
    const struct arch_last none = {0};
    struct memory memory;
    arch_regs regs, jump;
    uint64_t mask;
    bool written;

    if (!arch_get_regs(session, &regs) || !arch_get_fp(session, &fp) ||
        !session_get_sigmask(session, &mask) ||
        !arch_forge(&frames, &regs, &regs, mask, &fp, &gadgets, 0, &none))
        return false;
    wrecked = fp;
    arch_wreck_fp(&wrecked);
    jump = regs;
    arch_enter_sigreturn(&jump, &gadgets, frames.frame0);
    /* In every way in which a target can be written. */
    memory_open(&memory, session->target, session->gate);
    memory.stopped_tid = session->tid;
    written = memory_write(&memory, frames.addr, frames.bytes, frames.len);
    memory_close(&memory);
    return written && arch_set_fp(session, &wrecked) && arch_set_regs(session, &jump);
}

/* The child stops itself with its registers filled; neither side ever spins. */
static bool check_child(const struct target *target, struct fault *fault)
{
    struct gate gate = {0}; /* the child is not a target: its calls are not counted */
    struct deadline soon = {.at = clock_now() + CHECK_TIMEOUT_NS};
    struct session session = {
        .target = target, .gate = &gate, .tid = target->pid, .state = SESSION_RUNNING};
    bool good = session_wait(&session, &soon, NULL) == FAULT_NONE &&
                session.state == SESSION_SIGNAL && session.signal == SIGSTOP &&
                wreck_and_forge(&session);

    session.signal = 0;
    session_detach(&session);
    if (!good && !permit_tool_is_traced(target->proc, fault))
        fault_set(fault, FAULT_UNSUPPORTED, 0, "check itself",
                  "jeattach cannot trace its own child");
    return good;
}

static int collect_child(pid_t pid)
{
    int status = 0;

    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

fault_code selfcheck_run(struct procfs *proc, struct fault *fault)
{
    struct target target = {.proc = proc, .pidfd = -1};
    pid_t parent = getpid();
    struct cpu_pin pin;
    sigset_t all, former;

    /*
     * Ctrl-C goes to all processes of the terminal: it must not stop the child at another point.
     * Only the parent gets its signals back.
     */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &former);
    cpu_pin_begin(&pin);
    target.pid = fork();
    if (target.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent || ptrace(PTRACE_TRACEME, 0, 0, 0))
            _exit(1);
        _exit(arch_hold_pattern() ? CHILD_GOOD : 1);
    }
    cpu_pin_end(&pin);
    pthread_sigmask(SIG_SETMASK, &former, NULL);
    if (target.pid < 0)
        return fault_set(fault, FAULT_INTERNAL, errno, "check itself", "fork");
    if (!check_child(&target, fault)) {
        kill(target.pid, SIGKILL);
        collect_child(target.pid);
        return fault ? fault->code : FAULT_UNSUPPORTED;
    }
    if (collect_child(target.pid) != CHILD_GOOD)
        return fault_set(fault, FAULT_UNSUPPORTED, 0, "check itself",
                         "a forged frame does not restore all registers on this kernel");
    return FAULT_NONE;
}
