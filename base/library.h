/*
 * Libraries that are loaded when they are first needed, so that no start of the
 * tool waits for them. In the static program (JEATTACH_STATIC) they are linked in.
 */
#pragma once

#include <stddef.h>

#ifdef JEATTACH_STATIC
static inline void *library_open(const char *name)
{
    return (void *)name;
}
#define LIBRARY_FUNCTION(library, function) ((void)(library), &(function))
#else
#include <dlfcn.h>

/* Loads a library until the program ends. Returns NULL if it is not installed. */
static inline void *library_open(const char *name)
{
    return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}
/* Finds a function by its name, which may be a macro. The result is NULL if there is none. */
#define LIBRARY_FUNCTION(library, function)                                                        \
    ((__typeof__(&(function)))dlsym(library, LIBRARY_EXPANDED(function)))
#endif

#define LIBRARY_STRING(text)   #text
#define LIBRARY_EXPANDED(text) LIBRARY_STRING(text)
