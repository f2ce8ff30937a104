/* Whose code a function is: the program's own, or of a library that it uses. */
#pragma once

enum code_kind {
    CODE_OWN,       /* of the program, or of a library that is not known here */
    CODE_PLUMBING,  /* containers, strings and smart pointers of a language's standard library */
    CODE_SYSTEM,    /* the C library, the dynamic loader, the start of a thread */
    CODE_ALLOCATOR, /* of the allocator */
};

/* Returns the kind of a function by its name, as it is demangled. */
enum code_kind code_kind(const char *name);
