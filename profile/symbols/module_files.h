/*
 * The files that describe a module's code: the module itself, and those that
 * contain the parts that strip removed. The tool opens them; the confined child reads them.
 */
#pragma once

#include "profile/symbols/module_symbols.h"
#include "profile/symbols/symbols.h"

struct module_files {
    struct build_id build_id; /* of the module; len 0: none */
    int fd;                   /* of the module; negative: not open */
    enum symbols_doubt doubt;
    char *referrer; /* path of the file that names a supplement; NULL: the module */
};

/* Opens the module. Returns why it cannot be used; *err is then an errno, or 0. */
enum symbols_lack module_files_open(struct module_files *files,
                                    const struct symbol_mapping *mapping,
                                    const struct symbols_options *options, int *err);
/*
 * Opens a file that belongs to it. Returns a file descriptor, which the caller closes, or -errno;
 * -ENOEXEC: it is no ELF file, or one of a process's memory.
 */
int module_files_want(struct module_files *files, const char *module,
                      const struct symbols_options *options, const struct file_wanted *wanted);
void module_files_close(struct module_files *files);
