#include "inject/unwind.h"
#include "base/library.h"
#include "elf/eh_frames.h"
#include "inject/ways.h"

#include <libunwind.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>

/* Exported by libunwind for remote unwinders that find the table themselves, as this one does. */
int UNW_OBJ(dwarf_search_unwind_table)(unw_addr_space_t as, unw_word_t ip, unw_dyn_info_t *di,
                                       unw_proc_info_t *pi, int need_unwind_info, void *arg);
#define unw_search_table UNW_OBJ(dwarf_search_unwind_table)

/*
 * The library is loaded when a scan was not clean: with it and its dependencies
 * the start of the tool takes 3.4 ms instead of 2.5 (measured), and most
 * commands never need it.
 */
#define FUNCTIONS(X)                                                                               \
    X(unw_create_addr_space, create)                                                               \
    X(unw_destroy_addr_space, destroy)                                                             \
    X(unw_set_caching_policy, set_caching)                                                         \
    X(unw_flush_cache, flush)                                                                      \
    X(unw_init_remote, init)                                                                       \
    X(unw_step, step)                                                                              \
    X(unw_get_reg, get_reg)                                                                        \
    X(unw_is_signal_frame, is_signal_frame)                                                        \
    X(unw_search_table, search_table)

struct library {
#define POINTER(function, name) __typeof__(function) *name;
    FUNCTIONS(POINTER)
#undef POINTER
};

static bool libunwind_load(struct library *library)
{
    void *handle = library_open(JEATTACH_LIBUNWIND);

    if (!handle)
        return false;
#define RESOLVE(function, name)                                                                    \
    if (!(library->name = LIBRARY_FUNCTION(handle, function)))                                     \
        return false;
    FUNCTIONS(RESOLVE)
#undef RESOLVE
    return true;
}

enum {
    FRAMES_MAX = 10000,
    SNAPSHOT_MAX = 256 << 10,
    BEYOND_MAX = 64 << 10,
    /*
     * Reads of libunwind, about 20 ns each, and 600 if each remembers a state. A frame whose
     * rules it has kept takes 3 of them, another one about 70; the longest rules of a function
     * that were found, in GCC, are 20,000 bytes.
     */
    READS_MAX = 32768,
    READS_OF_FRAME = 16, /* granted for each frame */
    SYSCALL_READS = 64,  /* what a system call counts as */
    DEADLINE_EVERY = 1024,
    /* Instructions of frames without call frame information, about 30 ns each. */
    CODE_MAX = 98304,
    CODE_OF_FRAME = 256,
};

/*
 * The address of the table with the one function that libunwind looks for: in the
 * kernel's half of the address space. access_mem answers reads there.
 */
static const remote_addr own_table = 0xffff000000000000;

/* Its start is the lowest one, and its FDE at distance 0 of the base: struct unwind_entry. */
static const unw_word_t only_entry = (uint32_t)INT32_MIN;

/*
 * libunwind 1.6 takes the numbers of a return address's column and of the register in
 * which another is kept (DW_CFA_register) as indices of arrays without a look, and divides
 * as DW_OP_div says. Such a table must not end the tool: the step fails. While rules are
 * applied, libunwind holds no lock and has allocated nothing.
 */
static const int fault_signals[] = {SIGSEGV, SIGBUS, SIGFPE};

enum { FAULT_SIGNALS = sizeof fault_signals / sizeof *fault_signals };

struct unwinder {
    struct library library;
    struct memory *memory;
    const struct modules *modules;
    unw_addr_space_t space;
    struct ways *ways;
    struct way place;               /* where the current walk began, or began again */
    const struct eh_frames *frames; /* of its plan */
    remote_addr stack_start, stack_end;
    size_t stack_len;         /* bytes of it in snapshot */
    remote_addr beyond_start; /* address of beyond: where the walk was last */
    size_t beyond_len;
    bool guessed; /* a frame had no call frame information */
    const struct deadline *deadline;
    unsigned reads_left; /* 0: the walk is given up */
    unsigned code_left;
    struct sigaction former[FAULT_SIGNALS];
    remote_addr rest; /* stack pointer of the frame that could not be left */
    unsigned char snapshot[SNAPSHOT_MAX];
    unsigned char beyond[BEYOND_MAX];
};

static void grant(unsigned *left, unsigned more, unsigned max)
{
    *left = max - *left < more ? max : *left + more;
}

static void spend(struct unwinder *unwinder, unsigned reads)
{
    unwinder->reads_left -= reads < unwinder->reads_left ? reads : unwinder->reads_left;
}

/*
 * Tables may make libunwind loop for ever, or remember states without end. It does
 * neither without reading them, so that refused reads end both.
 */
static bool may_read(struct unwinder *unwinder)
{
    if (unwinder->reads_left % DEADLINE_EVERY == 0 && deadline_is_over(unwinder->deadline))
        unwinder->reads_left = 0;
    if (!unwinder->reads_left)
        return false;
    unwinder->reads_left--;
    return true;
}

/*
 * Finds the FDE that may describe ip, in the program's table or, if it has none, in
 * that of the plan (elf/eh_frames.h). Returns its address; 0: none.
 */
static remote_addr find_record(struct unwinder *unwinder, remote_addr ip)
{
    const struct module *module = modules_at(unwinder->modules, ip);
    const struct eh_frames *frames = unwinder->frames;
    struct unwind_table table;
    size_t i;

    if (!module)
        return 0;
    switch (unwind_table_find(&table, unwinder->memory, module)) {
    case UNWIND_TABLE_FOUND:
        return unwind_table_search(&table, unwinder->memory, ip);
    case UNWIND_TABLE_NONE:
        i = frames->base == module->start ? eh_frames_at(frames, ip) : SIZE_MAX;
        return i == SIZE_MAX ? 0 : frames->base + frames->list[i].record;
    default:
        return 0;
    }
}

static int find_proc_info(unw_addr_space_t space, unw_word_t ip, unw_proc_info_t *info, int need,
                          void *arg)
{
    struct unwinder *unwinder = arg;
    unw_dyn_info_t table;
    int rc = -UNW_ENOINFO;

    memset(&table, 0, sizeof table);
    table.format = UNW_INFO_FORMAT_REMOTE_TABLE;
    table.start_ip = ip;
    table.end_ip = ip + 1;
    table.u.rti.table_data = own_table;
    table.u.rti.table_len = 1;
    spend(unwinder, SYSCALL_READS);
    if (may_read(unwinder) && (table.u.rti.segbase = find_record(unwinder, ip)))
        rc = unwinder->library.search_table(space, ip, &table, info, need, arg);
    /* libunwind falls back to a chain of frame pointers here, which proves nothing. */
    if (rc < 0)
        unwinder->guessed = true;
    return rc;
}

static void put_unwind_info(unw_addr_space_t space, unw_proc_info_t *info, void *arg)
{
    (void)space;
    (void)info;
    (void)arg;
}

static int no_dynamic_info(unw_addr_space_t space, unw_word_t *list, void *arg)
{
    (void)space;
    (void)list;
    (void)arg;
    return -UNW_ENOINFO;
}

static bool read_from(const unsigned char *bytes, remote_addr start, size_t len, remote_addr addr,
                      unw_word_t *value)
{
    uint64_t offset = addr - start;

    if (offset >= len || len - offset < sizeof *value)
        return false;
    memcpy(value, bytes + offset, sizeof *value);
    return true;
}

/*
 * Reads a word that the target may change: one outside the snapshot. At least a
 * page is read at once, more of the thread's own stack. None of it is kept from
 * one stop to the next.
 */
static bool read_beyond(struct unwinder *unwinder, remote_addr addr, unw_word_t *value)
{
    remote_addr start = addr & ~(remote_addr)(MEMORY_PAGE - 1);
    bool own = addr >= unwinder->stack_start && addr < unwinder->stack_end;
    size_t len = MEMORY_PAGE;

    if (read_from(unwinder->beyond, unwinder->beyond_start, unwinder->beyond_len, addr, value))
        return true;
    if (own)
        len = unwinder->stack_end - start < BEYOND_MAX ? (size_t)(unwinder->stack_end - start)
                                                       : BEYOND_MAX;
    spend(unwinder, SYSCALL_READS + (unsigned)len / SYSCALL_READS);
    unwinder->beyond_start = start;
    unwinder->beyond_len = memory_read(unwinder->memory, start, unwinder->beyond, len) ? len : 0;
    return read_from(unwinder->beyond, start, unwinder->beyond_len, addr, value);
}

static int access_mem(unw_addr_space_t space, unw_word_t addr, unw_word_t *value, int write,
                      void *arg)
{
    struct unwinder *unwinder = arg;
    bool ok;

    (void)space;
    if (write || !may_read(unwinder))
        return -UNW_EINVAL;
    if (read_from(unwinder->snapshot, unwinder->stack_start, unwinder->stack_len, addr, value))
        return 0;
    if (addr == own_table) {
        *value = only_entry;
        return 0;
    }
    if (memory_is_unchanging(unwinder->memory, addr))
        ok = memory_read_cached(unwinder->memory, addr, value, sizeof *value);
    else
        ok = read_beyond(unwinder, addr, value);
    return ok ? 0 : -UNW_EINVAL;
}

static int access_reg(unw_addr_space_t space, unw_regnum_t reg, unw_word_t *value, int write,
                      void *arg)
{
    const struct unwinder *unwinder = arg;

    (void)space;
    if (write || reg < 0 || reg >= 32 || !(unwinder->place.known >> reg & 1) ||
        !arch_unwind_register(&unwinder->place.regs, reg, value))
        return -UNW_EBADREG;
    return 0;
}

static int no_fpreg(unw_addr_space_t space, unw_regnum_t reg, unw_fpreg_t *value, int write,
                    void *arg)
{
    (void)space;
    (void)reg;
    (void)value;
    (void)write;
    (void)arg;
    return -UNW_EBADREG;
}

static int no_resume(unw_addr_space_t space, unw_cursor_t *cursor, void *arg)
{
    (void)space;
    (void)cursor;
    (void)arg;
    return -UNW_EINVAL;
}

static int no_name(unw_addr_space_t space, unw_word_t ip, char *name, size_t size,
                   unw_word_t *offset, void *arg)
{
    (void)space;
    (void)ip;
    (void)name;
    (void)size;
    (void)offset;
    (void)arg;
    return -UNW_EINVAL;
}

static _Thread_local sigjmp_buf *volatile way_out;

static void on_fault(int signo)
{
    if (way_out)
        siglongjmp(*way_out, 1);
    signal(signo, SIG_DFL); /* one of the tool's own: it comes again at once, and ends it */
}

static int take_step(const struct unwinder *unwinder, unw_cursor_t *cursor)
{
    sigjmp_buf here;
    int rc = -UNW_EUNSPEC;

    if (sigsetjmp(here, 0) == 0) {
        way_out = &here;
        rc = unwinder->library.step(cursor);
    }
    way_out = NULL;
    return rc;
}

struct unwinder *unwinder_new(struct memory *memory, const struct modules *modules,
                              const struct deadline *deadline)
{
    static unw_accessors_t accessors = {
        .find_proc_info = find_proc_info,
        .put_unwind_info = put_unwind_info,
        .get_dyn_info_list_addr = no_dynamic_info,
        .access_mem = access_mem,
        .access_reg = access_reg,
        .access_fpreg = no_fpreg,
        .resume = no_resume,
        .get_proc_name = no_name,
    };
    const struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_NODEFER};
    struct unwinder *unwinder = calloc(1, sizeof *unwinder);

    if (!unwinder)
        return NULL;
    unwinder->memory = memory;
    unwinder->modules = modules;
    unwinder->deadline = deadline;
    unwinder->ways = ways_new();
    if (unwinder->ways && libunwind_load(&unwinder->library))
        unwinder->space = unwinder->library.create(&accessors, 0);
    if (!unwinder->space) {
        ways_free(unwinder->ways);
        free(unwinder);
        return NULL;
    }
    unwinder->library.set_caching(unwinder->space, UNW_CACHE_GLOBAL);
    for (size_t i = 0; i < FAULT_SIGNALS; i++)
        sigaction(fault_signals[i], &action, &unwinder->former[i]);
    return unwinder;
}

void unwinder_free(struct unwinder *unwinder)
{
    if (!unwinder)
        return;
    for (size_t i = 0; i < FAULT_SIGNALS; i++)
        sigaction(fault_signals[i], &unwinder->former[i], NULL);
    unwinder->library.destroy(unwinder->space);
    ways_free(unwinder->ways);
    free(unwinder);
}

static struct evidence make_walk_evidence(enum proof proof, remote_addr address, const char *what,
                                          unsigned frames)
{
    return (struct evidence){.proof = proof, .address = address, .what = what, .frames = frames};
}

/* A frame of the walk. */
struct step {
    unw_cursor_t cursor;
    bool exact;  /* pc is where the thread is, or was interrupted; otherwise after a call */
    bool before; /* the cursor is at the call before pc, not at pc */
};

static bool read_frame_word(void *ctx, remote_addr addr, uint64_t *value)
{
    struct unwinder *unwinder = ctx;
    unw_word_t word;
    bool ok =
        read_from(unwinder->snapshot, unwinder->stack_start, unwinder->stack_len, addr, &word) ||
        read_beyond(unwinder, addr, &word);

    *value = ok ? word : 0;
    return ok;
}

/* Returns the place of a frame, with the registers that are certain there. */
static struct way place_of(struct unwinder *unwinder, struct step *step)
{
    struct way place = {.known = 0};

    for (unsigned i = 0; i < ARCH_WAY_REGISTERS; i++) {
        unw_word_t value;
        if ((step->exact || arch_preserves(i)) &&
            unwinder->library.get_reg(&step->cursor, (unw_regnum_t)i, &value) >= 0)
            arch_set_way_register(&place, i, value);
    }
    if (step->before)
        arch_set_pc(&place.regs, arch_pc(&place.regs) + 1);
    return place;
}

/* Leaves a frame without call frame information by its code (inject/ways.h). */
static bool leave_by_code(struct unwinder *unwinder, struct step *step)
{
    const struct leave_query query = {.memory = unwinder->memory,
                                      .modules = unwinder->modules,
                                      .stack_end = unwinder->stack_end,
                                      .word = read_frame_word,
                                      .ctx = unwinder};
    struct way place = place_of(unwinder, step);

    unwinder->rest = arch_sp(&place.regs);
    spend(unwinder, SYSCALL_READS);
    if (!may_read(unwinder))
        return false;
    grant(&unwinder->code_left, CODE_OF_FRAME, CODE_MAX);
    if (!ways_leave(unwinder->ways, &query, &unwinder->code_left, &place))
        return false;
    /* At its start, a walk takes pc to be exact: what counts is the call before it. */
    unwinder->place = place;
    arch_set_pc(&unwinder->place.regs, arch_pc(&place.regs) - 1);
    step->before = true;
    step->exact = false;
    return unwinder->library.init(&step->cursor, unwinder->space, unwinder) >= 0;
}

/* Goes to the next frame. Returns 1; 0: this is the outermost one; -1: not certain. */
static int next_frame(struct unwinder *unwinder, struct step *step)
{
    struct step last = *step;
    bool signalled = unwinder->library.is_signal_frame(&step->cursor) > 0;

    unwinder->guessed = false;
    int rc = take_step(unwinder, &step->cursor);
    if (rc >= 0 && !unwinder->guessed) {
        step->exact = signalled;
        step->before = false;
        return rc;
    }
    *step = last;
    return !signalled && leave_by_code(unwinder, step) ? 1 : -1;
}

static struct evidence walk_frames(struct unwinder *unwinder, const struct plan *plan,
                                   struct step *step)
{
    struct evidence walk = make_walk_evidence(PROOF_SAFE, 0, NULL, 0);

    for (unsigned frames = 1; frames < FRAMES_MAX; frames++) {
        const struct code_range *range;
        bool exact = step->exact;
        unw_word_t pc, sp;
        if (unwinder->library.get_reg(&step->cursor, UNW_REG_IP, &pc) < 0 ||
            unwinder->library.get_reg(&step->cursor, UNW_REG_SP, &sp) < 0)
            return make_walk_evidence(PROOF_UNWIND, 0, NULL, frames);
        pc += step->before;
        /*
         * A call may be the last instruction of its range; where a signal interrupted the thread,
         * pc is exact.
         */
        range = ranges_find(&plan->forbidden, exact ? pc : pc - 1);
        if (range)
            return make_walk_evidence(frames == 1 ? PROOF_PC : PROOF_STACK, pc, range->what,
                                      frames);
        walk.frames = frames;
        if (unwinder->reads_left)
            grant(&unwinder->reads_left, READS_OF_FRAME, READS_MAX);
        int rc = next_frame(unwinder, step);
        if (!unwinder->reads_left)
            return make_walk_evidence(PROOF_EXHAUSTED, pc, NULL, frames);
        if (rc == 0)
            return walk;
        if (rc < 0) {
            walk.proof = PROOF_UNWIND;
            walk.address = pc;
            walk.rest = unwinder->rest;
            return walk;
        }
        walk.inner = pc;
        walk.inner_exact = exact;
    }
    return make_walk_evidence(PROOF_UNWIND, 0, NULL, FRAMES_MAX);
}

struct evidence unwinder_prove(struct unwinder *unwinder, const struct plan *plan,
                               const arch_regs *regs, remote_addr stack_end)
{
    struct step step = {.exact = true};
    remote_addr sp = arch_sp(regs);
    size_t len = stack_end - sp < SNAPSHOT_MAX ? (size_t)(stack_end - sp) : SNAPSHOT_MAX;

    unwinder->place = arch_way_of(regs);
    unwinder->frames = &plan->frames;
    unwinder->rest = 0;
    unwinder->reads_left = READS_MAX;
    unwinder->code_left = CODE_MAX;
    unwinder->library.flush(unwinder->space, 0, 0);
    /* Reads the stack once instead of one word at a time. */
    unwinder->stack_start = sp;
    unwinder->stack_end = stack_end;
    unwinder->beyond_len = 0;
    unwinder->stack_len = memory_read(unwinder->memory, sp, unwinder->snapshot, len) ? len : 0;
    if (unwinder->library.init(&step.cursor, unwinder->space, unwinder) < 0)
        return make_walk_evidence(PROOF_UNWIND, 0, NULL, 0);
    return walk_frames(unwinder, plan, &step);
}
