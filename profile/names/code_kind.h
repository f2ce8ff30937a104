/*
 * Whose code a function is: the program's own, or of a library that every
 * program of its language uses. Only the standard libraries of C, C++, Rust and
 * Go, strings and containers of C, and what only hands memory on, are not the program's own: other
 * libraries do what the program asked them for, and their names are part of the answer.
 */
#pragma once

enum code_kind {
    CODE_OWN,       /* of the program, or of a library that is not known here */
    CODE_PLUMBING,  /* containers, strings and smart pointers of a language's standard library */
    CODE_SYSTEM,    /* the C library, the dynamic loader, the start of a thread, Go's runtime */
    CODE_ALLOCATOR, /* of an allocator, of a pool, or a wrapper of malloc: for whoever calls it */
};

/*
 * Returns the kind of a function by its name, as it is demangled. A type of the
 * program in the arguments of a library's template does not make the function
 * the program's own; a program's type that implements a library's trait does.
 */
enum code_kind code_kind(const char *name);
/* Returns the kind of all functions of a mapped file; CODE_OWN: their names decide. */
enum code_kind code_kind_of_module(const char *path);
