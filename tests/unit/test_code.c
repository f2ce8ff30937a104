/* Functions of a program that belong to jemalloc: a file with a .symtab, mapped into the test. */
#include "check.h"
#include "elf/faults.h"
#include "elf_file.h"
#include "jemalloc/code.h"
#include "own.h"
#include "tree.h"

#include <errno.h>

enum { SYMBOLS = 256, NAMES = 8192, STEP = 0x100 };

/* Functions follow each other, STEP bytes each, in the order in which they are added. */
static struct program {
    struct elf_file elf;
    Elf64_Sym symbols[SYMBOLS];
    char names[NAMES];
} program;

static size_t symbol_count, names_used;
static uint64_t next_address;
static uint64_t bias; /* of the program as it was mapped */
static struct own own;
static struct tree tree;

static void add(const char *name, unsigned char type, unsigned char bind, uint64_t value)
{
    program.symbols[symbol_count++] =
        (Elf64_Sym){.st_name = (Elf64_Word)names_used,
                    .st_info = (unsigned char)ELF64_ST_INFO(bind, type),
                    .st_shndx = 1,
                    .st_value = value,
                    .st_size = STEP - 0x10};
    names_used += (size_t)sprintf(program.names + names_used, "%s", name) + 1;
}

static uint64_t add_function(const char *name, unsigned char bind)
{
    uint64_t at = next_address;

    add(name, STT_FUNC, bind, at);
    next_address += STEP;
    return at;
}

static void add_file(const char *name)
{
    add(name, STT_FILE, STB_LOCAL, 0);
}

static void begin_program(void)
{
    memset(&program, 0, sizeof program);
    file_make(&program.elf);
    program.elf.sections[2].sh_offset = offsetof(struct program, symbols);
    program.elf.sections[2].sh_size = sizeof program.symbols;
    program.elf.sections[3].sh_offset = offsetof(struct program, names);
    program.elf.sections[3].sh_size = sizeof program.names;
    program.elf.phdrs[0].p_filesz = program.elf.phdrs[0].p_memsz = sizeof program;
    symbol_count = names_used = 1;
    next_address = 0x100000;
}

static void add_many(const char *prefix, unsigned count)
{
    char name[64];

    for (unsigned i = 0; i < count; i++) {
        snprintf(name, sizeof name, "%sinternal_%u", prefix, i);
        add_function(name, STB_LOCAL);
    }
}

/* Maps the program and forbids jemalloc's code in it. */
static fault_code forbid(const char *prefix, struct plan *plan)
{
    char path[TREE_PATH_MAX];
    struct instance instance = {.in_program = true};

    memset(plan, 0, sizeof *plan);
    CHECK(tree_write_bytes(&tree, "program", &program, sizeof program));
    AUTO_CLOSE int fd = open(tree_name(&tree, "program", path), O_RDONLY | O_CLOEXEC);
    void *base = mmap(NULL, sizeof program, PROT_READ, MAP_PRIVATE, fd, 0);
    modules_free(&own.modules);
    CHECK(base != MAP_FAILED && modules_load(&own.modules, &own.target, NULL) == FAULT_NONE);
    memory_forget(&own.memory);
    bias = (uint64_t)(uintptr_t)base;
    instance.module = *modules_at(&own.modules, (remote_addr)(uintptr_t)base);
    snprintf(instance.prefix, sizeof instance.prefix, "%s", prefix);
    fault_code rc = code_forbid(&instance, plan, &own.target, &own.memory, NULL);
    plan_seal(plan);
    munmap(base, sizeof program);
    return rc;
}

static bool forbidden(const struct plan *plan, uint64_t at)
{
    return ranges_find(&plan->forbidden, bias + at) &&
           ranges_find(&plan->forbidden, bias + at + STEP - 0x11);
}

static bool allowed(const struct plan *plan, uint64_t at)
{
    return !ranges_find(&plan->forbidden, bias + at) &&
           !ranges_find(&plan->forbidden, bias + at + STEP - 0x11);
}

/* Names decide, and for static functions their neighbours and their file. */
static void test_owners(void)
{
    struct plan plan;
    begin_program();
    uint64_t main_at = add_function("main", STB_GLOBAL);
    add_file("server.c");
    uint64_t static_before = add_function("helper", STB_LOCAL);
    add_file("arena.c");
    uint64_t edge = add_function("arena_static", STB_LOCAL); /* at the edge, but of a known file */
    add_many("je_", 100);
    add_file("unknown.c");
    uint64_t within = add_function("cold_part", STB_LOCAL);
    add_many("je_late_", 3);
    uint64_t public = add_function("malloc", STB_GLOBAL);
    uint64_t operator_new = add_function("_Znwm", STB_WEAK);
    uint64_t static_behind = add_function("parse", STB_LOCAL);
    uint64_t other = add_function("serve", STB_GLOBAL);
    add_file("ctl.c");
    uint64_t alone =
        add_function("ctl_of_the_program", STB_LOCAL); /* no named function beside it */
    uint64_t last = add_function("end", STB_GLOBAL);
    CHECK(forbid("", &plan) == FAULT_NONE);
    CHECK(allowed(&plan, main_at) && allowed(&plan, static_before));
    CHECK(forbidden(&plan, edge) && forbidden(&plan, within) && forbidden(&plan, public));
    CHECK(forbidden(&plan, operator_new));
    for (uint64_t at = edge; at <= operator_new; at += STEP)
        CHECK(forbidden(&plan, at));
    CHECK(allowed(&plan, static_behind) && allowed(&plan, other));
    CHECK(allowed(&plan, alone) && allowed(&plan, last));
    plan_free(&plan);
}

/* A program's function in the middle is its own; those on both sides of it are not. */
static void test_two_places(void)
{
    struct plan plan;
    begin_program();
    uint64_t first = next_address;
    add_many("je_", 60);
    uint64_t between = add_function("zmalloc", STB_GLOBAL);
    uint64_t second = next_address;
    add_many("je_more_", 60);
    uint64_t last = next_address - STEP;
    CHECK(forbid("", &plan) == FAULT_NONE);
    CHECK(forbidden(&plan, first) && forbidden(&plan, between - STEP));
    CHECK(allowed(&plan, between));
    CHECK(forbidden(&plan, second) && forbidden(&plan, last));
    CHECK(!ranges_find(&plan.forbidden, bias + first - 1));
    CHECK(!ranges_find(&plan.forbidden, bias + last + STEP));
    plan_free(&plan);
}

static void test_prefix(void)
{
    struct plan plan;
    begin_program();
    add_many("_rjem_je_", 100);
    uint64_t prefixed = add_function("_rjem_malloc", STB_GLOBAL);
    uint64_t plain = add_function("malloc", STB_GLOBAL); /* another allocator's */
    CHECK(forbid("_rjem_", &plan) == FAULT_NONE);
    CHECK(forbidden(&plan, prefixed) && allowed(&plan, plain));
    plan_free(&plan);
}

static void test_stripped(void)
{
    struct plan plan;

    begin_program();
    add_many("je_", 99);
    CHECK(forbid("", &plan) == FAULT_UNSUPPORTED);
    plan_free(&plan);
    begin_program();
    add_many("je_", 100);
    program.elf.sections[2].sh_type = SHT_NULL;
    CHECK(forbid("", &plan) == FAULT_UNSUPPORTED);
    plan_free(&plan);
}

/* A library is forbidden as a whole. */
static void test_library(void)
{
    struct module module = {.start = 0x1000, .end = 0x9000};
    const struct instance instance = {.module = module};
    struct plan plan = {.avoid_count = 0};

    CHECK(code_forbid(&instance, &plan, &own.target, &own.memory, NULL) == FAULT_NONE);
    plan_seal(&plan);
    CHECK(ranges_find(&plan.forbidden, 0x1000) && ranges_find(&plan.forbidden, 0x8fff));
    CHECK(!ranges_find(&plan.forbidden, 0xfff) && !ranges_find(&plan.forbidden, 0x9000));
    CHECK(plan.avoid_count == 1 && strcmp(plan.avoid[0], "jemalloc_bg_thd") == 0);
    plan_free(&plan);
}

/* An LTO link makes static functions global, and gives them such names. */
static void test_promoted(void)
{
    struct plan plan;

    begin_program();
    uint64_t of_program = add_function("parse.lto_priv.0", STB_GLOBAL);
    add_many("je_", 100);
    uint64_t hook = add_function("ehooks_default_alloc.lto_priv.0", STB_GLOBAL);
    uint64_t second = add_function("arena_bin_lock.lto_priv.1", STB_GLOBAL);
    add_many("je_late_", 1);
    uint64_t behind = add_function("serve.lto_priv.0", STB_GLOBAL);
    CHECK(forbid("", &plan) == FAULT_NONE);
    CHECK(forbidden(&plan, hook) && forbidden(&plan, second));
    CHECK(allowed(&plan, of_program) && allowed(&plan, behind));
    plan_free(&plan);
}

int main(void)
{
    if (!CHECK(own_open(&own)) || !CHECK(tree_make(&tree)))
        return check_result();
    test_owners();
    test_two_places();
    test_prefix();
    test_stripped();
    test_promoted();
    test_library();
    tree_remove(&tree);
    own_close(&own);
    return check_result();
}
