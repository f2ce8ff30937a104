/*
 * resolve [--no-inlines] [--debuginfod] [--root DIR] [--debug-dir DIR] FILE < ADDRESSES
 *
 * Resolves link-time addresses (hexadecimal, one a line) of an ELF file by
 * profile/symbols/symbols.h. Prints for each a line with the address and the number of
 * lines that follow; these have function, linkage name, file, line and start
 * line, separated by tabs. The last line has the coverage, time and memory.
 */
#include "profile/symbols/symbols.h"

#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

enum { MAPPINGS_MAX = IMAGE_PHDRS_MAX };

/* As if each executable segment was mapped at its link-time address. */
static size_t map_file(const char *path, struct symbol_mapping *mappings)
{
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    Elf64_Phdr phdrs[IMAGE_PHDRS_MAX];
    Elf64_Ehdr header;
    size_t count = 0;

    if (fd < 0 || !file_read(fd, 0, &header, sizeof header) || header.e_phnum > IMAGE_PHDRS_MAX ||
        !file_read(fd, header.e_phoff, phdrs, header.e_phnum * sizeof *phdrs))
        return 0;
    for (size_t i = 0; i < header.e_phnum; i++)
        if (phdrs[i].p_type == PT_LOAD && (phdrs[i].p_flags & PF_X))
            mappings[count++] = (struct symbol_mapping){.start = phdrs[i].p_vaddr,
                                                        .end = phdrs[i].p_vaddr + phdrs[i].p_filesz,
                                                        .offset = phdrs[i].p_offset,
                                                        .path = path};
    return count;
}

static const char *text(const char *string)
{
    return string ? string : "";
}

static void print_address(struct symbols *symbols, uint64_t address)
{
    const struct symbol_line *lines;
    size_t count = symbols_lines(symbols, address, &lines);

    printf("0x%llx\t%zu\n", (unsigned long long)address, count);
    for (size_t i = 0; i < count; i++)
        printf("%s\t%s\t%s\t%u\t%u\n", text(lines[i].function), text(lines[i].linkage),
               text(lines[i].file), lines[i].line, lines[i].start_line);
}

static void print_coverage(const struct symbols *symbols)
{
    struct symbols_coverage all = {0}, one;
    struct rusage usage;

    for (size_t i = 0; symbols_coverage(symbols, i, &one); i++) {
        all.addresses += one.addresses;
        all.with_function += one.with_function;
        all.with_line += one.with_line;
        all.lack = one.lack;
    }
    getrusage(RUSAGE_SELF, &usage);
    printf("end\t%llu\t%llu\t%llu\t%d\t%ld.%03ld\t%ld\n", (unsigned long long)all.addresses,
           (unsigned long long)all.with_function, (unsigned long long)all.with_line, (int)all.lack,
           (long)usage.ru_utime.tv_sec + (long)usage.ru_stime.tv_sec,
           (long)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000 % 1000,
           usage.ru_maxrss / 1024);
}

int main(int argc, char **argv)
{
    static const struct option words[] = {{"no-inlines", no_argument, NULL, 'n'},
                                          {"debuginfod", no_argument, NULL, 's'},
                                          {"root", required_argument, NULL, 'r'},
                                          {"debug-dir", required_argument, NULL, 'd'},
                                          {0}};
    struct symbol_mapping mappings[MAPPINGS_MAX];
    struct symbols_options options = {0};
    const char *dirs[1];
    char line[64];
    size_t count;
    int c;

    while ((c = getopt_long(argc, argv, "", words, NULL)) != -1) {
        if (c == 'n')
            options.no_inlines = true;
        else if (c == 's')
            options.debuginfod = true;
        else if (c == 'r')
            options.root = optarg;
        else if (c == 'd' && options.debug_dir_count == 0)
            dirs[options.debug_dir_count++] = optarg;
        else
            return 2;
    }
    options.debug_dirs = dirs;
    count = optind + 1 == argc ? map_file(argv[optind], mappings) : 0;
    struct symbols *symbols = count ? symbols_new(mappings, count, &options) : NULL;
    if (!symbols)
        return 1;
    while (fgets(line, sizeof line, stdin))
        print_address(symbols, strtoull(line, NULL, 16));
    print_coverage(symbols);
    symbols_free(symbols);
    return 0;
}
