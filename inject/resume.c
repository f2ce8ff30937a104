#include "inject/resume.h"
#include "elf/image.h"
#include "elf/view.h"
#include "host/task.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

/* ---- restartable sequences ---- */

enum { TOLD_SINCE_MAJOR = 5, TOLD_SINCE_MINOR = 13, RSEQ_CS_AT = 8, SIGNATURE_LEN = 4 };

/* struct rseq_cs (uapi/linux/rseq.h) */
struct sequence {
    uint32_t version, flags;
    uint64_t start, length, abort;
};

bool rseq_kernel_tells(const char *release)
{
    int major, minor;

    if (sscanf(release, "%d.%d", &major, &minor) != 2)
        return true;
    return major > TOLD_SINCE_MAJOR || (major == TOLD_SINCE_MAJOR && minor >= TOLD_SINCE_MINOR);
}

static bool read_libc_variable(const struct image *image, struct memory *memory, const char *name,
                               void *out, size_t len)
{
    struct symbol symbol;

    return image_symbol(image, name, &symbol) && memory_read(memory, symbol.address, out, len);
}

/* glibc's manual, "Restartable Sequences": a size of 0 means that there is no registration. */
static bool ask_libc(struct rseq_plan *plan, const struct modules *modules, struct memory *memory)
{
    for (size_t i = 0; i < modules->count; i++) {
        struct image image;
        uint32_t size;
        if (modules->list[i].inode == 0 || !image_open(&image, memory, modules->list[i].start) ||
            !read_libc_variable(&image, memory, "__rseq_size", &size, sizeof size))
            continue;
        return size != 0 && read_libc_variable(&image, memory, "__rseq_offset", &plan->offset,
                                               sizeof plan->offset);
    }
    return false;
}

static bool has_no_signature(void *ctx, const struct piece *piece)
{
    const uint32_t *signature = ctx;

    return !memmem(piece->bytes, piece->len, signature, SIGNATURE_LEN);
}

/* False also if the code cannot be read. */
static bool no_signature_in(const struct module *module, const struct target *target,
                            struct memory *memory)
{
    uint32_t signature = arch_rseq_signature();
    struct view view;

    if (module->exec_start == module->exec_end || module->inode == 0)
        return true;
    if (!view_open(&view, module, target, memory))
        return false;
    bool none = view_scan_segments(&view, PF_X, PF_X, SIGNATURE_LEN, has_no_signature, &signature);
    view_close(&view);
    return none;
}

void rseq_plan_learn(struct rseq_plan *plan, const struct modules *modules,
                     const struct target *target, struct memory *memory)
{
    *plan = (struct rseq_plan){.needed = true};
    plan->told = ask_libc(plan, modules, memory);
    plan->impossible = !plan->told;
    for (size_t i = 0; i < modules->count && plan->impossible; i++)
        plan->impossible = no_signature_in(&modules->list[i], target, memory);
}

void rseq_plan_make(struct rseq_plan *plan, const struct modules *modules,
                    const struct target *target, struct memory *memory)
{
    struct utsname name;

    *plan = (struct rseq_plan){0};
    if (uname(&name) == 0 && !rseq_kernel_tells(name.release))
        rseq_plan_learn(plan, modules, target, memory);
}

/*
 * Reads the pointer at area + 8 and the abort handler, which follows its
 * signature (kernel/rseq.c, rseq_ip_fixup).
 */
static remote_addr abort_handler(struct memory *memory, remote_addr area, uint32_t signature,
                                 remote_addr pc)
{
    struct sequence sequence;
    uint64_t record = 0;
    uint32_t seen;

    if (!memory_read(memory, area + RSEQ_CS_AT, &record, sizeof record) || !record ||
        !memory_read(memory, record, &sequence, sizeof sequence) || sequence.version != 0 ||
        pc - sequence.start >= sequence.length ||
        !memory_read(memory, sequence.abort - SIGNATURE_LEN, &seen, sizeof seen) ||
        seen != signature)
        return 0;
    return sequence.abort;
}

bool rseq_look(const struct rseq_plan *plan, struct session *session, struct memory *memory,
               const arch_regs *regs, remote_addr *abort)
{
    struct __ptrace_rseq_configuration told;

    *abort = 0;
    if (session_rseq(session, &told))
        *abort = abort_handler(memory, told.rseq_abi_pointer, told.signature, arch_pc(regs));
    else if (plan->needed && arch_syscall_nr(regs) < 0 && plan->told)
        *abort = abort_handler(memory, arch_tls(regs) + (uint64_t)plan->offset,
                               arch_rseq_signature(), arch_pc(regs));
    else if (plan->needed && arch_syscall_nr(regs) < 0)
        return plan->impossible;
    return true;
}

/* ---- the registers ---- */

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

bool resume_save(struct injection *injection)
{
    if (!arch_get_fp(&injection->session, &injection->fp) ||
        !session_get_sigmask(&injection->session, &injection->mask))
        return false;
    if (injection->rseq_abort) /* in a restartable sequence: it continues at the abort handler */
        arch_set_pc(&injection->original, injection->rseq_abort);
    /*
     * With its own mask, with which it continues: a signal that only a temporary mask lets through
     * is taken when epoll_pwait(2) is repeated.
     */
    injection->eintr_by_stop = arch_eintr_by_stop(&injection->original) &&
                               !(injection->own_known /* its status has just been read */
                                     ? would_take(&injection->own, &injection->mask)
                                     : signal_waits(injection, &injection->mask));
    return true;
}

static struct interrupted_sleep *sleep_of(struct injection *injection)
{
    return &injection->sleeps[(unsigned)injection->session.tid % INJECTION_SLEEPS];
}

void resume_note_sleep(struct injection *injection)
{
    arch_regs *regs = &injection->original;
    unsigned char code[ARCH_SYSCALL_LEN];

    /*
     * The thread was stopped before, and stopped again before it made the restart_syscall(2)
     * that followed: an rt_sigreturn(2) clears its restart block, and it would see EINTR
     * (kernel/signal.c, do_no_restart_syscall).
     */
    if (arch_names_restart(regs) &&
        memory_read(injection->env.memory, arch_pc(regs), code, sizeof code) &&
        arch_is_syscall(code))
        arch_take_back_restart(regs);
    if (arch_restarts_by_block(regs) && !arch_is_restarted(regs))
        *sleep_of(injection) = (struct interrupted_sleep){injection->session.tid, arch_pc(regs),
                                                          arch_sp(regs), arch_syscall_nr(regs)};
}

/*
 * Finds the call that restart_syscall(2) stands for: the thread was stopped
 * before in the same sleep. The arguments are still in the registers; the
 * number is known from that stop, or from the instruction that loaded it.
 */
static void rewind_call(struct injection *injection, arch_regs *regs)
{
    const struct interrupted_sleep *sleep = sleep_of(injection);
    unsigned char code[16];

    if (arch_is_restarted(regs)) {
        if (sleep->tid == injection->session.tid && sleep->pc == arch_pc(regs) &&
            sleep->sp == arch_sp(regs))
            arch_name_restarted(regs, sleep->nr);
        else if (memory_read(injection->env.memory, arch_pc(regs) - sizeof code, code, sizeof code))
            arch_name_restarted(regs, arch_loaded_nr(code + sizeof code));
    }
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
