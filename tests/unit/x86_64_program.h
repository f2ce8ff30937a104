/*
 * The smallest program with jemalloc linked in and no symbols: constants, call frame information,
 * code and tables at a fixed address of the test's own memory, which a test may damage.
 */
#pragma once

#include <elf.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

enum {
    PROGRAM_FUNCTIONS = 160, /* of 64 bytes each */
    FUNCTION_SIZE = 64,
    /* Indices of functions; those of the tables follow. */
    F_PROGRAM = 0, /* the program's own, calls malloc */
    F_MALLOC,      /* uses opt_prof, jumps to its split-off part */
    F_MALLCTL,
    F_BYNAME,
    F_REPORT, /* has the headline, and calls mallctl with the options */
    F_STATS_PRINT,
    F_NAMETOMIB, /* leads to the tables too, and is called with some options */
    F_CTL,       /* the first function of the tables */
    F_COLD = PROGRAM_FUNCTIONS - 1,
    PROGRAM_OPTIONS = 12,
};

struct program_node {
    uint64_t named, name, count, children, function;
};

struct program {
    Elf64_Ehdr header;
    Elf64_Phdr phdrs[6];
    char strings[2048];
    struct {
        unsigned char version, pointer, count, table;
        int32_t start;
    } frames_header;
    struct {
        uint32_t length, id;
        unsigned char body[16];
    } cie;
    struct {
        uint32_t length, back;
        int32_t start;
        uint32_t size;
        unsigned char rest[4];
    } fdes[PROGRAM_FUNCTIONS];
    uint32_t end;
    _Alignas(4096) unsigned char code[PROGRAM_FUNCTIONS][FUNCTION_SIZE];
    _Alignas(4096) struct program_node super, root[8], config[2], opt[PROGRAM_OPTIONS + 1], prof[6],
        arenas[1], thread[1], filler[100];
    _Alignas(4096) unsigned char opt_prof; /* only jemalloc's variables are here */
    unsigned char other[63];
};

static size_t program_strings_used;
static unsigned program_functions_used;
static uint64_t program_common; /* an option that many functions read */

static inline uint64_t program_text(struct program *program, const char *text)
{
    char *at = program->strings + program_strings_used;

    program_strings_used += strlen(text) + 1;
    return (uint64_t)(uintptr_t)strcpy(at, text);
}

/* An instruction with a 32-bit displacement; returns the offset of the next one. */
static inline unsigned char *program_put(unsigned char *at, const char *opcode, size_t len,
                                         uint64_t target)
{
    memcpy(at, opcode, len);
    int32_t disp = (int32_t)(target - ((uint64_t)(uintptr_t)at + len + 4));
    memcpy(at + len, &disp, sizeof disp);
    return at + len + 4;
}

static inline void program_call_option(struct program *program, unsigned char **at, uint64_t text,
                                       unsigned function)
{
    *at = program_put(*at, "\x48\x8d\x3d", 3, text);
    *at = program_put(*at, "\xe8", 1, (uint64_t)(uintptr_t)program->code[function]);
}

static inline struct program_node program_leaf(struct program *program, const char *name)
{
    unsigned function = program_functions_used++;

    program_put(program->code[function], "\x0f\xb6\x05", 3,
                (uint64_t)(uintptr_t)&program->opt_prof);
    return (struct program_node){1, program_text(program, name), 0, 0,
                                 (uint64_t)(uintptr_t)program->code[function]};
}

static inline struct program_node program_parent(struct program *program, const char *name,
                                                 const struct program_node *children, size_t count)
{
    return (struct program_node){1, program_text(program, name), count,
                                 (uint64_t)(uintptr_t)children, 0};
}

static inline void program_make_tables(struct program *program)
{
    static const char *const names[PROGRAM_OPTIONS] = {"abort",
                                                       "narenas",
                                                       "retain",
                                                       "dss",
                                                       "thp",
                                                       "zero",
                                                       "junk",
                                                       "xmalloc",
                                                       "tcache",
                                                       "utrace",
                                                       "experimental_hpa_start_huge_if_thp_always",
                                                       "stats_print"};
    char name[48];

    program->root[0] = program_leaf(program, "version");
    program->root[1] = program_leaf(program, "epoch");
    program->prof[0] = program_leaf(program, "thread_active_init");
    program->prof[1] = program_leaf(program, "active");
    program->prof[2] = program_leaf(program, "dump");
    program->prof[3] = program_leaf(program, "gdump");
    program->prof[4] = program_leaf(program, "reset");
    program->prof[5] = program_leaf(program, "lg_sample");
    program->config[0] = program_leaf(program, "prof");
    program->config[1] = program_leaf(program, "stats");
    for (unsigned i = 0; i < PROGRAM_OPTIONS; i++)
        program->opt[i] = program_leaf(program, names[i]);
    program->opt[PROGRAM_OPTIONS] = program_leaf(program, "prof");
    program->arenas[0] = program_leaf(program, "narenas");
    program->thread[0] = program_leaf(program, "arena");
    for (unsigned i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "f%u", i);
        program->filler[i] = program_leaf(program, name);
    }
    program->root[2] = program_parent(program, "config", program->config, 2);
    program->root[3] = program_parent(program, "opt", program->opt, PROGRAM_OPTIONS + 1);
    program->root[4] = program_parent(program, "prof", program->prof, 6);
    program->root[5] = program_parent(program, "arenas", program->arenas, 1);
    program->root[6] = program_parent(program, "thread", program->thread, 1);
    program->root[7] = program_parent(program, "stats", program->filler, 100);
    program->super = program_parent(program, "", program->root, 8);
}

static inline void program_make_code(struct program *program)
{
    static const char *const options[] = {"opt.abort", "opt.narenas", "opt.retain"};
    unsigned char(*code)[FUNCTION_SIZE] = program->code;
    uint64_t headline = program_text(program, "___ Begin jemalloc statistics ___");
    uint64_t version = program_text(program, "5.3.0-0-gabc");
    unsigned char *at = code[F_REPORT];

    program_text(program, "/etc/_rjem_malloc.conf");
    program_put(code[F_PROGRAM], "\xe8", 1, (uint64_t)(uintptr_t)code[F_MALLOC]);
    program_put(
        program_put(code[F_MALLOC], "\x0f\xb6\x05", 3, (uint64_t)(uintptr_t)&program->opt_prof),
        "\x0f\x84", 2, (uint64_t)(uintptr_t)code[F_COLD] + 8);
    program_put(code[F_MALLCTL], "\xe8", 1, (uint64_t)(uintptr_t)code[F_BYNAME]);
    program_put(code[F_NAMETOMIB], "\xe8", 1, (uint64_t)(uintptr_t)code[F_BYNAME]);
    program_put(code[F_BYNAME], "\x48\x8d\x05", 3, (uint64_t)(uintptr_t)&program->super);
    program_put(code[F_STATS_PRINT], "\xe8", 1, (uint64_t)(uintptr_t)code[F_REPORT]);
    /* The report is as long as the functions of the tables that nothing else reads. */
    at = program_put(at, "\x48\x8d\x35", 3, headline);
    for (unsigned i = 0; i < 3; i++)
        program_call_option(program, &at, program_text(program, options[i]), F_MALLCTL);
    /* 9 more from other functions. */
    for (unsigned i = 0; i < 9; i++) {
        at = code[F_CTL + 20 + i] + 16;
        program_call_option(program, &at, program_common, F_MALLCTL);
    }
    program_put(code[F_CTL], "\x48\x8d\x15", 3, version);
}

static inline void program_make_frames(struct program *program)
{
    static const unsigned char body[16] = {1, 'z',  'R',  0, 1, 0x78, 16,
                                           1, 0x1b, 0x0c, 7, 8, 0x90, 1};

    program->frames_header.version = 1;
    program->frames_header.pointer = 0x1b;
    program->frames_header.start =
        (int32_t)((char *)&program->cie - (char *)&program->frames_header.start);
    program->cie.length = sizeof program->cie - 4;
    memcpy(program->cie.body, body, sizeof body);
    for (unsigned i = 0; i < PROGRAM_FUNCTIONS; i++) {
        program->fdes[i].length = sizeof program->fdes[i] - 4;
        program->fdes[i].back = (uint32_t)((char *)&program->fdes[i].back - (char *)&program->cie);
        program->fdes[i].start =
            (int32_t)((char *)program->code[i] - (char *)&program->fdes[i].start);
        program->fdes[i].size = FUNCTION_SIZE - 8;
    }
}

static inline Elf64_Phdr program_segment(uint32_t type, uint32_t flags, size_t start, size_t end)
{
    return (Elf64_Phdr){.p_type = type,
                        .p_flags = flags,
                        .p_offset = start,
                        .p_vaddr = start,
                        .p_filesz = end - start,
                        .p_memsz = end - start};
}

static inline void program_make_header(struct program *program)
{
    const size_t code = offsetof(struct program, code), data = offsetof(struct program, super),
                 variables = offsetof(struct program, opt_prof);

    program->header = (Elf64_Ehdr){.e_type = ET_DYN,
                                   .e_phoff = offsetof(struct program, phdrs),
                                   .e_phentsize = sizeof(Elf64_Phdr),
                                   .e_phnum = 6,
                                   .e_entry = code};
    program->header.e_machine =
        ((const Elf64_Ehdr *)(uintptr_t)getauxval(AT_SYSINFO_EHDR))->e_machine;
    memcpy(program->header.e_ident, ELFMAG, SELFMAG);
    program->header.e_ident[EI_CLASS] = ELFCLASS64;
    program->header.e_ident[EI_DATA] = ELFDATA2LSB;
    program->phdrs[0] = program_segment(PT_LOAD, PF_R, 0, code);
    program->phdrs[1] = program_segment(PT_LOAD, PF_R | PF_X, code, data);
    program->phdrs[2] = program_segment(PT_LOAD, PF_R | PF_W, data, sizeof *program);
    program->phdrs[3] = program_segment(PT_GNU_RELRO, PF_R, data, variables);
    program->phdrs[4] =
        program_segment(PT_GNU_EH_FRAME, PF_R, offsetof(struct program, frames_header),
                        offsetof(struct program, cie));
    program->phdrs[5] = program_segment(PT_NULL, 0, 0, 0);
}

/* At its address, which its pointers require. */
static inline void program_make(struct program *program)
{
    memset(program, 0, sizeof *program);
    memset(program->code, 0x90, sizeof program->code);
    program_strings_used = 1;
    program_functions_used = F_CTL;
    program_make_header(program);
    program_make_frames(program);
    program_common = program_text(program, "opt.stats_print");
    program_make_tables(program);
    program_make_code(program);
}
