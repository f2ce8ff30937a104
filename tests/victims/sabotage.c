/* A signal handler that changes the frame through which the thread returns. */
#include "sabotage.h"

#include "probe.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>

#define COMPONENT_YMM  2
#define COMPONENT_K    5
#define COMPONENT_ZMM  6
#define COMPONENT_HIGH 7

struct sabotage {
    const char *name;
    void (*damage)(ucontext_t *context);
    unsigned int component; /* extended state that the CPU must have; 0: none */
    bool restart; /* SA_RESTART: an interrupted call is restarted, so that only the damage shows */
};

static const struct sabotage *chosen;
static volatile unsigned char *canary_area;
static volatile sig_atomic_t done, put_off;

static void flip_component(ucontext_t *context, unsigned int component, size_t byte)
{
    size_t size;
    size_t offset = probe_component(component, &size);

    ((unsigned char *)context->uc_mcontext.fpregs)[offset + byte] ^= 0x10;
}

static void damage_xmm(ucontext_t *context)
{
    context->uc_mcontext.fpregs->_xmm[15].element[0] ^= 1;
}

static void damage_ymm(ucontext_t *context)
{
    flip_component(context, COMPONENT_YMM, 9);
}

static void damage_zmm(ucontext_t *context)
{
    flip_component(context, COMPONENT_HIGH, 64 * 5 + 3);
}

static void damage_zmm_low(ucontext_t *context)
{
    flip_component(context, COMPONENT_ZMM, 32 * 4 + 1);
}

static void damage_k(ucontext_t *context)
{
    flip_component(context, COMPONENT_K, 8 * 3);
}

static void damage_mxcsr(ucontext_t *context)
{
    context->uc_mcontext.fpregs->mxcsr = 0x1f80;
}

static void damage_x87(ucontext_t *context)
{
    context->uc_mcontext.fpregs->cwd = 0x37f;
}

static void damage_gpr(ucontext_t *context)
{
    context->uc_mcontext.gregs[REG_R13]++;
}

static void damage_flags(ucontext_t *context)
{
    context->uc_mcontext.gregs[REG_EFL] ^= 1;
}

static void damage_redzone(ucontext_t *context)
{
    ((unsigned char *)(uintptr_t)context->uc_mcontext.gregs[REG_RSP])[-77] ^= 1;
}

static void damage_canary(ucontext_t *context)
{
    (void)context;
    canary_area[100] ^= 1;
}

static void damage_mask(ucontext_t *context)
{
    sigaddset(&context->uc_sigmask, SIGWINCH);
}

static void damage_altstack(ucontext_t *context)
{
    context->uc_stack.ss_flags = SS_DISABLE;
}

static void damage_disposition(ucontext_t *context)
{
    (void)context;
    signal(SIGUSR2, SIG_IGN);
}

static void damage_errno(ucontext_t *context)
{
    (void)context;
    errno = EBADF;
}

static void damage_eintr(ucontext_t *context)
{
    (void)context;
}

static void damage_result(ucontext_t *context)
{
    context->uc_mcontext.gregs[REG_RAX] = -EBADF;
}

static void damage_early(ucontext_t *context)
{
    context->uc_mcontext.gregs[REG_RAX] = 0;
}

static void damage_late(ucontext_t *context)
{
    struct timespec pause = {2, 0};

    nanosleep(&pause, NULL);
    damage_early(context);
}

static const struct sabotage sabotages[] = {
    {"xmm", damage_xmm, 0, true},
    {"ymm", damage_ymm, COMPONENT_YMM, true},
    {"zmm", damage_zmm, COMPONENT_HIGH, true},
    {"zmm-low", damage_zmm_low, COMPONENT_ZMM, true},
    {"k", damage_k, COMPONENT_K, true},
    {"mxcsr", damage_mxcsr, 0, true},
    {"x87", damage_x87, 0, true},
    {"gpr", damage_gpr, 0, true},
    {"flags", damage_flags, 0, true},
    {"redzone", damage_redzone, 0, true},
    {"canary", damage_canary, 0, true},
    {"mask", damage_mask, 0, true},
    {"altstack", damage_altstack, 0, true},
    {"disposition", damage_disposition, 0, true},
    {"errno", damage_errno, 0, true},
    {"eintr", damage_eintr, 0, false},
    {"result", damage_result, 0, false},
    {"early", damage_early, 0, false},
    {"late", damage_late, 0, false},
};

#define SABOTAGES (sizeof(sabotages) / sizeof(sabotages[0]))

static bool inside(uint64_t rip, const char *begin, const char *end)
{
    return rip >= (uintptr_t)begin && rip <= (uintptr_t)end;
}

/* The kernel leaves AC as the probe set it, and libc may read unaligned words. */
static void clear_alignment_check(void)
{
    __asm__ volatile("pushfq\n\tandq $~0x40000, (%%rsp)\n\tpopfq" ::: "cc", "memory");
}

/* Elsewhere the registers have no pattern yet; the timer fires again. */
static void on_alarm(int number, siginfo_t *info, void *data)
{
    ucontext_t *context = data;
    uint64_t rip = (uint64_t)context->uc_mcontext.gregs[REG_RIP];

    (void)number;
    (void)info;
    clear_alignment_check();
    if (done || put_off ||
        (!inside(rip, probe_spin_begin, probe_spin_end) &&
         !inside(rip, probe_syscall_begin, probe_syscall_end)))
        return;
    done = 1;
    chosen->damage(context);
}

static bool is_possible(const struct sabotage *sabotage)
{
    return !sabotage->component || probe_has(sabotage->component);
}

bool sabotage_install(const char *what, bool *missing)
{
    struct sigaction action = {.sa_sigaction = on_alarm};

    *missing = false;
    for (size_t i = 0; i < SABOTAGES && !chosen; i++) {
        if (!strcmp(sabotages[i].name, what))
            chosen = &sabotages[i];
    }
    if (!chosen)
        return false;
    *missing = !is_possible(chosen);
    action.sa_flags = SA_SIGINFO | (chosen->restart ? SA_RESTART : 0);
    sigemptyset(&action.sa_mask);
    return !*missing && sigaction(SIGALRM, &action, NULL) == 0;
}

void sabotage_start(void)
{
    struct itimerval every = {{0, 35000}, {0, 35000}};

    if (chosen)
        setitimer(ITIMER_REAL, &every, NULL);
}

void sabotage_put_off(bool off)
{
    put_off = off;
}

bool sabotage_waits(void)
{
    return chosen && !done;
}

void sabotage_set_canary(volatile unsigned char *canary)
{
    canary_area = canary;
}

void sabotages_print(void)
{
    for (size_t i = 0; i < SABOTAGES; i++)
        if (is_possible(&sabotages[i]))
            puts(sabotages[i].name);
}
