/* A small ELF object, with a linker's layout, which a test may damage. */
#pragma once

#include <elf.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>

enum { OBJECT_SYMBOLS = 8, OBJECT_BUCKETS = 3 };

/* The names at these indices; object_symbols has their kinds. */
enum { ALPHA = 1, BETA, GAMMA, NOTYPE, DATA, MISSING, LAST };

struct object {
    Elf64_Ehdr header;
    Elf64_Phdr phdrs[4]; /* PT_LOAD, PT_LOAD, PT_DYNAMIC, PT_NOTE */
    Elf64_Dyn dynamic[8];
    Elf64_Sym symbols[OBJECT_SYMBOLS];
    char strings[96];
    struct {
        uint32_t buckets, first, bloom_words, bloom_shift;
        uint64_t bloom[1];
        uint32_t bucket[1], chain[OBJECT_SYMBOLS - 1]; /* of the symbols from the first on */
    } gnu;
    struct {
        uint32_t buckets, chains;
        uint32_t bucket[OBJECT_BUCKETS], chain[OBJECT_SYMBOLS];
    } sysv;
    struct {
        Elf64_Nhdr other;
        char other_name[4];
        unsigned char other_desc[4];
        Elf64_Nhdr id;
        char id_name[4];
        unsigned char id_desc[20];
    } notes;
};

static const struct {
    const char *name;
    unsigned char type;
    uint16_t section;
} object_symbols[OBJECT_SYMBOLS] = {
    {"", 0, 0},
    [ALPHA] = {"alpha", STT_FUNC, 1},
    [BETA] = {"beta_alpha", STT_FUNC, 1},
    [GAMMA] = {"gamma", STT_FUNC, 1},
    [NOTYPE] = {"label_alpha", STT_NOTYPE, 1},
    [DATA] = {"data_alpha", STT_OBJECT, 2},
    [MISSING] = {"undefined_alpha", STT_FUNC, SHN_UNDEF},
    [LAST] = {"last", STT_FUNC, 1},
};

/* The hash of .gnu.hash: that of Daniel J. Bernstein; of .hash: ELF, "Hash Table". */
static inline uint32_t object_gnu_hash(const char *name)
{
    uint32_t hash = 5381;

    while (*name)
        hash = (hash << 5) + hash + (unsigned char)*name++;
    return hash;
}

static inline uint32_t object_sysv_hash(const char *name)
{
    uint32_t hash = 0;

    while (*name) {
        hash = (hash << 4) + (unsigned char)*name++;
        uint32_t high = hash & 0xf0000000;
        hash ^= high >> 24;
        hash &= ~high;
    }
    return hash;
}

static inline uint64_t object_value(unsigned index)
{
    return 0x1000 + 0x10ull * index;
}

static inline void object_make_symbols(struct object *object)
{
    size_t at = 1;

    for (unsigned i = 1; i < OBJECT_SYMBOLS; i++) {
        Elf64_Sym *symbol = &object->symbols[i];
        symbol->st_name = (Elf64_Word)at;
        symbol->st_info = ELF64_ST_INFO(STB_GLOBAL, object_symbols[i].type);
        symbol->st_shndx = object_symbols[i].section;
        symbol->st_value = object_value(i);
        symbol->st_size = i + 1;
        strcpy(object->strings + at, object_symbols[i].name);
        at += strlen(object_symbols[i].name) + 1;
    }
}

/* One bucket holds all symbols, so that its chain is walked to the end. */
static inline void object_make_gnu(struct object *object)
{
    object->gnu.buckets = 1;
    object->gnu.first = 1;
    object->gnu.bloom_words = 1;
    object->gnu.bloom_shift = 6;
    object->gnu.bucket[0] = 1;
    for (unsigned i = 1; i < OBJECT_SYMBOLS; i++) {
        uint32_t hash = object_gnu_hash(object_symbols[i].name);
        object->gnu.bloom[0] |= 1ull << hash % 64 | 1ull << (hash >> 6) % 64;
        object->gnu.chain[i - 1] = hash & ~1u;
    }
    object->gnu.chain[OBJECT_SYMBOLS - 2] |= 1;
}

static inline void object_make_sysv(struct object *object)
{
    object->sysv.buckets = OBJECT_BUCKETS;
    object->sysv.chains = OBJECT_SYMBOLS;
    for (unsigned i = 1; i < OBJECT_SYMBOLS; i++) {
        uint32_t *bucket =
            &object->sysv.bucket[object_sysv_hash(object_symbols[i].name) % OBJECT_BUCKETS];
        object->sysv.chain[i] = *bucket;
        *bucket = i;
    }
}

static inline void object_make_notes(struct object *object)
{
    object->notes.other = (Elf64_Nhdr){4, 3, NT_GNU_ABI_TAG}; /* padded to 4 */
    memcpy(object->notes.other_name, "GNU", 4);
    object->notes.id = (Elf64_Nhdr){4, sizeof object->notes.id_desc, NT_GNU_BUILD_ID};
    memcpy(object->notes.id_name, "GNU", 4);
    for (unsigned i = 0; i < sizeof object->notes.id_desc; i++)
        object->notes.id_desc[i] = (unsigned char)(i * 11 + 1);
}

static inline void object_phdr(struct object *object, unsigned index, uint32_t type, size_t offset,
                               size_t size)
{
    object->phdrs[index] = (Elf64_Phdr){
        .p_type = type, .p_offset = offset, .p_vaddr = offset, .p_filesz = size, .p_memsz = size};
}

/* The machine of the vdso, and so of the test itself. */
static inline uint16_t object_machine(void)
{
    return ((const Elf64_Ehdr *)(uintptr_t)getauxval(AT_SYSINFO_EHDR))->e_machine;
}

static inline void object_make_headers(struct object *object)
{
    object->header = (Elf64_Ehdr){.e_type = ET_DYN,
                                  .e_machine = object_machine(),
                                  .e_version = EV_CURRENT,
                                  .e_phoff = offsetof(struct object, phdrs),
                                  .e_phentsize = sizeof(Elf64_Phdr),
                                  .e_phnum = 4};
    memcpy(object->header.e_ident, ELFMAG, SELFMAG);
    object->header.e_ident[EI_CLASS] = ELFCLASS64;
    object->header.e_ident[EI_DATA] = ELFDATA2LSB;
    object->header.e_ident[EI_VERSION] = EV_CURRENT;
    object_phdr(object, 0, PT_LOAD, 0, sizeof *object);
    object_phdr(object, 1, PT_LOAD, 0x1000, 0x1000);
    object_phdr(object, 2, PT_DYNAMIC, offsetof(struct object, dynamic), sizeof object->dynamic);
    object_phdr(object, 3, PT_NOTE, offsetof(struct object, notes), sizeof object->notes);
}

/* The entries of the dynamic section, each plus bias: 0 as in the file, otherwise as the loader
   sets them. */
static inline void object_make_dynamic(struct object *object, uint64_t bias)
{
    const Elf64_Dyn dynamic[] = {
        {DT_SYMTAB, {bias + offsetof(struct object, symbols)}},
        {DT_STRTAB, {bias + offsetof(struct object, strings)}},
        {DT_STRSZ, {sizeof object->strings}},
        {DT_GNU_HASH, {bias + offsetof(struct object, gnu)}},
        {DT_HASH, {bias + offsetof(struct object, sysv)}},
        {DT_NULL, {0}},
    };

    memset(object->dynamic, 0, sizeof object->dynamic);
    memcpy(object->dynamic, dynamic, sizeof dynamic);
}

static inline void object_make(struct object *object, uint64_t bias)
{
    memset(object, 0, sizeof *object);
    object_make_headers(object);
    object_make_dynamic(object, bias);
    object_make_symbols(object);
    object_make_gnu(object);
    object_make_sysv(object);
    object_make_notes(object);
}
