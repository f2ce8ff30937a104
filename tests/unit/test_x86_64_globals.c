/* Variables found by the functions of their names: the byte that a getter and a setter share. */
#include "check.h"
#include "jemalloc/stripped/stripped.h"
#include "own.h"
#include "x86_64_program.h"

#include <sys/mman.h>

enum { F_GETTER = 140, F_SETTER, F_THIRD };

static struct program *const program = (struct program *)0x200000000000;
static struct own own;
static struct module module;

/* Variables beside opt_prof. */
enum { ACTIVE = 3, LOCKED = 9, FLAG = 12, PERIOD = 16, PREFIX = 32 };

static uint64_t variable(unsigned i)
{
    return (uint64_t)(uintptr_t)&program->other[i];
}

static struct globals find(void)
{
    struct globals globals = {0};
    struct eh_frames frames;
    struct view view;

    memory_forget(&own.memory);
    if (!CHECK(view_open(&view, &module, &own.target, &own.memory)))
        return globals;
    struct ctl_tables *tables = ctl_find_tables(&view, 0);
    if (CHECK(tables) && CHECK(eh_frames_load(&frames, &view))) {
        globals_find(&globals, &view, &frames, tables);
        eh_frames_free(&frames);
    }
    free(tables);
    view_close(&view);
    return globals;
}

static unsigned char *read_byte(unsigned char *at, uint64_t target)
{
    return program_put(at, "\x0f\xb6\x1d", 3, target); /* movzbl x(%rip),%ebx */
}

static unsigned char *write_byte(unsigned char *at, uint64_t target)
{
    return program_put(at, "\x40\x88\x2d", 3, target); /* mov %bpl,x(%rip) */
}

/* movb $1,x(%rip), as the mutex's flag is written. */
static unsigned char *write_constant(unsigned char *at, uint64_t target)
{
    at = program_put(at, "\xc6\x05", 2, target - 1);
    *at = 1;
    return at + 1;
}

/* The function of the name prof.active; it reads opt_prof first. */
static unsigned char *active_ctl(void)
{
    return (unsigned char *)(uintptr_t)program->prof[1].function + 7;
}

static void make(void)
{
    unsigned char(*code)[FUNCTION_SIZE] = program->code, *at;

    program_make(program);
    at = program_put(active_ctl(), "\xe8", 1, (uint64_t)(uintptr_t)code[F_GETTER]);
    program_put(at, "\xe8", 1, (uint64_t)(uintptr_t)code[F_SETTER]);
    write_constant(write_constant(read_byte(code[F_GETTER], variable(ACTIVE)), variable(LOCKED)),
                   variable(LOCKED));
    at = write_byte(read_byte(code[F_SETTER], variable(ACTIVE)), variable(ACTIVE));
    write_constant(at, variable(LOCKED));
}

static void test_switch(void)
{
    make();
    CHECK(find().prof_active == variable(ACTIVE));
    CHECK(find().opt_prof == (uint64_t)(uintptr_t)&program->opt_prof);
    CHECK(find().thread_init == 0);
}

/* The flag of a mutex is read and written by both, if the compiler has the constant in a register.
 */
static void test_flag_in_register(void)
{
    make();
    write_byte(read_byte(program->code[F_GETTER] + 24, variable(LOCKED)), variable(LOCKED));
    write_byte(read_byte(program->code[F_SETTER] + 24, variable(LOCKED)), variable(LOCKED));
    CHECK(find().prof_active == variable(ACTIVE));
}

/* All in one function, as after optimization by the linker. */
static void test_inlined(void)
{
    program_make(program);
    write_byte(read_byte(read_byte(active_ctl(), variable(ACTIVE)), variable(ACTIVE)),
               variable(ACTIVE));
    CHECK(find().prof_active == variable(ACTIVE));
    write_constant(active_ctl() + 24, variable(ACTIVE));
    CHECK(find().prof_active == 0);
}

/* Whatever contradicts it, and whatever is missing: then it is not known. */
static void test_not_certain(void)
{
    unsigned char(*code)[FUNCTION_SIZE] = program->code;

    make(); /* nobody else reads it */
    memset(code[F_GETTER], 0x90, FUNCTION_SIZE);
    CHECK(find().prof_active == 0);
    make(); /* the setter does not read it */
    memset(code[F_SETTER], 0x90, 7);
    CHECK(find().prof_active == 0);
    make(); /* nobody writes it */
    memset(code[F_SETTER] + 7, 0x90, 7);
    CHECK(find().prof_active == 0);
    make(); /* the getter writes it too */
    write_byte(code[F_GETTER] + 32, variable(ACTIVE));
    CHECK(find().prof_active == 0);
    make(); /* a constant is written */
    write_constant(code[F_SETTER] + 32, variable(ACTIVE));
    CHECK(find().prof_active == 0);
    make(); /* its address is taken */
    program_put(code[F_GETTER] + 32, "\x48\x8d\x3d", 3, variable(ACTIVE));
    CHECK(find().prof_active == 0);
    make(); /* it is wider than one byte */
    program_put(code[F_GETTER] + 32, "\x48\x8b\x05", 3, variable(ACTIVE));
    CHECK(find().prof_active == 0);
    make(); /* a third function writes it */
    program_put(active_ctl() + 10, "\xe8", 1, (uint64_t)(uintptr_t)code[F_THIRD]);
    CHECK(find().prof_active == variable(ACTIVE));
    write_constant(code[F_THIRD], variable(ACTIVE));
    CHECK(find().prof_active == 0);
    make(); /* two bytes are used like that */
    read_byte(code[F_GETTER] + 32, variable(FLAG));
    write_byte(read_byte(code[F_SETTER] + 32, variable(FLAG)), variable(FLAG));
    CHECK(find().prof_active == 0);
    make(); /* it cannot be written */
    memset(code[F_GETTER], 0x90, FUNCTION_SIZE);
    memset(code[F_SETTER], 0x90, FUNCTION_SIZE);
    read_byte(code[F_GETTER], (uint64_t)(uintptr_t)&program->super);
    write_byte(read_byte(code[F_SETTER], (uint64_t)(uintptr_t)&program->super),
               (uint64_t)(uintptr_t)&program->super);
    CHECK(find().prof_active == 0);
}

/* Two names that seem to have the same variable. */
static void test_same_twice(void)
{
    make();
    memcpy(&program->prof[0].function, &program->prof[1].function, sizeof(uint64_t));
    CHECK(find().prof_active == 0 && find().thread_init == 0);
}

/* A function that reads one variable of the right size, or takes the address of an array. */
static void test_options(void)
{
    unsigned char *period, *prefix;

    make();
    period = (unsigned char *)(uintptr_t)program->prof[5].function;
    prefix = (unsigned char *)(uintptr_t)program->opt[2].function;
    CHECK(find().lg_sample == 0 && find().prefix == 0); /* a byte; no such name */
    program->opt[2].name = program_text(program, "prof_prefix");
    memset(period, 0x90, FUNCTION_SIZE);
    memset(prefix, 0x90, FUNCTION_SIZE);
    CHECK(find().lg_sample == 0 && find().prefix == 0); /* compiled out: nothing is read */
    program_put(period, "\x48\x8b\x05", 3, variable(PERIOD));
    program_put(prefix, "\x48\x8d\x05", 3, variable(PREFIX));
    CHECK(find().lg_sample == variable(PERIOD) && find().prefix == variable(PREFIX));
    program_put(period + 16, "\x48\x8b\x05", 3, variable(PERIOD));
    CHECK(find().lg_sample == variable(PERIOD));
    program_put(period + 16, "\x48\x8b\x05", 3, variable(PREFIX)); /* which of the two? */
    program_put(prefix + 16, "\x48\x8d\x05", 3, variable(PERIOD));
    CHECK(find().lg_sample == 0 && find().prefix == 0);
}

int main(void)
{
    if (!CHECK(own_open(&own)) ||
        !CHECK(mmap(program, sizeof *program, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == program))
        return 1;
    module = (struct module){.path = (char *)"program",
                             .start = (uint64_t)(uintptr_t)program,
                             .end = (uint64_t)(uintptr_t)(program + 1),
                             .exec_start = (uint64_t)(uintptr_t)program->code[0],
                             .exec_end = (uint64_t)(uintptr_t)&program->super};
    test_switch();
    test_flag_in_register();
    test_inlined();
    test_not_certain();
    test_same_twice();
    test_options();
    own_close(&own);
    return check_result();
}
