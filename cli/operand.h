/* A word in the place of a process: its pid, its name, or a file in its stead. */
#pragma once

enum operand {
    OPERAND_PID,
    OPERAND_NAME,    /* as -n */
    OPERAND_CORE,    /* the path of a core file */
    OPERAND_PROFILE, /* the path of a heap profile, also packed */
    OPERAND_NONE,
};

/*
 * Reads the beginning of the file of that path. A file counts if its name has a dot or a slash, or
 * is "core", and if it is a regular one of this user or of root.
 */
enum operand operand_of(const char *word);
