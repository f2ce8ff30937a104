#include "profile/symbols/symbol_index.h"
#include "base/list.h"
#include "base/table.h"

#include <string.h>

/*
 * True for functions, and for labels of assembly code that are not mapping
 * symbols (`$x` of aarch64) and not the compiler's own (`.L`).
 */
static bool is_function(const struct object *object, const Elf64_Sym *sym, const char *name)
{
    unsigned type = ELF64_ST_TYPE(sym->st_info);
    const Elf64_Shdr *section;

    if (sym->st_shndx == SHN_UNDEF || sym->st_shndx >= SHN_LORESERVE || !sym->st_value || !*name)
        return false;
    if (type == STT_FUNC || type == STT_GNU_IFUNC)
        return true;
    if (type != STT_NOTYPE || *name == '$' || *name == '.' ||
        sym->st_shndx >= object->section_count)
        return false;
    section = &object->sections[sym->st_shndx];
    return (section->sh_flags & SHF_EXECINSTR) &&
           sym->st_value - section->sh_addr < section->sh_size;
}

/* names: len bytes, the last of which is NUL */
static bool add_table(struct symbol_index *index, struct object *object, const Elf64_Shdr *table,
                      const char *names, uint64_t len, struct arena *arena)
{
    const unsigned char *bytes = object_section(object, table);

    for (uint64_t i = 0; bytes && i < table->sh_size / sizeof(Elf64_Sym); i++) {
        Elf64_Sym sym;
        const char *name;
        memcpy(&sym, bytes + i * sizeof sym, sizeof sym);
        if (sym.st_name >= len)
            continue;
        name = names + sym.st_name;
        if (!is_function(object, &sym, name) || strnlen(name, SYMBOL_NAME_MAX) == SYMBOL_NAME_MAX)
            continue;
        /* Turns `name@VERSION` and `name@@VERSION` of .symtab into `name`. */
        const char *at = strchr(name + 1, '@');
        name = at ? arena_string(arena, name, (size_t)(at - name)) : name;
        if (!name || !LIST_GROW(index->symbols, index->capacity, index->count) ||
            index->count == SPANS_MAX)
            return false;
        index->symbols[index->count++] = (struct index_symbol){
            .address = sym.st_value,
            .size = sym.st_size,
            .name = name,
            .binding = ELF64_ST_BIND(sym.st_info),
            .code = ELF64_ST_TYPE(sym.st_info) != STT_NOTYPE,
        };
    }
    return true;
}

bool symbol_index_add(struct symbol_index *index, struct object *object, struct arena *arena)
{
    bool seen[SHT_DYNSYM + 1] = {false}; /* a file has one of each (ELF, "Special Sections") */

    for (size_t i = 0; i < object->section_count; i++) {
        const Elf64_Shdr *table = &object->sections[i];
        if ((table->sh_type != SHT_SYMTAB && table->sh_type != SHT_DYNSYM) ||
            table->sh_link >= object->section_count || seen[table->sh_type])
            continue;
        seen[table->sh_type] = true;
        const uint64_t len = object->sections[table->sh_link].sh_size;
        const char *names = object_section(object, &object->sections[table->sh_link]);
        if (names && names[len - 1] == '\0' && !add_table(index, object, table, names, len, arena))
            return false;
    }
    return true;
}

/* True for glibc's own name of a function that has another one too: __GI___clone3. */
static bool is_hidden_alias(const struct index_symbol *symbol)
{
    return strncmp(symbol->name, "__GI_", 5) == 0;
}

static int binding_rank(const struct index_symbol *symbol)
{
    return symbol->binding == STB_LOCAL ? 0 : symbol->binding == STB_WEAK ? 1 : 2;
}

/* Compares by address; of equal ones the better symbol is last. */
static int compare_symbols(const void *a, const void *b)
{
    const struct index_symbol *x = a, *y = b;

    if (x->address != y->address)
        return x->address > y->address ? 1 : -1;
    if (!x->size != !y->size)
        return x->size ? 1 : -1;
    if (x->code != y->code)
        return x->code ? 1 : -1;
    if (is_hidden_alias(x) != is_hidden_alias(y))
        return is_hidden_alias(x) ? -1 : 1;
    if (binding_rank(x) != binding_rank(y))
        return binding_rank(x) - binding_rank(y);
    return strcmp(y->name, x->name);
}

/*
 * A symbol without a size extends to the next one, but not into one with a
 * size, and not farther than an assembly function may reach.
 */
static struct span symbol_span(const struct symbol_index *index, size_t i)
{
    enum { LABEL_REACH = 64 << 10 };
    const struct index_symbol *symbol = &index->symbols[i];
    uint32_t rank = (uint32_t)i + 1;
    size_t next = i + 1; /* at a higher address: of equal ones only the last reaches this point */

    if (symbol->size)
        return (struct span){symbol->address, symbol->address + symbol->size, rank, (uint32_t)i};
    uint64_t end = symbol->address + LABEL_REACH;
    if (next < index->count && index->symbols[next].address < end)
        end = index->symbols[next].address;
    return (struct span){symbol->address, end, 0, (uint32_t)i};
}

bool symbol_index_finish(struct symbol_index *index)
{
    if (index->count >= UINT32_MAX)
        return false;
    if (index->count)
        qsort(index->symbols, index->count, sizeof *index->symbols, compare_symbols);
    for (size_t i = 0; i < index->count; i++) {
        bool last = i + 1 == index->count;
        /* Of several at one address the last is the best. */
        if (!last && index->symbols[i].address == index->symbols[i + 1].address)
            continue;
        if (!spans_add(&index->spans, symbol_span(index, i)))
            return false;
    }
    return spans_finish(&index->spans);
}

const struct index_symbol *symbol_index_find(const struct symbol_index *index, uint64_t address)
{
    uint32_t place = spans_find(&index->spans, address);
    return place == SPANS_NONE ? NULL : &index->symbols[place];
}

void symbol_index_free(struct symbol_index *index)
{
    free(index->symbols);
    spans_free(&index->spans);
    memset(index, 0, sizeof *index);
}
