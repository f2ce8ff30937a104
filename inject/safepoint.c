#include "inject/safepoint.h"
#include "inject/unwind.h"

#include <string.h>

enum {
    SCAN_CHUNK = 64 << 10,
    STACK_MAX = 1 << 30,    /* bytes */
    DESCRIPTOR_WORDS = 512, /* of the thread descriptor that are searched; glibc's has 288 */
    DESCRIPTOR_MAX =
        8192, /* bytes between the end of musl's stack and its descriptor; a stack is larger */
};

static struct evidence make_evidence(enum proof proof, remote_addr address, const char *what)
{
    return (struct evidence){.proof = proof, .address = address, .what = what};
}

/* Examines count words that are at address; PROOF_SAFE if none of them is suspicious. */
static struct evidence scan_words(const struct plan *plan, struct memory *memory,
                                  const uint64_t *words, size_t count)
{
    const struct code_ranges *forbidden = &plan->forbidden;
    remote_addr low = forbidden->count ? forbidden->list[0].start : 0;
    remote_addr high = forbidden->count ? forbidden->list[forbidden->count - 1].end : 0;

    for (size_t i = 0; i < count; i++) {
        const struct code_range *range;
        unsigned char before[8];
        if (plan_is_restorer(plan, words[i]))
            return make_evidence(PROOF_HANDLER, words[i], NULL);
        if (words[i] < low || words[i] > high)
            continue;
        /* A call may be the last instruction of its range: check the byte before. */
        range = ranges_find(forbidden, words[i] - 1);
        if (!range)
            continue;
        /* If it cannot be determined, it is taken for a return address. */
        if (!memory_read_cached(memory, words[i] - sizeof before, before, sizeof before) ||
            arch_follows_call(before))
            return make_evidence(PROOF_STACK, words[i], range->what);
    }
    return make_evidence(PROOF_SAFE, 0, NULL);
}

static struct evidence scan_stack(const struct plan *plan, struct memory *memory, remote_addr from,
                                  remote_addr to)
{
    uint64_t chunk[SCAN_CHUNK / 8];
    struct evidence evidence = make_evidence(PROOF_SAFE, 0, NULL);

    for (remote_addr at = from; at < to && evidence.proof == PROOF_SAFE;) {
        size_t len = to - at < SCAN_CHUNK ? (size_t)(to - at) : SCAN_CHUNK;
        if (!memory_read(memory, at, chunk, len))
            return make_evidence(PROOF_UNREADABLE, 0, NULL);
        evidence = scan_words(plan, memory, chunk, len / 8);
        at += len;
    }
    evidence.scanned = (size_t)(to - from);
    return evidence;
}

/* The part of a mapping that is one thread's stack; start == end: unknown. */
struct own_stack {
    remote_addr start, end;
};

/*
 * Two adjacent words of the thread descriptor describe its stack: in glibc the
 * lowest address of the block, which also contains the descriptor, and its size
 * (stackblock, stackblock_size); in musl the end, just below the descriptor,
 * and the size (stack, stack_size). Their offset differs from version to
 * version; the values that they must have do not.
 */
static bool words_tell_stack(const uint64_t words[2], remote_addr tls, const struct vma *vma,
                             struct own_stack *out)
{
    uint64_t where = words[0], size = words[1];

    if (size < DESCRIPTOR_MAX || size > STACK_MAX || where > tls)
        return false;
    if (tls - where < size && where + size <= vma->end) {
        /* The lowest pages of the block are its guard, a separate mapping. */
        *out = (struct own_stack){where > vma->start ? where : vma->start, tls};
        return true;
    }
    if (where > vma->start && tls - where < DESCRIPTOR_MAX && where - size < where) {
        *out = (struct own_stack){where - size > vma->start ? where - size : vma->start, where};
        return true;
    }
    return false;
}

/*
 * Reads the descriptor up to the end of the mapping. Since glibc 2.42 the guard of the
 * next stack may be in the same mapping (MADV_GUARD_INSTALL), and cannot be read: then
 * only the pages before it. Returns the length in bytes; 0: unreadable.
 */
static size_t read_descriptor(struct memory *memory, remote_addr tls, const struct vma *vma,
                              uint64_t words[DESCRIPTOR_WORDS])
{
    const size_t size = DESCRIPTOR_WORDS * sizeof *words;
    size_t len = vma->end - tls < size ? (size_t)(vma->end - tls) : size;
    size_t past = (tls + len) % MEMORY_PAGE;

    for (; len >= sizeof *words; past = 0) {
        if (memory_read(memory, tls, words, len & ~(size_t)7))
            return len & ~(size_t)7;
        past = past ? past : MEMORY_PAGE;
        len = len > past ? len - past : 0;
    }
    return 0;
}

/*
 * Returns [stack] for the first thread; for the others the range that the descriptor gives.
 * Mappings merge: the mapping of a descriptor may also contain other memory, such as the stack of
 * a coroutine, so the descriptor itself is read.
 */
static struct own_stack own_stack(const struct modules *modules, struct memory *memory,
                                  const arch_regs *regs, bool main_thread)
{
    const struct vma *vma = modules_vma_at(modules, arch_sp(regs));
    uint64_t words[DESCRIPTOR_WORDS];
    struct own_stack stack = {0, 0};
    remote_addr tls = arch_tls(regs);

    if (!vma || (vma->prot & (MAP_READ | MAP_WRITE)) != (MAP_READ | MAP_WRITE))
        return stack;
    if (main_thread)
        return vma->stack ? (struct own_stack){vma->start, vma->end} : stack;
    if (tls < vma->start || tls >= vma->end || arch_sp(regs) >= tls)
        return stack;
    size_t len = read_descriptor(memory, tls, vma, words);
    for (size_t i = 0; i + 1 < len / 8; i++)
        if (words_tell_stack(words + i, tls, vma, &stack))
            break;
    return stack;
}

/* Judges the place where the thread is, except for the words on its stack. */
static struct evidence judge_place(const struct plan *plan, struct memory *memory,
                                   const arch_regs *regs, const struct own_stack *stack,
                                   size_t needed)
{
    const struct code_range *range = ranges_find(&plan->forbidden, arch_pc(regs));
    remote_addr sp = arch_sp(regs), tls = arch_tls(regs);
    uint64_t head[3];

    if (range)
        return make_evidence(PROOF_PC, arch_pc(regs), range->what);
    if (sp < stack->start || sp >= stack->end || sp % 8)
        return make_evidence(PROOF_FOREIGN_STACK, sp, NULL);
    if (sp - stack->start < needed)
        return make_evidence(PROOF_NO_SPACE, sp, NULL);
    if (!memory_read(memory, tls, head, sizeof head) || !arch_tls_is_libc(tls, head))
        return make_evidence(PROOF_NO_TLS, tls, NULL);
    return make_evidence(PROOF_SAFE, 0, NULL);
}

bool safepoint_wants_unwinder(enum proof proof)
{
    return proof == PROOF_STACK || proof == PROOF_HANDLER || proof == PROOF_TOO_LONG ||
           proof == PROOF_MAYBE_ENDING;
}

/*
 * True if the thread may be ending. The first use of the allocator by a thread
 * creates data for it, which a destructor of thread-specific data releases.
 * Once the last round of destructors has started, nobody calls that one any
 * more, and the allocator's lists keep pointers into the memory of a thread
 * that is gone. In glibc the function that called the thread's start function
 * also runs the destructors: it calls the former through a pointer, everything
 * after it directly. (musl's, pthread_exit, is forbidden.)
 */
static bool thread_is_ending(struct memory *memory, const struct evidence *evidence)
{
    unsigned char before[8];

    if (!evidence->inner)
        return false;
    return evidence->inner_exact ||
           !memory_read_cached(memory, evidence->inner - sizeof before, before, sizeof before) ||
           arch_follows_direct_call(before);
}

/*
 * The walk ended in a frame that it could not leave: the thread's first one,
 * mostly. Then every word from there on counts, as in a scan.
 */
static struct evidence judge_rest(const struct plan *plan, struct memory *memory,
                                  const struct evidence *walk, remote_addr stack_end)
{
    struct evidence rest = *walk;

    if (stack_end - walk->rest > SAFEPOINT_SCAN_MAX)
        return rest;
    rest.proof = scan_stack(plan, memory, walk->rest & ~(remote_addr)7, stack_end).proof;
    if (rest.proof != PROOF_SAFE)
        rest.proof = PROOF_UNWIND;
    rest.inner = 0;
    return rest;
}

static struct evidence judge_by_walk(const struct plan *plan, struct memory *memory,
                                     struct unwinder *unwinder, const arch_regs *regs,
                                     bool main_thread, remote_addr stack_end,
                                     const struct evidence *scan)
{
    struct evidence walk = unwinder_prove(unwinder, plan, regs, stack_end);

    if (walk.proof == PROOF_UNWIND && walk.rest >= arch_sp(regs) && walk.rest <= stack_end)
        walk = judge_rest(plan, memory, &walk, stack_end);
    if (walk.proof == PROOF_SAFE && !main_thread && thread_is_ending(memory, &walk))
        walk.proof = PROOF_ENDING;
    /* The first thread never ends like this: it needs no walk if its words are clean. */
    if (walk.proof == PROOF_EXHAUSTED && !(main_thread && scan->proof == PROOF_MAYBE_ENDING)) {
        walk.unfollowed = true;
        return walk;
    }
    if (walk.proof != PROOF_UNWIND && walk.proof != PROOF_EXHAUSTED)
        return walk;
    /*
     * That the walk failed says less than the result of the scan; through glibc's own code, where
     * an ending thread is, it succeeds.
     */
    walk = *scan;
    walk.unfollowed = true;
    if (walk.proof == PROOF_MAYBE_ENDING)
        walk.proof = PROOF_SAFE;
    return walk;
}

struct evidence safepoint_prove(const struct plan *plan, const struct modules *modules,
                                struct memory *memory, struct unwinder *unwinder, bool walk_unclean,
                                const arch_regs *regs, bool main_thread, size_t needed)
{
    const struct own_stack stack = own_stack(modules, memory, regs, main_thread);
    struct evidence evidence = judge_place(plan, memory, regs, &stack, needed);

    if (evidence.proof == PROOF_SAFE) {
        /* In the restorer: the frame that it restores need not contain a return address. */
        if (plan_in_restorer(plan, arch_pc(regs), ARCH_SIGRETURN_LEN))
            evidence = make_evidence(PROOF_HANDLER, arch_pc(regs), NULL);
        else if (stack.end - arch_sp(regs) > SAFEPOINT_SCAN_MAX)
            evidence = make_evidence(PROOF_TOO_LONG, arch_sp(regs), NULL);
        else
            evidence = scan_stack(plan, memory, arch_sp(regs), stack.end);
    }
    if (evidence.proof == PROOF_SAFE && !main_thread)
        evidence.proof = PROOF_MAYBE_ENDING;
    if (!unwinder || !safepoint_wants_unwinder(evidence.proof))
        return evidence;
    if (evidence.proof != PROOF_MAYBE_ENDING && !walk_unclean) {
        evidence.unwalked = true;
        return evidence;
    }
    return judge_by_walk(plan, memory, unwinder, regs, main_thread, stack.end, &evidence);
}

const char *proof_text(enum proof proof)
{
    static const char *const texts[] = {
        [PROOF_SAFE] = "at a safe point",
        [PROOF_PC] = "was running in",
        [PROOF_STACK] = "was inside",
        [PROOF_HANDLER] = "was running a signal handler",
        [PROOF_FOREIGN_STACK] = "was not on its own stack",
        [PROOF_NO_SPACE] = "had too little space on its stack",
        [PROOF_TOO_LONG] = "had too much stack in use to search",
        [PROOF_NO_TLS] = "is not a thread of the C library",
        [PROOF_UNREADABLE] = "had an unreadable stack",
        [PROOF_UNWIND] = "could not be unwound",
        [PROOF_EXHAUSTED] = "has call frame information that takes too long to follow",
        [PROOF_SYNCCALL] = "blocked the signal by which its C library stops all threads",
        [PROOF_ENDING] = "was ending",
        [PROOF_MAYBE_ENDING] = "may be ending, which only its frames show",
        [PROOF_RSEQ] = "may be in a restartable sequence, which kernels before 5.13 do not show",
        [PROOF_NO_STATUS] = "has a status in /proc that could not be read",
        [PROOF_STRICT] = "is under strict seccomp, which would kill it at any injected system call",
        [PROOF_SHADOW_STACK] =
            "uses a shadow stack (x86 CET), which an injected call would violate",
        [PROOF_DISPATCH] =
            "has syscall user dispatch on, which turns any injected system call into a SIGSYS",
        [PROOF_MAY_DISPATCH] = ("may have syscall user dispatch on (it handles SIGSYS), which "
                                "kernels before 6.4 do not show"),
        [PROOF_REALTIME] = "has real-time priority, and jeattach may not (CAP_SYS_NICE)",
        [PROOF_FILTERED] = "has a seccomp filter that other threads lack",
        [PROOF_SYSCALL] = "sleeps in a system call that a stop might cut short or repeat:",
    };
    return texts[proof];
}
