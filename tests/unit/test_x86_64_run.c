/*
 * x86-64: the forged frames as the kernel runs them, in the test's own process
 * and without a tracer. A signal handler, on a stack of its own, changes the
 * registers to which the thread returns, as the tool would.
 */
#include "check.h"
#include "inject/plan.h"
#include "own.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>

enum { SCRATCH = 0x20000, CODE = 4096, SOFTWARE = 464, MAPS_MAX = 1 << 20 };

static struct own own;
static struct plan plan;
static struct arch_gadgets gadgets;
static unsigned char *scratch; /* made by the test; NULL: the thread maps it */
static int handled;

/* The handler's changes to the interrupted thread. */
static struct {
    arch_regs regs;
    struct arch_fp fp;
    struct arch_frames frames;
    struct arch_last last;
    void (*enter)(arch_regs *regs);
} forged;

static void regs_from_context(arch_regs *regs, const ucontext_t *context)
{
    const greg_t *g = context->uc_mcontext.gregs;

    memset(regs, 0, sizeof *regs);
    regs->r8 = (uint64_t)g[REG_R8], regs->r9 = (uint64_t)g[REG_R9];
    regs->r10 = (uint64_t)g[REG_R10], regs->r11 = (uint64_t)g[REG_R11];
    regs->r12 = (uint64_t)g[REG_R12], regs->r13 = (uint64_t)g[REG_R13];
    regs->r14 = (uint64_t)g[REG_R14], regs->r15 = (uint64_t)g[REG_R15];
    regs->rax = (uint64_t)g[REG_RAX], regs->rbx = (uint64_t)g[REG_RBX];
    regs->rcx = (uint64_t)g[REG_RCX], regs->rdx = (uint64_t)g[REG_RDX];
    regs->rsi = (uint64_t)g[REG_RSI], regs->rdi = (uint64_t)g[REG_RDI];
    regs->rbp = (uint64_t)g[REG_RBP], regs->rsp = (uint64_t)g[REG_RSP];
    regs->rip = (uint64_t)g[REG_RIP], regs->eflags = (uint64_t)g[REG_EFL];
    regs->cs = (uint64_t)g[REG_CSGSFS] & 0xffff;
    regs->ss = (uint64_t)g[REG_CSGSFS] >> 48;
    regs->orig_rax = (unsigned long long)-1;
}

static void regs_to_context(ucontext_t *context, const arch_regs *regs)
{
    greg_t *g = context->uc_mcontext.gregs;

    g[REG_R8] = (greg_t)regs->r8, g[REG_R9] = (greg_t)regs->r9;
    g[REG_R10] = (greg_t)regs->r10, g[REG_R11] = (greg_t)regs->r11;
    g[REG_R12] = (greg_t)regs->r12, g[REG_R13] = (greg_t)regs->r13;
    g[REG_R14] = (greg_t)regs->r14, g[REG_R15] = (greg_t)regs->r15;
    g[REG_RAX] = (greg_t)regs->rax, g[REG_RBX] = (greg_t)regs->rbx;
    g[REG_RCX] = (greg_t)regs->rcx, g[REG_RDX] = (greg_t)regs->rdx;
    g[REG_RSI] = (greg_t)regs->rsi, g[REG_RDI] = (greg_t)regs->rdi;
    g[REG_RBP] = (greg_t)regs->rbp, g[REG_RSP] = (greg_t)regs->rsp;
    g[REG_RIP] = (greg_t)regs->rip, g[REG_EFL] = (greg_t)regs->eflags;
}

/* A register set has the enabled features where a frame has its software bytes. */
static void fp_from_context(struct arch_fp *fp, const ucontext_t *context)
{
    const unsigned char *image = (const unsigned char *)context->uc_mcontext.fpregs;
    uint32_t size;

    memcpy(&size, image + SOFTWARE + 16, sizeof size);
    fp->len = size;
    memcpy(fp->bytes, image, size);
    memcpy(fp->bytes + SOFTWARE, image + SOFTWARE + 8, 8);
}

static void handler(int signo, siginfo_t *info, void *where)
{
    ucontext_t *context = where;
    uint64_t mask;

    (void)signo;
    (void)info;
    memcpy(&mask, &context->uc_sigmask, sizeof mask);
    mask |= 1ull << (SIGUSR2 - 1); /* to check that this mask takes effect */
    regs_from_context(&forged.regs, context);
    fp_from_context(&forged.fp, context);
    if (!arch_forge(&forged.frames, &forged.regs, &forged.regs, mask, &forged.fp, &gadgets, SCRATCH,
                    &forged.last))
        return;
    if (scratch) {
        uint64_t address = (uint64_t)(uintptr_t)scratch;
        size_t at = forged.frames.unmap_arg - forged.frames.addr;
        memcpy(forged.frames.bytes + at, &address, sizeof address);
    }
    if (!memory_write(&own.memory, forged.frames.addr, forged.frames.bytes, forged.frames.len))
        return;
    forged.enter(&forged.regs);
    regs_to_context(context, &forged.regs);
    handled++;
}

static uint64_t before[8], after[8];
static unsigned char zone_before[128], zone_after[128];
static _Alignas(16) unsigned char vector_before[16], vector_after[16];
static unsigned mxcsr_before, mxcsr_after;
static int errno_after;

/*
 * Sends the signal to the thread itself, with known values in the registers that are free at that
 * moment, in the red zone and in MXCSR.
 */
static void be_interrupted(void)
{
    __asm__ volatile(
        "subq $512, %%rsp\n"
        "movq %%rdi, %%rbx\n"
        "leaq -128(%%rsp), %%rdi\n"
        "leaq %[zone], %%rsi\n"
        "movl $128, %%ecx\n"
        "rep movsb\n"
        "movq %%rbx, %%rdi\n"
        "movq %[b], %%rbx\n"
        "movq 8+%[b], %%r8\n"
        "movq 16+%[b], %%r9\n"
        "movq 24+%[b], %%r10\n"
        "movq 32+%[b], %%r12\n"
        "movq 40+%[b], %%r13\n"
        "movq 48+%[b], %%r14\n"
        "movq 56+%[b], %%r15\n"
        "movdqa %[v], %%xmm9\n"
        "ldmxcsr %[m]\n"
        "movl %[sig], %%esi\n"
        "movl %[nr], %%eax\n"
        "syscall\n"
        "movq %%rbx, %[a]\n"
        "movq %%r8, 8+%[a]\n"
        "movq %%r9, 16+%[a]\n"
        "movq %%r10, 24+%[a]\n"
        "movq %%r12, 32+%[a]\n"
        "movq %%r13, 40+%[a]\n"
        "movq %%r14, 48+%[a]\n"
        "movq %%r15, 56+%[a]\n"
        "movdqa %%xmm9, %[w]\n"
        "stmxcsr %[n]\n"
        "leaq -128(%%rsp), %%rsi\n"
        "leaq %[zone2], %%rdi\n"
        "movl $128, %%ecx\n"
        "rep movsb\n"
        "addq $512, %%rsp\n"
        : [a] "=m"(after), [w] "=m"(vector_after), [n] "=m"(mxcsr_after), [zone2] "=m"(zone_after)
        : "D"((long)getpid()), [b] "m"(before), [v] "m"(vector_before), [m] "m"(mxcsr_before),
          [zone] "m"(zone_before), [sig] "i"(SIGUSR1), [nr] "i"(SYS_kill)
        : "rax", "rbx", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
          "xmm9", "memory", "cc");
}

/* A write from outside does not extend a stack. */
static void touch_stack(void)
{
    volatile unsigned char room[65536];

    for (size_t i = 0; i < sizeof room; i += 1024)
        room[i] = 1;
}

static void fill(void *bytes, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++)
        ((unsigned char *)bytes)[i] = (unsigned char)(seed + i * 17);
}

/* Lets the handler enter in that way and checks that the thread is unchanged. */
static void run_and_compare(void (*enter)(arch_regs *regs))
{
    const int count = handled;
    sigset_t blocked;
    stack_t stack;

    fill(before, sizeof before, (unsigned)count);
    fill(zone_before, sizeof zone_before, 99);
    fill(vector_before, sizeof vector_before, 50);
    mxcsr_before = 0x1f80 | 0x6000; /* round towards zero */
    memset(after, 0, sizeof after);
    forged.enter = enter;
    touch_stack();
    errno = 12345;
    be_interrupted();
    errno_after = errno;
    __asm__ volatile("ldmxcsr %0" : : "m"((const unsigned){0x1f80}));
    CHECK(handled == count + 1);
    CHECK(memcmp(before, after, sizeof before) == 0);
    CHECK(memcmp(zone_before, zone_after, sizeof zone_before) == 0);
    CHECK(memcmp(vector_before, vector_after, sizeof vector_before) == 0);
    CHECK(mxcsr_before == mxcsr_after);
    CHECK(sigprocmask(SIG_SETMASK, NULL, &blocked) == 0 && sigismember(&blocked, SIGUSR2) == 1 &&
          sigismember(&blocked, SIGUSR1) == 0);
    CHECK(sigaltstack(NULL, &stack) == 0 && stack.ss_flags == 0 && stack.ss_size > 0);
    sigemptyset(&blocked);
    sigprocmask(SIG_SETMASK, &blocked, NULL);
}

static size_t read_maps(char *text)
{
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    size_t used = 0;
    ssize_t n;

    while (fd >= 0 && (n = read(fd, text + used, MAPS_MAX - 1 - used)) > 0)
        used += (size_t)n;
    if (fd >= 0)
        close(fd);
    text[used] = '\0';
    return used;
}

static char maps_before[MAPS_MAX], maps_after[MAPS_MAX];

static void enter_map(arch_regs *regs)
{
    arch_enter_map(regs, &gadgets, &forged.frames, SCRATCH, PROT_READ | PROT_EXEC);
}

static bool same_maps(void)
{
    return strcmp(maps_before, maps_after) == 0;
}

/*
 * A thread whose tracer dies at once: it maps the scratch area, stores its address, unmaps it and
 * continues. Without the store it stays mapped.
 */
static void test_map_and_unmap(void)
{
    gadgets = plan.gadgets;
    if (!CHECK(gadgets.store != 0))
        return;
    scratch = NULL;
    run_and_compare(enter_map); /* once before: lazily allocated state then exists */
    read_maps(maps_before);
    run_and_compare(enter_map);
    read_maps(maps_after);
    CHECK(same_maps() && errno_after == 12345);
}

/* The refused munmap(2) sets errno: it is made by the C library's own syscall(). */
static void test_map_without_store(void)
{
    gadgets = plan.gadgets;
    gadgets.store = 0;
    scratch = NULL;
    read_maps(maps_before);
    run_and_compare(enter_map);
    read_maps(maps_after);
    CHECK(!same_maps());
}

/* ---- calls ---- */

#define CALLED __attribute__((noinline, no_sanitize("address", "undefined")))

static uint64_t seen_stack, seen_flags;
static unsigned seen_mxcsr;

CALLED static uint64_t weigh(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f)
{
    errno = ERANGE;
    return a + 10 * b + 100 * c + 1000 * d + 10000 * e + 100000 * f;
}

CALLED static uint64_t look(void)
{
    __asm__ volatile("stmxcsr %0\n"
                     "pushfq\n"
                     "popq %1\n"
                     : "=m"(seen_mxcsr), "=r"(seen_flags)
                     :
                     : "memory");
    seen_stack = (uint64_t)(uintptr_t)__builtin_frame_address(0);
    return ~0ull;
}

static struct {
    struct arch_call_header header;
    struct arch_call calls[4];
} records;

static void make_records(bool keep_errno)
{
    memset(&records, 0, sizeof records);
    records.header.fp_control = arch_fp_control();
    records.header.errno_location = keep_errno ? plan.errno_location : 0;
    records.calls[0].function = records.calls[2].function = (uint64_t)(uintptr_t)weigh;
    records.calls[1].function = (uint64_t)(uintptr_t)look;
    for (unsigned i = 0; i < 6; i++) {
        records.calls[0].args[i] = i + 1;
        records.calls[2].args[i] = 9 - i;
    }
}

static bool map_scratch(void)
{
    size_t len;
    const unsigned char *code = arch_trampoline(&len);

    scratch = mmap(NULL, SCRATCH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (scratch == MAP_FAILED)
        return false;
    memcpy(scratch, code, len);
    return mprotect(scratch, CODE, PROT_READ | PROT_EXEC) == 0;
}

static bool scratch_is_gone(void)
{
    unsigned char vector[SCRATCH / 4096];
    return mincore(scratch, SCRATCH, vector) != 0 && errno == ENOMEM;
}

static uint64_t last_seen[2], last_stack;
static bool last_saw_scratch;
static uint64_t last_mask;

/* Called at the end: on the thread's own stack, with a mask of its own. */
static void on_last(uint64_t first, uint64_t second)
{
    last_seen[0] = first;
    last_seen[1] = second;
    last_stack = (uint64_t)(uintptr_t)__builtin_frame_address(0);
    const int saved = errno;
    last_saw_scratch = !scratch_is_gone();
    errno = saved;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, NULL, &last_mask, sizeof last_mask);
}

static void enter_trampoline(arch_regs *regs)
{
    arch_enter_trampoline(regs, (uint64_t)(uintptr_t)scratch, (uint64_t)(uintptr_t)&records,
                          (uint64_t)(uintptr_t)scratch + SCRATCH, forged.frames.unmap);
}

static void check_seen(void)
{
    CHECK(seen_stack > (uint64_t)(uintptr_t)scratch + CODE);
    CHECK(seen_stack < (uint64_t)(uintptr_t)scratch + SCRATCH);
    CHECK(seen_stack % 16 == 0); /* rbp, pushed after the return address */
    CHECK(seen_mxcsr == 0x1f80);
    CHECK((seen_flags & (1 << 8 | 1 << 10 | 1 << 18)) == 0);
}

/* The list of calls, then the scratch area's end and the thread's own state. */
static void test_trampoline(void)
{
    gadgets = plan.gadgets;
    make_records(true);
    if (!CHECK(map_scratch()) || !CHECK(plan.errno_location != 0))
        return;
    run_and_compare(enter_trampoline);
    CHECK(scratch_is_gone() && errno_after == 12345);
    CHECK(last_stack == 0);
    CHECK(records.calls[0].done == 1 && records.calls[0].result == 654321);
    CHECK(records.calls[1].done == 1 && records.calls[1].result == ~0ull);
    CHECK(records.calls[2].done == 1 && records.calls[2].result == 456789);
    CHECK(records.calls[3].done == 0);
    check_seen();
}

/* The same, with a function to be called at the very end. */
static void test_last(void)
{
    const uint64_t mask = 1ull << (SIGUSR2 - 1) | 1ull << (SIGHUP - 1);

    make_records(true);
    if (!CHECK(map_scratch()))
        return;
    forged.last = (struct arch_last){(uint64_t)(uintptr_t)on_last, 4711, mask};
    run_and_compare(enter_trampoline);
    forged.last = (struct arch_last){0};
    CHECK(scratch_is_gone() && errno_after == 12345);
    CHECK(last_seen[0] == 4711 && last_seen[1] == 0 && !last_saw_scratch && last_mask == mask);
    CHECK(last_stack % 16 == 0 && last_stack < forged.frames.frame0);
    CHECK(last_stack > forged.frames.addr - 65536);
}

static uint64_t direct_result;

static void enter_direct(arch_regs *regs)
{
    const uint64_t chain = (uint64_t)(uintptr_t)scratch + SCRATCH - 1024 + 8;

    arch_return_chain((unsigned char *)(uintptr_t)chain, 1000, &forged.frames, &gadgets,
                      (uint64_t)(uintptr_t)scratch);
    arch_enter_direct(regs, &gadgets, &records.calls[1], (uint64_t)(uintptr_t)&direct_result,
                      chain);
}

/* One call without executable memory: the function returns into the frames themselves. */
static void test_direct(void)
{
    gadgets = plan.gadgets;
    make_records(true);
    if (!arch_can_call_directly(&gadgets) || !CHECK(map_scratch()))
        return;
    direct_result = 0;
    seen_mxcsr = 0x1f80; /* the tool starts it on this way */
    run_and_compare(enter_direct);
    CHECK(scratch_is_gone() && errno_after == 12345);
    CHECK(direct_result == ~0ull);
    CHECK(seen_stack > (uint64_t)(uintptr_t)scratch + CODE);
    CHECK(seen_stack < (uint64_t)(uintptr_t)scratch + SCRATCH && seen_stack % 16 == 0);
}

static bool install_handler(void)
{
    static unsigned char room[65536];
    const stack_t stack = {.ss_sp = room, .ss_size = sizeof room};
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK};

    return sigaltstack(&stack, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0;
}

int main(void)
{
    if (!CHECK(own_open(&own)) || !CHECK(install_handler()))
        return check_result();
    if (!CHECK(plan_make(&plan, &own.modules, &own.target, &own.memory, NULL) == FAULT_NONE))
        return check_result();
    test_map_and_unmap();
    test_map_without_store();
    test_trampoline();
    test_last();
    test_direct();
    plan_free(&plan);
    own_close(&own);
    return check_result();
}
