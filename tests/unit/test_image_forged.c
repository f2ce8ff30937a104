/* ELF objects in memory that no linker made: nothing in them is trusted. */
#include "check.h"
#include "elf_object.h"
#include "guard.h"
#include "own.h"

#include <limits.h>

static struct own own;
static struct guard guard;
static struct object *object; /* at the begin of the guarded pages */

static remote_addr base(void)
{
    return (remote_addr)(uintptr_t)guard.base;
}

static bool open_image(struct image *image)
{
    memory_forget(&own.memory);
    return image_open(image, &own.memory, base());
}

static bool lookup(const char *name, struct symbol *out)
{
    struct image image;

    return open_image(&image) && image_symbol(&image, name, out);
}

static bool found(unsigned index)
{
    struct symbol symbol;

    return lookup(object_symbols[index].name, &symbol) &&
           symbol.address == base() + object_value(index) && symbol.size == index + 1 &&
           symbol.type == object_symbols[index].type;
}

static bool found_all(void)
{
    struct symbol symbol;

    for (unsigned i = ALPHA; i < OBJECT_SYMBOLS; i++)
        if (found(i) == (i == MISSING))
            return false;
    return !lookup(object_symbols[MISSING].name, &symbol) && !lookup("alph", &symbol) &&
           !lookup("alphas", &symbol) && !lookup("", &symbol) && !lookup("zeta", &symbol);
}

static void use_sysv(void)
{
    object->dynamic[3].d_tag = DT_DEBUG;
}

static void test_both_tables(void)
{
    object_make(object, 0);
    CHECK(found_all());
    use_sysv();
    CHECK(found_all());
    object_make(object, base()); /* as glibc leaves the dynamic section */
    CHECK(found_all());
    use_sysv();
    CHECK(found_all());
    object->dynamic[4].d_tag = DT_DEBUG;
    CHECK(!found(ALPHA)); /* no hash table at all */
}

static void test_headers(void)
{
    static const struct {
        size_t offset, size;
        uint64_t value;
    } rows[] = {
        {EI_MAG0, 1, 0x7e},
        {EI_MAG3, 1, 'f'},
        {EI_CLASS, 1, ELFCLASS32},
        {EI_CLASS, 1, 0},
        {EI_DATA, 1, ELFDATA2MSB},
        {offsetof(Elf64_Ehdr, e_phentsize), 2, 55},
        {offsetof(Elf64_Ehdr, e_phentsize), 2, 0},
        {offsetof(Elf64_Ehdr, e_phnum), 2, 0},
        {offsetof(Elf64_Ehdr, e_phnum), 2, IMAGE_PHDRS_MAX + 1},
        {offsetof(Elf64_Ehdr, e_phnum), 2, 0xffff},
        {offsetof(Elf64_Ehdr, e_phoff), 8, UINT64_MAX - 100},
        {offsetof(Elf64_Ehdr, e_phoff), 8, 4 * GUARD_PAGE - 64},
        {offsetof(Elf64_Ehdr, e_phoff), 8, 4 * GUARD_PAGE},
    };
    struct image image;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        object_make(object, 0);
        memcpy((char *)object + rows[i].offset, &rows[i].value, rows[i].size);
        CHECK(!open_image(&image));
    }
    object_make(object, 0);
    object->phdrs[0].p_type = object->phdrs[1].p_type = PT_NULL;
    CHECK(!open_image(&image));
}

/* "of this machine": another machine's library can be mapped as a file. */
static void test_machine(void)
{
    struct image image;

    object_make(object, 0);
    object->header.e_machine ^= EM_AARCH64;
    CHECK(!open_image(&image));
    object->header.e_machine = EM_NONE;
    CHECK(!open_image(&image));
}

/* The bias is that of the first segment, wherever it was linked to. */
static void test_bias(void)
{
    struct symbol symbol;
    struct image image;

    object_make(object, 0);
    for (unsigned i = 0; i < 4; i++)
        object->phdrs[i].p_vaddr += 0x400000;
    CHECK(open_image(&image) && image.bias == base() - 0x400000);
    CHECK(!image_symbol(&image, "alpha", &symbol)); /* its tables are elsewhere */
    object_make_dynamic(object, 0x400000);
    CHECK(open_image(&image) && image_symbol(&image, "alpha", &symbol));
    CHECK(symbol.address == base() - 0x400000 + object_value(ALPHA));
    object->phdrs[0].p_type = PT_NULL;
    object->phdrs[1].p_vaddr = 0x2000;
    CHECK(open_image(&image) && image.bias == base() - 0x1000);
}

static void test_dynamic(void)
{
    object_make(object, 0);
    object->phdrs[2].p_type = PT_NULL;
    CHECK(!found(ALPHA));
    object_make(object, 0);
    object->phdrs[2].p_vaddr = 0x7fff00000000;
    CHECK(!found(ALPHA));
    object_make(object, 0);
    object->phdrs[2].p_memsz = 4 * sizeof(Elf64_Dyn); /* ends before DT_HASH, without DT_NULL */
    CHECK(found(ALPHA));
    object->phdrs[2].p_memsz = UINT64_MAX;
    CHECK(found(ALPHA));
    object->dynamic[0].d_tag = DT_NULL;
    CHECK(!found(ALPHA));
    object_make(object, 0);
    object->dynamic[1].d_tag = DT_DEBUG;
    CHECK(!found(ALPHA));
}

/* A name that the bloom filter excludes is not found (the rule of .gnu.hash). */
static void test_bloom(void)
{
    uint32_t hash = object_gnu_hash("alpha");

    object_make(object, 0);
    object->gnu.bloom[0] = 0;
    CHECK(!found(ALPHA));
    object->gnu.bloom[0] = 1ull << hash % 64;
    CHECK(!found(ALPHA));
    object->gnu.bloom[0] = 1ull << (hash >> 6) % 64;
    CHECK(!found(ALPHA));
    object->gnu.bloom[0] |= 1ull << hash % 64;
    CHECK(found(ALPHA));
    object->gnu.bloom_words = 0;
    CHECK(!found(ALPHA));
    object->gnu.bloom_words = UINT32_MAX;
    CHECK(!found(ALPHA));
    object_make(object, 0);
    object->gnu.bloom_shift = 38; /* as 6: the shift is that of 32 bits */
    CHECK(found(ALPHA));
}

static void test_gnu_table(void)
{
    object_make(object, 0);
    object->gnu.buckets = 0;
    CHECK(!found(ALPHA));
    object->gnu.buckets = UINT32_MAX;
    CHECK(!found(GAMMA));
    object_make(object, 0);
    object->gnu.bucket[0] = 0;
    CHECK(!found(ALPHA));
    object->gnu.bucket[0] = 2; /* the chain begins behind alpha */
    CHECK(!found(ALPHA) && found(BETA));
    object->gnu.bucket[0] = UINT32_MAX;
    CHECK(!found(BETA));
    object_make(object, 0);
    object->gnu.chain[0] |= 1; /* the chain ends with alpha */
    CHECK(found(ALPHA) && !found(BETA));
    object_make(object, 0);
    object->gnu.chain[GAMMA - 1] ^= 2; /* another hash */
    CHECK(!found(GAMMA) && found(DATA));
}

/* An endless chain runs into unmapped memory. */
static void test_endless_chain(void)
{
    struct symbol symbol;

    object_make(object, 0);
    object->gnu.chain[OBJECT_SYMBOLS - 2] &= ~1u;
    memset(object + 1, 0x42, guard.size - sizeof *object);
    CHECK(found(ALPHA) && found(DATA) && !lookup("undefined_alpha", &symbol));
}

static void test_sysv_table(void)
{
    object_make(object, 0);
    use_sysv();
    object->sysv.buckets = 0;
    CHECK(!found(ALPHA));
    object->sysv.buckets = UINT32_MAX;
    CHECK(!found(ALPHA));
    object_make(object, 0);
    use_sysv();
    object->sysv.chains = ALPHA; /* alpha's index is beyond */
    CHECK(!found(ALPHA));
    object->sysv.chains = ALPHA + 1;
    for (unsigned i = 0; i < OBJECT_BUCKETS; i++)
        object->sysv.bucket[i] = ALPHA;
    CHECK(found(ALPHA));
    object->sysv.chain[ALPHA] = ALPHA; /* a circle */
    CHECK(found(ALPHA) && !found(BETA));
}

static void test_names(void)
{
    object_make(object, 0);
    object->symbols[BETA].st_name = sizeof object->strings;
    CHECK(!found(BETA) && found(ALPHA));
    object->symbols[BETA].st_name = UINT32_MAX;
    CHECK(!found(BETA));
    object_make(object, 0);
    object->dynamic[2].d_un.d_val = object->symbols[BETA].st_name;
    CHECK(found(ALPHA) && !found(BETA) && !found(GAMMA));
    object_make(object, 0);
    object->dynamic[1].d_un.d_ptr = guard.size - 3; /* strings end before the end of alpha's name */
    CHECK(!found(ALPHA));
}

static void test_symbols_unreadable(void)
{
    object_make(object, 0);
    object->dynamic[0].d_un.d_ptr = guard.size;
    CHECK(!found(ALPHA));
    object->dynamic[0].d_un.d_ptr = UINT64_MAX - 10;
    CHECK(!found(ALPHA));
}

struct versions {
    size_t count, limit;
    remote_addr sum;
};

static bool count_version(void *ctx, const char *name, const struct symbol *symbol)
{
    struct versions *versions = ctx;

    CHECK(strcmp(name, "alpha") == 0);
    versions->sum += symbol->address - base();
    return ++versions->count < versions->limit;
}

static struct versions named_alpha(size_t limit)
{
    struct versions versions = {.limit = limit};
    struct image image;

    if (CHECK(open_image(&image)))
        image_symbols_named(&image, "alpha", count_version, &versions);
    return versions;
}

/* Two definitions of one name, as of two versions of it. */
static void test_versions(void)
{
    object_make(object, 0);
    CHECK(named_alpha(9).count == 1);
    object->symbols[GAMMA].st_name = object->symbols[ALPHA].st_name;
    object->gnu.chain[GAMMA - 1] = object_gnu_hash("alpha") & ~1u;
    CHECK(named_alpha(9).count == 2);
    CHECK(named_alpha(9).sum == object_value(ALPHA) + object_value(GAMMA));
    CHECK(named_alpha(1).count == 1 && named_alpha(1).sum == object_value(ALPHA));
    use_sysv();
    for (unsigned i = 0; i < OBJECT_BUCKETS; i++)
        object->sysv.bucket[i] = ALPHA;
    object->sysv.chain[ALPHA] = GAMMA;
    object->sysv.chain[GAMMA] = 0;
    CHECK(named_alpha(9).count == 2);
}

static bool is_static_program(void)
{
    struct image image;

    return open_image(&image) && image_is_static_program(&image);
}

static void test_static_program(void)
{
    object_make(object, 0);
    object->header.e_type = ET_DYN;
    CHECK(!is_static_program()); /* a library */
    object->header.e_type = ET_EXEC;
    CHECK(is_static_program());
    object->phdrs[3].p_type = PT_INTERP;
    CHECK(!is_static_program());
    object_make(object, 0);
    object->header.e_type = ET_DYN;
    object->dynamic[3] = (Elf64_Dyn){.d_tag = DT_FLAGS_1, .d_un.d_val = DF_1_NOW};
    CHECK(!is_static_program());
    object->dynamic[3].d_un.d_val |= DF_1_PIE;
    CHECK(is_static_program());
    object->dynamic[4].d_tag = DT_NEEDED;
    CHECK(!is_static_program());
}

struct visit {
    size_t count, limit;
    unsigned long indices;
};

static bool visit_one(void *ctx, const char *name, const struct symbol *symbol)
{
    struct visit *visit = ctx;

    visit->count++;
    for (unsigned i = 1; i < OBJECT_SYMBOLS; i++)
        if (strcmp(name, object_symbols[i].name) == 0 &&
            symbol->address == base() + object_value(i) && symbol->size == i + 1)
            visit->indices |= 1ul << i;
    return visit->count < visit->limit;
}

/* The symbols whose name ends in suffix, as bits; ULONG_MAX if one was unknown. */
static unsigned long ending(const char *suffix, size_t limit)
{
    struct visit visit = {0, limit, 0};
    struct image image;

    if (!open_image(&image))
        return ULONG_MAX;
    image_symbols_ending(&image, suffix, visit_one, &visit);
    return visit.count == (size_t)__builtin_popcountl(visit.indices) ? visit.indices : ULONG_MAX;
}

static void test_ending(void)
{
    const unsigned long all = 1 << ALPHA | 1 << BETA | 1 << NOTYPE;

    object_make(object, 0);
    for (unsigned i = 0; i < 2; i++) {
        CHECK(ending("alpha", SIZE_MAX) == all);
        CHECK(ending("alpha", 1) == 1 << ALPHA);
        CHECK(ending("alpha", 2) == (1 << ALPHA | 1 << BETA));
        CHECK(ending("gamma", SIZE_MAX) == 1 << GAMMA);
        CHECK(ending("last", SIZE_MAX) == 1 << LAST); /* the hash table tells that it is there */
        CHECK(ending("_alpha", SIZE_MAX) == (1 << BETA | 1 << NOTYPE));
        CHECK(ending("alph", SIZE_MAX) == 0);
        CHECK(ending("xbeta_alpha", SIZE_MAX) == 0);
        use_sysv();
    }
    object->symbols[ALPHA].st_value = 0;
    CHECK(ending("alpha", SIZE_MAX) == (1 << BETA | 1 << NOTYPE));
    object->symbols[BETA].st_name = sizeof object->strings;
    CHECK(ending("alpha", SIZE_MAX) == 1 << NOTYPE);
}

/* Tables that claim more than exists. */
static void test_ending_bounds(void)
{
    object_make(object, 0);
    object->dynamic[2].d_un.d_val = guard.size; /* more strings than are readable */
    CHECK(ending("alpha", SIZE_MAX) == 0);
    object->dynamic[2].d_un.d_val = UINT64_MAX;
    CHECK(ending("alpha", SIZE_MAX) == 0);
    object->dynamic[2].d_un.d_val = 0;
    CHECK(ending("alpha", SIZE_MAX) == 0);
    object_make(object, 0);
    object->gnu.first = UINT32_MAX;
    CHECK(ending("gamma", SIZE_MAX) == 1 << GAMMA);
    object->gnu.bloom_words = UINT32_MAX;
    CHECK(ending("gamma", SIZE_MAX) == 0);
    object_make(object, 0);
    use_sysv();
    object->sysv.chains = UINT32_MAX;
    CHECK(ending("gamma", SIZE_MAX) == 1 << GAMMA);
    object->sysv.chains = GAMMA;
    CHECK(ending("gamma", SIZE_MAX) == 0);
}

/* The last string has no NUL of its own. */
static void test_ending_cut(void)
{
    object_make(object, 0);
    object->dynamic[2].d_un.d_val = object->symbols[GAMMA].st_name + strlen("gamma");
    CHECK(ending("gamma", SIZE_MAX) == 1 << GAMMA);
    object->dynamic[2].d_un.d_val--;
    CHECK(ending("gamma", SIZE_MAX) == 0);
}

static bool build_id_is(size_t len)
{
    struct build_id id;
    struct image image;

    return open_image(&image) && image_build_id(&image, &id) && id.len == len &&
           memcmp(id.bytes, object->notes.id_desc, len) == 0;
}

static bool no_build_id(void)
{
    struct build_id id;
    struct image image;

    return open_image(&image) && !image_build_id(&image, &id);
}

static void test_build_id(void)
{
    object_make(object, 0);
    CHECK(build_id_is(20));
    object->notes.id.n_descsz = 17;
    CHECK(build_id_is(17));
    object->notes.id.n_descsz = 21;
    CHECK(no_build_id());
    object->notes.id.n_descsz = 0;
    CHECK(no_build_id());
    object_make(object, 0);
    object->notes.id.n_type = NT_GNU_HWCAP;
    CHECK(no_build_id());
    object_make(object, 0);
    object->notes.id_name[0] = 'g';
    CHECK(no_build_id());
    object_make(object, 0);
    object->notes.id.n_namesz = 3;
    CHECK(no_build_id());
}

static void test_notes(void)
{
    object_make(object, 0);
    object->notes.other.n_descsz = UINT32_MAX;
    CHECK(no_build_id());
    object->notes.other.n_descsz = 4;
    object->notes.other.n_namesz = UINT32_MAX;
    CHECK(no_build_id());
    object_make(object, 0);
    object->phdrs[3].p_filesz -= 1;
    CHECK(no_build_id());
    object->phdrs[3].p_filesz = 11;
    CHECK(no_build_id());
    object->phdrs[3].p_filesz = UINT64_MAX;
    CHECK(no_build_id());
    object_make(object, 0);
    object->phdrs[3].p_vaddr = guard.size - 8;
    CHECK(no_build_id());
    object->phdrs[1] = object->phdrs[3]; /* the first is unusable, the second is not */
    object->phdrs[3].p_vaddr = offsetof(struct object, notes);
    CHECK(build_id_is(20));
}

/* The longest that is kept, and one byte more. */
static void test_long_build_id(void)
{
    object_make(object, 0);
    object->phdrs[3].p_filesz += 64;
    object->notes.id.n_descsz = BUILD_ID_MAX;
    struct build_id id;
    struct image image;
    CHECK(open_image(&image) && image_build_id(&image, &id) && id.len == BUILD_ID_MAX);
    object->notes.id.n_descsz = BUILD_ID_MAX + 1;
    CHECK(no_build_id());
}

int main(void)
{
    if (!CHECK(own_open(&own)) || !CHECK(guard_make(&guard, 4)))
        return check_result();
    own_guard(&own, guard.base + guard.size, GUARD_PAGE);
    object = (struct object *)(void *)guard.base;
    test_both_tables();
    test_headers();
    test_machine();
    test_bias();
    test_dynamic();
    test_bloom();
    test_gnu_table();
    test_endless_chain();
    test_sysv_table();
    test_names();
    test_versions();
    test_static_program();
    test_symbols_unreadable();
    test_ending();
    test_ending_bounds();
    test_ending_cut();
    test_build_id();
    test_notes();
    test_long_build_id();
    guard_free(&guard);
    own_close(&own);
    return check_result();
}
