/*
 * registers MODE [spoil]: a thread that runs with unusual registers, and looks at them.
 *
 * Prints `ready TID`. The file `beats` has rounds done, and what was found wrong. The registers of
 * the vector unit are those of tests/victims. With `spoil` every 64th round is disturbed.
 */
#include "beats.h"
#include "safety.h"

#include <asm/prctl.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SPIN    "movl $20000, %%ecx\n 1: decl %%ecx\n jnz 1b\n"
#define FLAG_DF (1u << 10)
#define FLAG_AC (1u << 18)
#define MXCSR_ODD                                                                                  \
    0xc040u /* flush to zero, towards minus infinity, denormals are zeros; no mask                 \
             */

static bool spoil;

/* 1 in the rounds that are disturbed. */
static uint64_t spoiled(void)
{
    return spoil && beats[0] % 64 == 63;
}

static void flag_round(uint64_t flag)
{
    uint64_t set = flag, seen = 0;

    if (spoiled())
        set = 0;
    __asm__ volatile("pushfq\n popq %%rax\n orq %1, %%rax\n pushq %%rax\n popfq\n" SPIN
                     "pushfq\n popq %0\n pushq $0x202\n popfq\n"
                     : "=&r"(seen)
                     : "r"(set)
                     : "rax", "rcx", "cc", "memory");
    if ((seen & (FLAG_DF | FLAG_AC)) != flag)
        wrong();
}

static void direction(void)
{
    flag_round(FLAG_DF);
}

static void alignment(void)
{
    flag_round(FLAG_AC);
}

/* Single precision, towards zero. */
static void x87_control(void)
{
    uint16_t odd = (uint16_t)(0x0c7f ^ spoiled() << 8), seen = 0;

    __asm__ volatile("fldcw %1\n" SPIN "fnstcw %0\n fninit\n"
                     : "=m"(seen)
                     : "m"(odd)
                     : "rcx", "cc");
    if (seen != 0x0c7f)
        wrong();
}

/* All five values are on the stack of the unit while the loop runs. */
static void x87_stack(void)
{
    const double in[5] = {1.5, -2.25, 1e300, 3.0, 0.1};
    double out[5] = {0}, first = spoiled() ? 9 : in[0];

    __asm__ volatile(
        "fninit\n fldl %0\n fldl 8(%1)\n fldl 16(%1)\n fldl 24(%1)\n fldl 32(%1)\n" SPIN
        "fstpl 32(%2)\n fstpl 24(%2)\n fstpl 16(%2)\n fstpl 8(%2)\n fstpl (%2)\n"
        :
        : "m"(first), "r"(in), "r"(out)
        : "rcx", "cc", "memory");
    if (memcmp(in, out, sizeof(in)) != 0)
        wrong();
}

static void mmx(void)
{
    const uint64_t in[2] = {0x0123456789abcdef, 0xfedcba9876543210};
    uint64_t out[2] = {0}, first = in[0] ^ spoiled();

    __asm__ volatile("movq %2, %%mm0\n movq %3, %%mm7\n" SPIN
                     "movq %%mm0, %0\n movq %%mm7, %1\n emms\n"
                     : "=m"(out[0]), "=m"(out[1])
                     : "m"(first), "m"(in[1])
                     : "rcx", "cc");
    if (memcmp(in, out, sizeof(in)) != 0)
        wrong();
}

static void mxcsr(void)
{
    uint32_t odd = MXCSR_ODD ^ (uint32_t)spoiled() << 13, seen = 0, usual = 0x1f80;

    __asm__ volatile("ldmxcsr %1\n" SPIN "stmxcsr %0\n ldmxcsr %2\n"
                     : "=m"(seen)
                     : "m"(odd), "m"(usual)
                     : "rcx", "cc");
    if (seen != MXCSR_ODD)
        wrong();
}

static void gs_base(void)
{
    static uint64_t words[2] = {0x1122334455667788, 0};
    uint64_t seen;

    syscall(SYS_arch_prctl, ARCH_SET_GS, spoiled() ? &words[1] : &words[0]);
    __asm__ volatile(SPIN "movq %%gs:0, %0\n" : "=r"(seen) : : "rcx", "cc");
    if (seen != words[0])
        wrong();
}

/* 16n + 8 and 16n, and data in the red zone of both. */
static void odd_stack(void)
{
    uint64_t first = 0x1111 ^ spoiled(), seen[2] = {0};

    __asm__ volatile("movq %%rsp, %%rbx\n subq $4096, %%rsp\n andq $-16, %%rsp\n"
                     "movq %2, -8(%%rsp)\n movq %2, -128(%%rsp)\n" SPIN
                     "movq -128(%%rsp), %0\n xorq -8(%%rsp), %0\n addq -8(%%rsp), %0\n"
                     "subq $8, %%rsp\n movq %2, -8(%%rsp)\n movq %2, -128(%%rsp)\n" SPIN
                     "movq -128(%%rsp), %1\n xorq -8(%%rsp), %1\n addq -8(%%rsp), %1\n"
                     "movq %%rbx, %%rsp\n"
                     : "=&r"(seen[0]), "=&r"(seen[1])
                     : "r"(first)
                     : "rbx", "rcx", "cc", "memory");
    if (seen[0] != 0x1111 || seen[1] != 0x1111)
        wrong();
}

/* ---- restartable sequences: two threads and one counter on one CPU ---- */

static volatile uint64_t counter;
static uint64_t commits[2];

/*
 * Load, wait, store one more: correct only without interference. The kernel restarts it if the
 * thread was preempted, or got a signal.
 */
static void add_one(struct rseq *area)
{
    uint64_t value;

    __asm__ volatile(".pushsection .data.rseq, \"aw\"\n .balign 32\n"
                     "3: .long 0, 0\n .quad 1f, 2f - 1f, 4f\n .popsection\n"
                     "0: leaq 3b(%%rip), %%rax\n movq %%rax, 8(%2)\n"
                     "1: movq %1, %0\n movl $2000, %%ecx\n 5: decl %%ecx\n jnz 5b\n"
                     "incq %0\n movq %0, %1\n"
                     "2: jmp 6f\n"
                     ".byte 0x0f, 0xb9, 0x3d\n .long 0x53053053\n"
                     "4: jmp 0b\n"
                     "6:\n"
                     : "=&r"(value), "+m"(counter)
                     : "r"(area)
                     : "rax", "rcx", "cc", "memory");
}

static void add_one_plainly(void)
{
    uint64_t value = counter;

    for (volatile int i = 0; i < 2000; i++)
        ;
    counter = value + 1;
}

static volatile int go, done;

static void *adder(void *data)
{
    uint64_t *mine = data;
    struct rseq *area = (void *)((char *)__builtin_thread_pointer() + __rseq_offset);

    while (!go)
        sched_yield();
    for (int i = 0; i < 2000; i++) {
        if (spoil)
            add_one_plainly();
        else
            add_one(area);
        ++*mine;
    }
    __atomic_add_fetch(&done, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* One round: both threads add, then the sums are compared. The main thread is one of them. */
static void restartable(void)
{
    pthread_t other;

    counter = commits[0] = commits[1] = 0;
    go = 0;
    if (pthread_create(&other, NULL, adder, &commits[1]) != 0)
        wrong();
    go = 1;
    adder(&commits[0]);
    pthread_join(other, NULL);
    if (counter != commits[0] + commits[1])
        wrong();
}

static const struct {
    const char *name;
    void (*round)(void);
} modes[] = {
    {"direction", direction},
    {"alignment", alignment},
    {"x87_control", x87_control},
    {"x87_stack", x87_stack},
    {"mmx", mmx},
    {"mxcsr", mxcsr},
    {"gs_base", gs_base},
    {"odd_stack", odd_stack},
    {"rseq", restartable},
};

static void use_one_cpu(void)
{
    cpu_set_t one;

    sched_getaffinity(0, sizeof(one), &one);
    for (size_t cpu = 0, seen = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &one) && seen++)
            CPU_CLR(cpu, &one);
    sched_setaffinity(0, sizeof(one), &one);
}

/* Return addresses of finished calls would make the thread seem unsafe. */
static __attribute__((noinline)) void wipe_stack(void)
{
    volatile unsigned char area[32768];

    for (size_t i = 0; i < sizeof(area); i++)
        area[i] = 0;
}

/*
 * In a thread of its own: the stack of the first thread has, between the frames of main and its
 * callers, words of the dynamic loader's calls. Their depth depends on the CPU, whose registers the
 * loader saves.
 */
static void *run(void *data)
{
    void (*round)(void) = *(void (**)(void))data;

    if (round == restartable) {
        if (!__rseq_size) {
            puts("skip the C library registers no restartable sequences");
            return NULL;
        }
        use_one_cpu();
    }
    printf("ready %d 0\n", (int)gettid());
    fflush(stdout);
    wipe_stack();
    for (;;) {
        round();
        beat();
    }
}

static int run_in_thread(void (*round)(void))
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, run, &round) != 0)
        return 1;
    pthread_join(thread, NULL);
    return 0;
}

int main(int argc, char **argv)
{
    safety_begin();
    spoil = argc > 2;
    if (argc < 2 || !map_beats())
        return 2;
    for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++)
        if (!strcmp(modes[i].name, argv[1]))
            return run_in_thread(modes[i].round);
    return 2;
}
