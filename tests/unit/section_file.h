/* An ELF file with the sections that a test adds, in a buffer that grows. */
#pragma once

#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

enum { SECTION_FILE_MAX = 12 };

struct section_file {
    unsigned char *bytes;
    size_t len;
    Elf64_Ehdr header;
    Elf64_Phdr note; /* the build-id, if there is one */
    Elf64_Shdr sections[SECTION_FILE_MAX];
    char names[2048];
    size_t count, names_len;
};

static inline size_t section_file_append(struct section_file *file, const void *data, size_t len)
{
    size_t at = (file->len + 7) & ~(size_t)7;

    file->bytes = realloc(file->bytes, at + len);
    memset(file->bytes + file->len, 0, at - file->len);
    if (len)
        memcpy(file->bytes + at, data, len);
    file->len = at + len;
    return at;
}

static inline void section_file_begin(struct section_file *file)
{
    memset(file, 0, sizeof *file);
    file->header = (Elf64_Ehdr){.e_type = ET_DYN,
                                .e_version = EV_CURRENT,
                                .e_phoff = sizeof file->header,
                                .e_phentsize = sizeof(Elf64_Phdr),
                                .e_phnum = 1,
                                .e_shentsize = sizeof(Elf64_Shdr)};
    file->header.e_machine = ((const Elf64_Ehdr *)(uintptr_t)getauxval(AT_SYSINFO_EHDR))->e_machine;
    memcpy(file->header.e_ident, ELFMAG, SELFMAG);
    file->header.e_ident[EI_CLASS] = ELFCLASS64;
    file->header.e_ident[EI_DATA] = ELFDATA2LSB;
    file->header.e_ident[EI_VERSION] = EV_CURRENT;
    section_file_append(file, &file->header, sizeof file->header);
    section_file_append(file, &file->note, sizeof file->note);
    file->count = file->names_len = 1;
}

/* Adds a section; returns it, so that it can be damaged before section_file_end. */
static inline Elf64_Shdr *section_file_add(struct section_file *file, const char *name,
                                           uint32_t type, const void *data, size_t len)
{
    Elf64_Shdr *section = &file->sections[file->count++];

    *section = (Elf64_Shdr){.sh_name = (Elf64_Word)file->names_len,
                            .sh_type = type,
                            .sh_offset = section_file_append(file, data, len),
                            .sh_size = len};
    strcpy(file->names + file->names_len, name);
    file->names_len += strlen(name) + 1;
    return section;
}

/* A note with a build-id of 20 bytes that starts with `first`, in a section and a segment. */
static inline void section_file_add_id(struct section_file *file, unsigned char first)
{
    struct {
        Elf64_Nhdr head;
        char name[4];
        unsigned char desc[20];
    } note = {{4, 20, NT_GNU_BUILD_ID}, "GNU", {first, 0xab}};
    Elf64_Shdr *section =
        section_file_add(file, ".note.gnu.build-id", SHT_NOTE, &note, sizeof note);

    note.desc[19] = first;
    memcpy(file->bytes + section->sh_offset, &note, sizeof note);
    file->note = (Elf64_Phdr){.p_type = PT_NOTE,
                              .p_offset = section->sh_offset,
                              .p_filesz = sizeof note,
                              .p_memsz = sizeof note};
}

/* Completes bytes and len: the names, the section table, the headers. */
static inline void section_file_end(struct section_file *file)
{
    Elf64_Shdr *names = section_file_add(file, ".shstrtab", SHT_STRTAB, NULL, 0);

    names->sh_offset = section_file_append(file, file->names, file->names_len);
    names->sh_size = file->names_len;
    file->header.e_shnum = (Elf64_Half)file->count;
    file->header.e_shstrndx = (Elf64_Half)(file->count - 1);
    file->header.e_shoff =
        section_file_append(file, file->sections, file->count * sizeof *file->sections);
    memcpy(file->bytes, &file->header, sizeof file->header);
    memcpy(file->bytes + sizeof file->header, &file->note, sizeof file->note);
}

static inline void section_file_free(struct section_file *file)
{
    free(file->bytes);
    file->bytes = NULL;
}
