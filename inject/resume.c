#include "inject/resume.h"
#include "host/task.h"

/* In a restartable sequence the thread continues at the abort handler. */
static void apply_rseq(struct injection *injection)
{
    if (injection->rseq_abort)
        arch_set_pc(&injection->original, injection->rseq_abort);
}

/*
 * True if there is a signal that the thread would take now: then an EINTR is
 * real. mask NULL: the mask in force, which during ppoll(2) and similar calls
 * is the temporary one.
 */
static bool would_take(const struct proc_status *status, const uint64_t *mask)
{
    return ((status->sig_pending | status->sig_shared_pending) &
            ~(mask ? *mask : status->sig_blocked)) != 0;
}

static bool signal_waits(const struct injection *injection, const uint64_t *mask)
{
    const struct target *target = injection->env.target;
    struct proc_status status;

    return thread_status(target->proc, target->pid, injection->session.tid, &status) != 0 ||
           would_take(&status, mask);
}

/* Does the same at the stop, where its status may just have been read. */
static bool signal_waited(const struct injection *injection)
{
    return injection->own_known ? would_take(&injection->own, &injection->mask)
                                : signal_waits(injection, &injection->mask);
}

bool resume_save(struct injection *injection)
{
    if (!arch_get_fp(&injection->session, &injection->fp) ||
        !session_get_sigmask(&injection->session, &injection->mask))
        return false;
    apply_rseq(injection);
    /*
     * With its own mask, with which it continues: a signal that only a temporary mask lets through
     * is taken when epoll_pwait(2) is repeated.
     */
    injection->eintr_by_stop =
        arch_eintr_by_stop(&injection->original) && !signal_waited(injection);
    return true;
}

static struct interrupted_sleep *sleep_of(struct injection *injection)
{
    return &injection->sleeps[(unsigned)injection->session.tid % INJECTION_SLEEPS];
}

/*
 * The thread was stopped before, and stopped again before it made the
 * restart_syscall(2) that followed: an rt_sigreturn(2) clears its restart
 * block, and it would see EINTR (kernel/signal.c, do_no_restart_syscall).
 */
static void take_back_restart(struct injection *injection)
{
    arch_regs *regs = &injection->original;
    unsigned char code[ARCH_SYSCALL_LEN];

    if (arch_names_restart(regs) &&
        memory_read(injection->env.memory, arch_pc(regs), code, sizeof code) &&
        arch_is_syscall(code))
        arch_take_back_restart(regs);
}

void resume_note_sleep(struct injection *injection)
{
    const arch_regs *regs = &injection->original;

    take_back_restart(injection);
    if (arch_restarts_by_block(regs) && !arch_is_restarted(regs))
        *sleep_of(injection) = (struct interrupted_sleep){injection->session.tid, arch_pc(regs),
                                                          arch_sp(regs), arch_syscall_nr(regs)};
}

/*
 * Finds the call that restart_syscall(2) stands for: the thread was stopped
 * before in the same sleep. The arguments are still in the registers; the
 * number is known from that stop, or from the instruction that loaded it.
 */
static void name_restarted_call(struct injection *injection, arch_regs *regs)
{
    const struct interrupted_sleep *sleep = sleep_of(injection);
    unsigned char code[16];

    if (!arch_is_restarted(regs))
        return;
    if (sleep->tid == injection->session.tid && sleep->pc == arch_pc(regs) &&
        sleep->sp == arch_sp(regs))
        arch_name_restarted(regs, sleep->nr);
    else if (memory_read(injection->env.memory, arch_pc(regs) - sizeof code, code, sizeof code))
        arch_name_restarted(regs, arch_loaded_nr(code + sizeof code));
}

static void rewind_call(struct injection *injection, arch_regs *regs)
{
    name_restarted_call(injection, regs);
    arch_rewind(regs);
}

void resume_by_frame(struct injection *injection, arch_regs *regs)
{
    *regs = injection->original;
    if (arch_restarts(regs) || injection->eintr_by_stop)
        rewind_call(injection, regs);
}

void resume_by_tool(struct injection *injection, arch_regs *regs)
{
    *regs = injection->original;
    if (injection->eintr_by_stop && !signal_waits(injection, &injection->mask))
        arch_rewind(regs);
    else if (arch_restarts_by_block(regs) && injection->restart_block_used)
        rewind_call(injection, regs);
}

void resume_untouched(struct injection *injection)
{
    arch_regs regs;

    if (injection->session.state == SESSION_EVENT && arch_get_regs(&injection->session, &regs) &&
        arch_eintr_by_stop(&regs) && !signal_waits(injection, NULL)) {
        arch_rewind(&regs);
        arch_set_regs(&injection->session, &regs);
    }
    session_detach(&injection->session);
}
