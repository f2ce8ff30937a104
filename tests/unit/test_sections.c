/* Section headers: by type and name, with extended counts, and damaged ones. */
#include "check.h"
#include "elf/sections.h"
#include "elf_file.h"
#include "section_file.h"

static struct section_file file;

static void make(void)
{
    section_file_begin(&file);
    section_file_add(&file, ".text", SHT_PROGBITS, "code", 4);
    section_file_add(&file, ".notes", SHT_NOTE, "note", 5);
    section_file_add(&file, ".a.name.of.more.than.thirty.two.bytes", SHT_PROGBITS, "", 1);
    section_file_end(&file);
}

/* The section of that name; sh_size, or -1. */
static int64_t named(const char *name)
{
    AUTO_CLOSE int fd = file_put(file.bytes, file.len);
    struct sections sections;
    Elf64_Shdr section;

    if (!sections_open(&sections, fd) || !section_named(&sections, name, &section))
        return -1;
    return (int64_t)section.sh_size;
}

static void test_whole(void)
{
    struct sections sections;
    Elf64_Shdr section;

    make();
    CHECK(named(".text") == 4 && named(".notes") == 5 && named(".note") == -1);
    CHECK(named("") == -1 && named(".a.name.of.more.than.thirty.two.bytes") == -1);
    AUTO_CLOSE int fd = file_put(file.bytes, file.len);
    CHECK(sections_open(&sections, fd) && sections.count == 5);
    CHECK(section_of_type(&sections, SHT_NOTE, &section) && section.sh_size == 5);
    CHECK(section_in_file(&sections, &section));
    CHECK(!section_of_type(&sections, SHT_SYMTAB, &section));
    CHECK(section_at(&sections, 1, &section) && section.sh_size == 4);
    CHECK(!section_at(&sections, 5, &section) && !section_at(&sections, UINT64_MAX, &section));
    section_file_free(&file);
}

/* ELF, "extended numbering": both counts in section 0. */
static void test_extended(void)
{
    Elf64_Ehdr *header;
    Elf64_Shdr *zero;

    make();
    header = (void *)file.bytes;
    zero = (void *)(file.bytes + header->e_shoff);
    zero->sh_size = header->e_shnum;
    zero->sh_link = header->e_shstrndx;
    header->e_shnum = 0;
    header->e_shstrndx = SHN_XINDEX;
    CHECK(named(".notes") == 5);
    zero->sh_link = UINT32_MAX;
    CHECK(named(".notes") == -1);
    header->e_shstrndx = 4;
    CHECK(named(".notes") == 5);
    zero->sh_size = SECTIONS_MAX; /* more than the file has */
    CHECK(named(".notes") == 5);
    zero->sh_size = SECTIONS_MAX + 1;
    CHECK(named(".notes") == -1);
    zero->sh_size = 0;
    CHECK(named(".notes") == -1);
    section_file_free(&file);
}

/* Names outside of their table, an invalid table. */
static void test_names(void)
{
    Elf64_Shdr *table;

    make();
    table = (void *)(file.bytes + file.header.e_shoff);
    table[2].sh_name = UINT32_MAX;
    CHECK(named(".notes") == -1 && named(".text") == 4);
    table[1].sh_name = table[4].sh_name + 9; /* the end of the table: no name */
    CHECK(named(".text") == -1);
    table[4].sh_type = SHT_PROGBITS;
    CHECK(named(".shstrtab") == -1);
    table[4].sh_type = SHT_STRTAB;
    table[4].sh_size = UINT64_MAX;
    CHECK(named(".shstrtab") == -1);
    section_file_free(&file);
}

/* More names than are cached: the rest are read one by one, one across the border. */
static void test_many_names(void)
{
    char fill[SECTION_NAMES_READ - 7];

    memset(fill, 'x', sizeof fill - 1);
    fill[sizeof fill - 1] = '\0';
    section_file_begin(&file);
    section_file_add(&file, fill, SHT_PROGBITS, "a", 1);
    section_file_add(&file, ".across.it", SHT_PROGBITS, "ab", 2);
    section_file_add(&file, ".behind", SHT_PROGBITS, "abc", 3);
    section_file_end(&file);
    CHECK(named(".across.it") == 2 && named(".behind") == 3);
    CHECK(named(".across") == -1 && named(".shstrtab") > SECTION_NAMES_READ);
    section_file_free(&file);
}

static void test_truncated(void)
{
    make();
    for (size_t n = file.len - 1; n > 0; n--) {
        AUTO_CLOSE int fd = file_put(file.bytes, n);
        struct sections sections;
        Elf64_Shdr section;
        bool opened = sections_open(&sections, fd);
        CHECK(!opened || n >= file.header.e_shoff + sizeof section);
        CHECK(!opened || !section_named(&sections, ".shstrtab", &section));
    }
    section_file_free(&file);
}

static void test_in_file(void)
{
    struct sections sections = {.file_size = 100};

    CHECK(section_in_file(&sections, &(Elf64_Shdr){.sh_offset = 100}));
    CHECK(section_in_file(&sections, &(Elf64_Shdr){.sh_offset = 40, .sh_size = 60}));
    CHECK(!section_in_file(&sections, &(Elf64_Shdr){.sh_offset = 40, .sh_size = 61}));
    CHECK(!section_in_file(&sections, &(Elf64_Shdr){.sh_offset = 101}));
    CHECK(!section_in_file(&sections, &(Elf64_Shdr){.sh_offset = 1, .sh_size = UINT64_MAX}));
    CHECK(!section_in_file(&sections, &(Elf64_Shdr){.sh_type = SHT_NOBITS}));
}

/* A header at 0, a table at the end of an empty terabyte. */
static void test_sparse(void)
{
    struct sections sections;
    Elf64_Shdr section;

    make();
    file.header.e_shoff = (1ull << 40) - 5 * sizeof section;
    memcpy(file.bytes, &file.header, sizeof file.header);
    AUTO_CLOSE int fd = file_put(file.bytes, file.len);
    if (CHECK(ftruncate(fd, (off_t)1 << 40) == 0)) {
        CHECK(sections_open(&sections, fd) && sections.count == 5);
        CHECK(!section_named(&sections, ".text", &section));
        CHECK(!section_of_type(&sections, SHT_SYMTAB, &section));
    }
    section_file_free(&file);
}

int main(void)
{
    test_whole();
    test_extended();
    test_names();
    test_many_names();
    test_truncated();
    test_in_file();
    test_sparse();
    return check_result();
}
