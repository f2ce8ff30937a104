/*
 * Registers, call frame information, code and stack of a stopped thread, which is walked in full.
 * The program has four functions at a fixed address of this program's own memory, found by
 * the table of .eh_frame_hdr or, if the first bit of `mode` is set, by the plan.
 */
#include "elf/eh_frames.h"
#include "inject/arch.h"
#include "inject/unwind.h"
#include "own_pages.h"

#include <sys/auxv.h>

#include <string.h>

enum { FUNCTIONS = 4, CODE_LEN = 32, RECORD_LEN = 96, BODY = 256 };
enum { BODY_LEN = RECORD_LEN * (FUNCTIONS + 1) + CODE_LEN * FUNCTIONS };

struct head {
    arch_regs regs;
    uint64_t mode;
};

/* What the walk reads of the program first. */
struct start {
    Elf64_Ehdr header;
    Elf64_Phdr phdrs[2];
    unsigned char form[4];
    int32_t eh_frame;
    uint32_t count;
    struct unwind_entry entries[FUNCTIONS];
};

/* After its head, the input has a CIE and the FDEs, the code, and the stack from the next page on.
 */
static uint32_t record_at(size_t i)
{
    return BODY + RECORD_LEN * (uint32_t)(i + 1);
}

static uint32_t code_at(size_t i)
{
    return BODY + RECORD_LEN * (FUNCTIONS + 1) + CODE_LEN * (uint32_t)i;
}

static void make_start(bool table)
{
    const uint32_t origin = offsetof(struct start, form);
    struct start start = {.form = {1, 0x1b, 0x03, 0x3b}, .count = FUNCTIONS};

    memcpy(start.header.e_ident, ELFMAG, SELFMAG);
    start.header.e_ident[EI_CLASS] = ELFCLASS64;
    start.header.e_ident[EI_DATA] = ELFDATA2LSB;
    start.header.e_machine = ((const Elf64_Ehdr *)(uintptr_t)getauxval(AT_SYSINFO_EHDR))->e_machine;
    start.header.e_phoff = offsetof(struct start, phdrs);
    start.header.e_phentsize = sizeof *start.phdrs;
    start.header.e_phnum = 2;
    start.phdrs[0] = (Elf64_Phdr){.p_type = PT_LOAD, .p_memsz = PAGE};
    start.phdrs[1] = (Elf64_Phdr){.p_type = table ? PT_GNU_EH_FRAME : PT_NULL, .p_vaddr = origin};
    for (size_t i = 0; i < FUNCTIONS; i++)
        start.entries[i] =
            (struct unwind_entry){(int32_t)(code_at(i) - origin), (int32_t)(record_at(i) - origin)};
    memcpy((void *)base, &start, sizeof start);
}

static struct plan make_plan(void)
{
    static struct eh_frame frames[FUNCTIONS];
    struct plan plan = {.frames = {base, frames, FUNCTIONS}};
    struct fault fault;

    for (size_t i = 0; i < FUNCTIONS; i++)
        frames[i] = (struct eh_frame){code_at(i), CODE_LEN, record_at(i)};
    expect(plan_forbid(&plan, base + code_at(2), base + code_at(3), "input", &fault) == FAULT_NONE);
    plan_seal(&plan);
    return plan;
}

static void walk_input(const struct head *head)
{
    static char path[] = "input";
    static struct module module = {.path = path,
                                   .start = base,
                                   .end = base + PAGE,
                                   .exec_start = base,
                                   .exec_end = base + PAGE};
    static struct vma vma = {base, base + PAGE, MAP_READ | MAP_EXEC, false, 0};
    static const struct modules modules = {
        .vmas = &vma, .vma_count = 1, .list = &module, .count = 1};
    static const struct deadline deadline = {.at = UINT64_MAX};
    static struct unwinder *unwinder;
    static struct plan plan;

    if (!unwinder) {
        unwinder = unwinder_new(&memory, &modules, &deadline);
        plan = make_plan();
    }
    expect(unwinder != NULL);
    const struct evidence walk = unwinder_prove(unwinder, &plan, &head->regs, base + PAGES * PAGE);
    expect(walk.proof == PROOF_SAFE || walk.proof == PROOF_UNWIND || walk.proof == PROOF_PC ||
           walk.proof == PROOF_STACK || walk.proof == PROOF_EXHAUSTED);
    expect(!walk.what == (walk.proof != PROOF_PC && walk.proof != PROOF_STACK));
}

/* Fills len bytes at an address with the input, and zeros where it ends. */
static void fill(uintptr_t at, size_t len, const uint8_t *data, size_t size)
{
    size_t given = size < len ? size : len;

    memcpy((void *)at, data, given);
    memset((void *)(at + given), 0, len - given);
}

static void prepare(void)
{
    struct memory_range *image = malloc(sizeof *image);

    expect(image != NULL);
    own_pages_prepare();
    *image = (struct memory_range){base, base + PAGE};
    memory_set_unchanging(&memory, image, 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct head head;

    if (size < sizeof head + BODY_LEN)
        return -1;
    if (!memory.unchanging)
        prepare();
    memcpy(&head, data, sizeof head);
    data += sizeof head;
    size -= sizeof head;
    make_start(!(head.mode & 1));
    fill(base + BODY, BODY_LEN, data, size);
    fill(base + PAGE, PAGE, data + BODY_LEN, size - BODY_LEN);
    memory_forget(&memory);
    walk_input(&head);
    return 0;
}
