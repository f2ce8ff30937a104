/* A small ELF file with a .symtab, in a file without a name. */
#pragma once

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FILE_SYMBOLS = 5, FILE_SECTIONS = 4 };

struct elf_file {
    Elf64_Ehdr header;
    Elf64_Phdr phdrs[2]; /* PT_LOAD of everything, PT_NOTE */
    Elf64_Sym symbols[FILE_SYMBOLS];
    char strings[64];
    struct {
        Elf64_Nhdr head;
        char name[4];
        unsigned char desc[20];
    } note;
    Elf64_Shdr sections[FILE_SECTIONS]; /* null, another, .symtab, .strtab */
};

/* 1 "je_one", 2 "other", 3 "two_je_", 4 "je_three" */
static const char file_strings[64] = "\0je_one\0other\0two_je_\0je_three";

static inline void file_make_sections(struct elf_file *file)
{
    file->sections[1] = (Elf64_Shdr){.sh_type = SHT_PROGBITS, .sh_size = 1ull << 60};
    file->sections[2] = (Elf64_Shdr){.sh_type = SHT_SYMTAB,
                                     .sh_link = 3,
                                     .sh_entsize = sizeof(Elf64_Sym),
                                     .sh_offset = offsetof(struct elf_file, symbols),
                                     .sh_size = sizeof file->symbols};
    file->sections[3] = (Elf64_Shdr){.sh_type = SHT_STRTAB,
                                     .sh_offset = offsetof(struct elf_file, strings),
                                     .sh_size = sizeof file->strings};
}

static inline void file_make_symbols(struct elf_file *file)
{
    static const Elf64_Word names[FILE_SYMBOLS] = {0, 1, 8, 14, 22};

    memcpy(file->strings, file_strings, sizeof file->strings);
    for (unsigned i = 1; i < FILE_SYMBOLS; i++)
        file->symbols[i] = (Elf64_Sym){.st_name = names[i],
                                       .st_info = ELF64_ST_INFO(STB_LOCAL, STT_FUNC),
                                       .st_shndx = 1,
                                       .st_value = 0x1000 * i,
                                       .st_size = 16 * i};
}

static inline void file_make_note(struct elf_file *file)
{
    file->phdrs[0] =
        (Elf64_Phdr){.p_type = PT_LOAD, .p_filesz = sizeof *file, .p_memsz = sizeof *file};
    file->phdrs[1] = (Elf64_Phdr){.p_type = PT_NOTE,
                                  .p_offset = offsetof(struct elf_file, note),
                                  .p_vaddr = offsetof(struct elf_file, note),
                                  .p_filesz = sizeof file->note,
                                  .p_memsz = sizeof file->note};
    file->note.head = (Elf64_Nhdr){4, sizeof file->note.desc, NT_GNU_BUILD_ID};
    memcpy(file->note.name, "GNU", 4);
    for (unsigned i = 0; i < sizeof file->note.desc; i++)
        file->note.desc[i] = (unsigned char)(0xa0 + i);
}

static inline void file_make(struct elf_file *file)
{
    memset(file, 0, sizeof *file);
    file->header = (Elf64_Ehdr){.e_type = ET_DYN,
                                .e_version = EV_CURRENT,
                                .e_phoff = offsetof(struct elf_file, phdrs),
                                .e_phentsize = sizeof(Elf64_Phdr),
                                .e_phnum = 2,
                                .e_shoff = offsetof(struct elf_file, sections),
                                .e_shentsize = sizeof(Elf64_Shdr),
                                .e_shnum = FILE_SECTIONS};
    file->header.e_machine = ((const Elf64_Ehdr *)(uintptr_t)getauxval(AT_SYSINFO_EHDR))->e_machine;
    memcpy(file->header.e_ident, ELFMAG, SELFMAG);
    file->header.e_ident[EI_CLASS] = ELFCLASS64;
    file->header.e_ident[EI_DATA] = ELFDATA2LSB;
    file_make_sections(file);
    file_make_symbols(file);
    file_make_note(file);
}

/* Returns the file descriptor of a file with these bytes, which the caller closes. */
static inline int file_put(const void *bytes, size_t len)
{
    int fd = memfd_create("elf", MFD_CLOEXEC);

    if (fd >= 0 && write(fd, bytes, len) != (ssize_t)len) {
        close(fd);
        return -1;
    }
    return fd;
}
