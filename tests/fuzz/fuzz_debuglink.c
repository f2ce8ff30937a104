/* .gnu_debuglink as a section, section headers as a whole file, and the search that both lead to.
 */
#include "elf/debugfile.h"
#include "elf/sections.h"
#include "fuzz.h"
#include "tests/unit/section_file.h"

#include <string.h>
#include <sys/mman.h>

static int memory_file(const void *bytes, size_t len)
{
    int fd = memfd_create("input", MFD_CLOEXEC);

    expect(fd >= 0 && pwrite(fd, bytes, len, 0) == (ssize_t)len);
    return fd;
}

static void look_for_sections(int fd, size_t size)
{
    static const char *const names[] = {".gnu_debuglink", ".symtab", "", ".note.gnu.build-id"};
    struct sections sections;
    Elf64_Shdr section;

    if (!sections_open(&sections, fd))
        return;
    expect(sections.count <= size / sizeof section);
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (section_named(&sections, names[i], &section) && section_in_file(&sections, &section))
            expect(section.sh_size <= size && section.sh_offset <= size);
    sections_unpacked_size(&sections);
}

static void look_for_file(int fd)
{
    struct debugfile_query query = {NULL, "/nowhere/at/all", fd, NULL};
    struct debugfile found;
    char name[NAME_MAX + 1];
    uint32_t checksum;

    if (debugfile_link(fd, name, &checksum))
        expect(name[0] && !strchr(name, '/') && strcmp(name, "..") != 0 && strlen(name) < 256);
    if (debugfile_open(&query, &found) == 0)
        expect(close(found.fd) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct section_file file;
    AUTO_CLOSE int whole = memory_file(data, size);

    look_for_sections(whole, size);
    look_for_file(whole);
    section_file_begin(&file);
    section_file_add(&file, ".gnu_debuglink", SHT_PROGBITS, data, size);
    section_file_end(&file);
    AUTO_CLOSE int wrapped = memory_file(file.bytes, file.len);
    section_file_free(&file);
    look_for_file(wrapped);
    return 0;
}
