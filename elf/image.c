#include "elf/image.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
    NOTES_MAX = 64 << 10,
    DYNSTR_MAX = 64 << 20,
    CHAIN_MAX = 1 << 12,      /* symbols of one hash bucket that are compared at most */
    LAST_CHAIN_MAX = 1 << 16, /* symbols of the last bucket that are counted at most */
    DYNSYM_MAX = 4 << 20,     /* symbols that are visited at most */
    DYNAMES_MAX = 1 << 30,    /* bytes of their names */
    BUCKETS_MAX = 1 << 22,
    NAME_MAX_ = 256
};

/*
 * The header of the tool itself, provided by the linker: its machine is the
 * only one whose code the tool can call.
 */
extern const Elf64_Ehdr __ehdr_start __attribute__((visibility("hidden")));

bool elf_header_valid(const Elf64_Ehdr *header)
{
    return memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
           header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_ident[EI_DATA] == ELFDATA2LSB;
}

bool elf_machine_is_own(const Elf64_Ehdr *header)
{
    return header->e_machine == __ehdr_start.e_machine;
}

static bool image_header_valid(const Elf64_Ehdr *header)
{
    return elf_header_valid(header) && elf_machine_is_own(header) &&
           header->e_phentsize == sizeof(Elf64_Phdr) && header->e_phnum > 0 &&
           header->e_phnum <= IMAGE_PHDRS_MAX;
}

static const Elf64_Phdr *first_load(const Elf64_Phdr *phdrs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (phdrs[i].p_type == PT_LOAD)
            return &phdrs[i];
    return NULL;
}

/* glibc stores run-time addresses into .dynamic; musl and ld.so itself leave link-time ones. */
static remote_addr dynamic_address(const struct image *image, uint64_t value)
{
    return value >= image->base ? value : value + image->bias;
}

static void read_dynamic(struct image *image)
{
    const Elf64_Phdr *dynamic = NULL;

    for (size_t i = 0; i < image->phdr_count; i++)
        if (image->phdrs[i].p_type == PT_DYNAMIC)
            dynamic = &image->phdrs[i];
    if (!dynamic)
        return;
    remote_addr at = dynamic->p_vaddr + image->bias;
    for (size_t i = 0; i < 256 && i < dynamic->p_memsz / sizeof(Elf64_Dyn); i++) {
        Elf64_Dyn dyn;
        if (!memory_read_cached(image->memory, at + i * sizeof dyn, &dyn, sizeof dyn))
            return;
        switch (dyn.d_tag) {
        case DT_NULL:
            return;
        case DT_SYMTAB:
            image->symtab = dynamic_address(image, dyn.d_un.d_ptr);
            break;
        case DT_STRTAB:
            image->strtab = dynamic_address(image, dyn.d_un.d_ptr);
            break;
        case DT_STRSZ:
            image->strtab_size = dyn.d_un.d_val;
            break;
        case DT_GNU_HASH:
            image->gnu_hash = dynamic_address(image, dyn.d_un.d_ptr);
            break;
        case DT_HASH:
            image->sysv_hash = dynamic_address(image, dyn.d_un.d_ptr);
            break;
        case DT_NEEDED:
            image->needs_library = true;
            break;
        case DT_FLAGS_1:
            image->pie = dyn.d_un.d_val & DF_1_PIE;
            break;
        default:
            break;
        }
    }
}

bool image_open(struct image *image, struct memory *memory, remote_addr base)
{
    memset(image, 0, sizeof *image);
    image->memory = memory;
    image->base = base;
    if (!memory_read_cached(memory, base, &image->header, sizeof image->header) ||
        !image_header_valid(&image->header))
        return false;
    image->phdr_count = image->header.e_phnum;
    if (!memory_read_cached(memory, base + image->header.e_phoff, image->phdrs,
                            image->phdr_count * sizeof *image->phdrs))
        return false;
    const Elf64_Phdr *load = first_load(image->phdrs, image->phdr_count);
    if (!load)
        return false;
    /* The header is at the start of the first PT_LOAD, so base is the address of its p_vaddr. */
    image->bias = base - (load->p_vaddr - load->p_offset);
    read_dynamic(image);
    return true;
}

bool image_has_interpreter(const struct image *image)
{
    for (size_t i = 0; i < image->phdr_count; i++)
        if (image->phdrs[i].p_type == PT_INTERP)
            return true;
    return false;
}

bool image_is_static_program(const struct image *image)
{
    return !image_has_interpreter(image) && !image->needs_library &&
           (image->pie || image->header.e_type == ET_EXEC);
}

static void symbol_fill(const struct image *image, const Elf64_Sym *sym, struct symbol *out)
{
    out->address = sym->st_value + image->bias;
    out->size = sym->st_size;
    out->type = ELF64_ST_TYPE(sym->st_info);
    out->local = ELF64_ST_BIND(sym->st_info) == STB_LOCAL;
    out->file = NULL;
}

/* One look-up: a name with versions may be defined more than once. */
struct lookup {
    const char *name;
    symbol_visitor visit;
    void *ctx;
};

/* Returns false when the visit is over. */
static bool visit_dynsym_entry(const struct image *image, uint64_t index,
                               const struct lookup *lookup)
{
    const size_t n = strlen(lookup->name) + 1;
    char name[NAME_MAX_];
    Elf64_Sym sym;
    struct symbol symbol;

    if (!memory_read_cached(image->memory, image->symtab + index * sizeof sym, &sym, sizeof sym) ||
        sym.st_shndx == SHN_UNDEF || n > sizeof name || sym.st_name >= image->strtab_size)
        return true;
    if (!memory_read_cached(image->memory, image->strtab + sym.st_name, name, n) ||
        memcmp(name, lookup->name, n) != 0)
        return true;
    symbol_fill(image, &sym, &symbol);
    return lookup->visit(lookup->ctx, lookup->name, &symbol);
}

struct gnu_header {
    uint32_t buckets, first_symbol, bloom_words, bloom_shift;
};

static void gnu_lookup(const struct image *image, const struct lookup *lookup)
{
    uint32_t hash = 5381, index, entry;
    struct gnu_header gnu;
    uint64_t word;

    for (const char *c = lookup->name; *c; c++)
        hash = hash * 33 + (unsigned char)*c;
    if (!memory_read_cached(image->memory, image->gnu_hash, &gnu, sizeof gnu) || !gnu.buckets ||
        !gnu.bloom_words)
        return;

    /*
     * Two bits of a 64-bit word of the bloom filter must be set (glibc,
     * elf/dl-lookup.c, do_lookup_x).
     */
    remote_addr bloom = image->gnu_hash + sizeof gnu;
    if (!memory_read_cached(image->memory, bloom + hash / 64 % gnu.bloom_words * 8, &word,
                            sizeof word) ||
        !(word >> (hash % 64) & word >> ((hash >> (gnu.bloom_shift & 31)) % 64) & 1))
        return;

    remote_addr buckets = bloom + gnu.bloom_words * 8ull;
    remote_addr chains = buckets + gnu.buckets * 4ull;
    if (!memory_read_cached(image->memory, buckets + hash % gnu.buckets * 4ull, &index,
                            sizeof index) ||
        index < gnu.first_symbol)
        return;
    for (unsigned step = 0; step < CHAIN_MAX; step++, index++) {
        if (!memory_read_cached(image->memory, chains + (uint64_t)(index - gnu.first_symbol) * 4,
                                &entry, sizeof entry))
            return;
        if ((entry | 1) == (hash | 1) && !visit_dynsym_entry(image, index, lookup))
            return;
        if (entry & 1)
            return;
    }
}

static void sysv_lookup(const struct image *image, const struct lookup *lookup)
{
    uint32_t hash = 0, counts[2], index;

    for (const char *c = lookup->name; *c; c++) {
        hash = (hash << 4) + (unsigned char)*c;
        hash ^= (hash >> 24) & 0xf0;
        hash &= 0x0fffffff;
    }
    if (!memory_read_cached(image->memory, image->sysv_hash, counts, sizeof counts) || !counts[0])
        return;
    remote_addr buckets = image->sysv_hash + 8, chains = buckets + counts[0] * 4ull;
    if (!memory_read_cached(image->memory, buckets + hash % counts[0] * 4ull, &index, sizeof index))
        return;
    for (unsigned step = 0; index && index < counts[1] && step < CHAIN_MAX; step++)
        if (!visit_dynsym_entry(image, index, lookup) ||
            !memory_read_cached(image->memory, chains + index * 4ull, &index, sizeof index))
            return;
}

void image_symbols_named(const struct image *image, const char *name, symbol_visitor visit,
                         void *ctx)
{
    const struct lookup lookup = {name, visit, ctx};

    if (!image->symtab || !image->strtab)
        return;
    if (image->gnu_hash)
        gnu_lookup(image, &lookup);
    else if (image->sysv_hash)
        sysv_lookup(image, &lookup);
}

struct first {
    struct symbol *out;
    bool found;
};

static bool take_first_symbol(void *ctx, const char *name, const struct symbol *symbol)
{
    struct first *first = ctx;

    (void)name;
    *first->out = *symbol;
    first->found = true;
    return false;
}

bool image_symbol(const struct image *image, const char *name, struct symbol *out)
{
    struct first first = {out, false};

    image_symbols_named(image, name, take_first_symbol, &first);
    return first.found;
}

/*
 * A buffer for reading one table from end to end. It is not kept: the table may
 * be in writable memory.
 */
struct window {
    remote_addr start;
    size_t len;
    unsigned char bytes[4 * MEMORY_PAGE];
};

static bool window_read(const struct image *image, struct window *window, remote_addr at, void *out,
                        size_t len)
{
    if (at - window->start >= window->len || window->len - (at - window->start) < len) {
        window->start = at;
        window->len = sizeof window->bytes;
        if (!memory_read(image->memory, at, window->bytes, window->len)) {
            window->len = len; /* the mapping ends within the window */
            if (!memory_read(image->memory, at, window->bytes, len))
                return false;
        }
    }
    memcpy(out, window->bytes + (at - window->start), len);
    return true;
}

/*
 * Returns the number of .dynsym entries; with .gnu.hash, the end of the chain of the highest
 * bucket.
 */
static uint64_t symbol_count(const struct image *image)
{
    struct gnu_header gnu;
    struct window window = {.len = 0};
    uint32_t highest = 0, value, counts[2];

    if (!image->gnu_hash)
        return image->sysv_hash &&
                       memory_read_cached(image->memory, image->sysv_hash, counts, sizeof counts)
                   ? counts[1]
                   : 0;
    if (!memory_read_cached(image->memory, image->gnu_hash, &gnu, sizeof gnu))
        return 0;
    if (gnu.buckets > BUCKETS_MAX || gnu.bloom_words > BUCKETS_MAX)
        return 0;
    remote_addr buckets = image->gnu_hash + sizeof gnu + gnu.bloom_words * 8ull;
    for (uint32_t i = 0; i < gnu.buckets; i++) {
        if (!window_read(image, &window, buckets + i * 4ull, &value, sizeof value))
            return 0;
        highest = value > highest ? value : highest;
    }
    if (highest < gnu.first_symbol)
        return gnu.first_symbol;
    remote_addr chains = buckets + gnu.buckets * 4ull;
    for (unsigned step = 0; step < LAST_CHAIN_MAX; step++, highest++)
        if (!window_read(image, &window, chains + (uint64_t)(highest - gnu.first_symbol) * 4,
                         &value, sizeof value) ||
            value & 1)
            return highest + 1ull;
    return 0;
}

void image_symbols_ending(const struct image *image, const char *suffix, symbol_visitor visit,
                          void *ctx)
{
    const size_t suffix_len = strlen(suffix);
    uint64_t size = image->strtab_size, count, looked_at = 0;
    struct window window = {.len = 0};
    AUTO_FREE char *names = NULL;

    if (!image->symtab || !size || size > DYNSTR_MAX || !(names = malloc(size + 1)) ||
        !memory_read(image->memory, image->strtab, names, size))
        return;
    names[size] = '\0';
    if (!memmem(names, size + 1, suffix, suffix_len + 1))
        return;
    count = symbol_count(image);
    for (uint64_t i = 1; i < count && i < DYNSYM_MAX && looked_at < DYNAMES_MAX; i++) {
        Elf64_Sym sym;
        struct symbol symbol;
        if (!window_read(image, &window, image->symtab + i * sizeof sym, &sym, sizeof sym))
            return;
        symbol_fill(image, &sym, &symbol);
        if (sym.st_shndx == SHN_UNDEF || !sym.st_value || sym.st_name >= size ||
            (symbol.type != STT_FUNC && symbol.type != STT_NOTYPE))
            continue;
        const char *name = names + sym.st_name;
        size_t len = strnlen(name, SYMBOL_NAME_MAX);
        looked_at += len;
        /*
         * A name longer than the limit does not count: hostile files have one that
         * fills the whole table.
         */
        if (len == SYMBOL_NAME_MAX || len < suffix_len ||
            memcmp(name + len - suffix_len, suffix, suffix_len) != 0)
            continue;
        if (!visit(ctx, name, &symbol))
            return;
    }
}

/* Walks ELF notes; namesz and descsz are untrusted 32-bit numbers, padded to 4 bytes. */
bool notes_build_id(const unsigned char *notes, size_t len, struct build_id *out)
{
    size_t at = 0;

    while (len - at >= sizeof(Elf64_Nhdr)) {
        Elf64_Nhdr note;
        memcpy(&note, notes + at, sizeof note);
        uint64_t desc = at + sizeof note + ((note.n_namesz + 3ull) & ~3ull);
        uint64_t next = desc + ((note.n_descsz + 3ull) & ~3ull);
        if (desc + note.n_descsz > len)
            return false;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && note.n_descsz > 0 &&
            note.n_descsz <= BUILD_ID_MAX && memcmp(notes + at + sizeof note, "GNU", 4) == 0) {
            out->len = note.n_descsz;
            memcpy(out->bytes, notes + desc, out->len);
            return true;
        }
        if (next > len)
            return false;
        at = (size_t)next;
    }
    return false;
}

bool image_build_id(const struct image *image, struct build_id *out)
{
    for (size_t i = 0; i < image->phdr_count; i++) {
        const Elf64_Phdr *ph = &image->phdrs[i];
        AUTO_FREE unsigned char *notes = NULL;
        if (ph->p_type != PT_NOTE || ph->p_filesz > NOTES_MAX || !ph->p_filesz)
            continue;
        notes = malloc(ph->p_filesz);
        if (notes &&
            memory_read_cached(image->memory, ph->p_vaddr + image->bias, notes, ph->p_filesz) &&
            notes_build_id(notes, ph->p_filesz, out))
            return true;
    }
    return false;
}

bool file_read(int fd, uint64_t offset, void *buf, size_t len)
{
    return offset <= INT64_MAX && pread(fd, buf, len, (off_t)offset) == (ssize_t)len;
}

uint64_t file_size(int fd)
{
    const off_t size = lseek(fd, 0, SEEK_END);

    return size < 0 ? 0 : (uint64_t)size;
}

size_t file_phdrs(int fd, Elf64_Phdr phdrs[IMAGE_PHDRS_MAX])
{
    Elf64_Ehdr header;

    if (!file_read(fd, 0, &header, sizeof header) || !image_header_valid(&header) ||
        !file_read(fd, header.e_phoff, phdrs, header.e_phnum * sizeof *phdrs))
        return 0;
    return header.e_phnum;
}

bool file_build_id(int fd, struct build_id *out)
{
    Elf64_Phdr phdrs[IMAGE_PHDRS_MAX];
    size_t count = file_phdrs(fd, phdrs);

    for (size_t i = 0; i < count; i++) {
        AUTO_FREE unsigned char *notes = NULL;
        if (phdrs[i].p_type != PT_NOTE || phdrs[i].p_filesz > NOTES_MAX || !phdrs[i].p_filesz)
            continue;
        notes = malloc(phdrs[i].p_filesz);
        if (notes && file_read(fd, phdrs[i].p_offset, notes, phdrs[i].p_filesz) &&
            notes_build_id(notes, phdrs[i].p_filesz, out))
            return true;
    }
    return false;
}

uint64_t image_file_bias(const struct image *image, int fd)
{
    Elf64_Phdr phdrs[IMAGE_PHDRS_MAX];
    const Elf64_Phdr *its = first_load(phdrs, file_phdrs(fd, phdrs));
    const Elf64_Phdr *own = first_load(image->phdrs, image->phdr_count);

    return its && own ? image->bias + (own->p_vaddr - its->p_vaddr) : image->bias;
}

/* ---- build-ids ---- */

bool build_id_equal(const struct build_id *a, const struct build_id *b)
{
    return a->len == b->len && memcmp(a->bytes, b->bytes, a->len) == 0;
}

const char *build_id_text(const struct build_id *id, char out[BUILD_ID_TEXT])
{
    out[0] = '\0';
    for (size_t i = 0; i < id->len && i < BUILD_ID_MAX; i++)
        snprintf(out + 2 * i, 3, "%02x", id->bytes[i]);
    return out;
}
