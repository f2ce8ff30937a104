#include "inject/rseq.h"
#include "elf/image.h"
#include "elf/view.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

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
