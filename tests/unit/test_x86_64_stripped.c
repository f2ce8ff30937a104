/* jemalloc without symbols: each sign alone, and the result if one of them is missing. */
#include "check.h"
#include "elf/faults.h"
#include "jemalloc/stripped/hull.h"
#include "jemalloc/stripped/stripped.h"
#include "own.h"
#include "x86_64_program.h"

#include <sys/mman.h>

static struct program *const program = (struct program *)0x200000000000;
static struct own own;
static struct module module;
static struct view view;

static bool find(struct instance *instance, const char **why)
{
    memory_forget(&own.memory);
    memset(instance, 0, sizeof *instance);
    return stripped_find(instance, &module, &own.target, &own.memory, 0, why);
}

static uint64_t function(unsigned i)
{
    return (uint64_t)(uintptr_t)program->code[i];
}

static void test_found(void)
{
    struct instance instance;
    const char *why;

    program_make(program);
    if (!CHECK(find(&instance, &why)))
        fprintf(stderr, "%s\n", why ? why : "no tables");
    CHECK(instance.mallctl == function(F_MALLCTL));
    CHECK(instance.stats_print == function(F_STATS_PRINT));
    CHECK(instance.tables == (uint64_t)(uintptr_t)&program->super);
    CHECK(instance.globals.opt_prof == (uint64_t)(uintptr_t)&program->opt_prof);
    CHECK(strcmp(instance.version, "5.3.0-0-gabc") == 0);
    CHECK(strcmp(instance.prefix, "_rjem_") == 0);
    CHECK(!stripped_find(&instance, &module, &own.target, &own.memory, 1, &why) && !why);
}

/* malloc_stats_print, inlined into the handler that runs at exit: two functions make the report. */
static void test_inlined_report(void)
{
    struct instance instance;
    const char *why;

    program_make(program);
    program_put(program->code[140], "\xe8", 1, function(F_REPORT));
    CHECK(find(&instance, &why) && instance.stats_print == 0);
    program_put(program->code[F_MALLOC] + 32, "\x48\x8d\x3d", 3, function(140));
    CHECK(find(&instance, &why) && instance.stats_print == function(F_STATS_PRINT));
}

/* Without these there is no jemalloc at all. */
static void test_no_tables(void)
{
    struct instance instance;
    const char *why;
    unsigned char *const spoilt[] = {
        (unsigned char *)&program->prof[0].named,
        (unsigned char *)&program->prof[0].name,
        (unsigned char *)&program->prof[0].function + 5,
        (unsigned char *)&program->root[4].name,
        (unsigned char *)&program->root[4].children,
        (unsigned char *)&program->root[4].count,
        (unsigned char *)&program->root[0].named,
        (unsigned char *)&program->super.children,
        (unsigned char *)&program->super.name + 5,
        (unsigned char *)&program->super.named,
        (unsigned char *)&program->config[0].name,
        (unsigned char *)&program->opt[0].function + 5,
    };

    for (size_t i = 0; i < ARRAY_LEN(spoilt); i++) {
        program_make(program);
        *spoilt[i] ^= 0x82;
        if (!CHECK(!find(&instance, &why) && !why))
            fprintf(stderr, "spoilt %zu\n", i);
    }
}

static bool refused(const char *part)
{
    struct instance instance;
    const char *why;
    bool is = !find(&instance, &why) && why && strstr(why, part);

    if (!is)
        fprintf(stderr, "%s, not %s\n", why ? why : "no reason", part);
    return is;
}

/* The tables are present, another sign is not. */
static void test_refused(void)
{
    program_make(program);
    program->phdrs[4].p_type = PT_NULL;
    CHECK(refused(".eh_frame"));
    program_make(program);
    program->cie.body[8] = 0x50; /* an encoding that nobody uses: aligned */
    CHECK(refused(".eh_frame"));
    program_make(program);
    program->fdes[7].length = 2;
    CHECK(refused(".eh_frame"));
    program_make(program);
    memset(program->code[F_CTL], 0x90, FUNCTION_SIZE);
    CHECK(refused("version"));
    program_make(program);
    memset(program->code[F_BYNAME], 0x90, FUNCTION_SIZE); /* mallctl leads nowhere */
    CHECK(refused("no function is called"));
    program_make(program);
    for (unsigned i = 0; i < 9; i++) /* too few */
        memset(program->code[F_CTL + 20 + i] + 16, 0x90, 16);
    CHECK(refused("no function is called"));
    program_make(program);
    for (unsigned i = 0; i < 9; i++) { /* as many votes for another that leads there */
        unsigned char *at = program->code[F_CTL + 40 + i] + 16;
        program_call_option(program, &at, program_common, F_NAMETOMIB);
    }
    CHECK(refused("two functions"));
}

static fault_code forbid(struct plan *plan, struct fault *fault)
{
    struct instance instance = {.module = module, .mallctl = function(F_MALLCTL)};

    memory_forget(&own.memory);
    memset(plan, 0, sizeof *plan);
    fault_code rc = stripped_forbid(&instance, plan, &own.target, &own.memory, fault);
    plan_seal(plan);
    return rc;
}

static bool forbids(const struct plan *plan, uint64_t addr)
{
    return ranges_find(&plan->forbidden, addr) != NULL;
}

static void test_forbidden(void)
{
    struct fault fault;
    struct plan plan;
    unsigned missed = 0;

    program_make(program);
    if (!CHECK(forbid(&plan, &fault) == FAULT_NONE))
        fprintf(stderr, "%s\n", fault.what);
    CHECK(!forbids(&plan, function(F_PROGRAM)));
    for (unsigned i = F_MALLOC; i < F_CTL + 124; i++)
        missed += !forbids(&plan, function(i) + 5);
    CHECK(missed == 0);
    CHECK(!forbids(&plan, function(F_COLD))); /* jumped to, but alone: it only looks like it */
    plan_free(&plan);
    program_put(program->code[F_MALLCTL] + 16, "\xe9", 1, function(F_COLD - 1) + 8);
    CHECK(forbid(&plan, &fault) == FAULT_NONE);
    CHECK(forbids(&plan, function(F_COLD)) && forbids(&plan, function(F_COLD - 1)));
    plan_free(&plan);
    /* The same function called by the program: bytes that only look like a jump into it. */
    program_put(program->code[F_PROGRAM] + 16, "\xe8", 1, function(F_COLD));
    CHECK(forbid(&plan, &fault) == FAULT_NONE);
    CHECK(!forbids(&plan, function(F_COLD)));
    plan_free(&plan);
    /* A tail call of a function that the program calls too: unless it makes a system call. */
    program_put(program->code[F_MALLOC] + 32, "\xe9", 1, function(F_COLD));
    CHECK(forbid(&plan, &fault) == FAULT_NONE);
    CHECK(forbids(&plan, function(F_COLD)));
    plan_free(&plan);
    memcpy(program->code[F_COLD] + 30, "\x0f\x05", 2);
    CHECK(forbid(&plan, &fault) == FAULT_NONE);
    CHECK(!forbids(&plan, function(F_COLD)));
    plan_free(&plan);
}

static void test_not_forbidden(void)
{
    struct fault fault;
    struct plan plan;

    program_make(program);
    program->root[7].count = 50; /* half of the functions: too few to be jemalloc */
    memset(program->code[F_CTL + 60], 0x90, sizeof program->code - (F_CTL + 60) * FUNCTION_SIZE);
    CHECK(forbid(&plan, &fault) == FAULT_UNSUPPORTED && strstr(fault.what, "too few"));
    plan_free(&plan);
    program_make(program);
    program->header.e_entry = function(F_CTL + 30) - (uint64_t)(uintptr_t)program + 60;
    CHECK(forbid(&plan, &fault) == FAULT_UNSUPPORTED);
    plan_free(&plan);
    program_make(program);
    program->phdrs[4].p_type = PT_NULL;
    CHECK(forbid(&plan, &fault) == FAULT_UNSUPPORTED && strstr(fault.what, ".eh_frame"));
    plan_free(&plan);
    program_make(program);
    program->super.named = 0;
    CHECK(forbid(&plan, &fault) == FAULT_UNSUPPORTED && strstr(fault.what, "tables"));
    plan_free(&plan);
}

static void test_frames(void)
{
    struct eh_frames frames;

    program_make(program);
    program->fdes[3].start += 1 << 20; /* dropped by the linker */
    program->fdes[5].start = program->fdes[6].start + (int32_t)sizeof program->fdes[6]; /* twice */
    memory_forget(&own.memory);
    CHECK(view_open(&view, &module, &own.target, &own.memory));
    CHECK(eh_frames_load(&frames, &view));
    CHECK(frames.count == PROGRAM_FUNCTIONS - 2);
    CHECK(eh_frames_at(&frames, function(0)) == 0);
    CHECK(eh_frames_at(&frames, function(0) + FUNCTION_SIZE - 9) == 0);
    CHECK(eh_frames_at(&frames, function(0) + FUNCTION_SIZE - 8) == SIZE_MAX);
    CHECK(eh_frames_at(&frames, function(0) - 1) == SIZE_MAX);
    CHECK(eh_frames_at(&frames, function(3)) == SIZE_MAX);
    CHECK(eh_frames_begin_at(&frames, function(2)) &&
          !eh_frames_begin_at(&frames, function(2) + 1));
    CHECK(eh_frames_from(&frames, UINT64_MAX) == frames.count);
    eh_frames_free(&frames);
    view_close(&view);
}

/* The seed of the fuzz target. */
static int write_seed(const char *path)
{
    FILE *out = fopen(path, "w");

    program_make(program);
    return !out || fwrite(program, sizeof *program, 1, out) != 1 || fclose(out);
}

int main(int argc, char **argv)
{
    if (!CHECK(own_open(&own)) ||
        !CHECK(mmap(program, sizeof *program, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == program))
        return 1;
    if (argc == 2)
        return write_seed(argv[1]);
    module = (struct module){.path = (char *)"program",
                             .start = (uint64_t)(uintptr_t)program,
                             .end = (uint64_t)(uintptr_t)(program + 1),
                             .exec_start = function(0),
                             .exec_end = (uint64_t)(uintptr_t)&program->super};
    test_found();
    test_inlined_report();
    test_no_tables();
    test_refused();
    test_forbidden();
    test_not_forbidden();
    test_frames();
    own_close(&own);
    return check_result();
}
