#include "profile/names/code_kind.h"
#include "base/util.h"
#include "profile/names/name_parts.h"
#include "profile/names/short_name.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

enum { HEAD_SIZE = 256 }; /* what is looked at is at the start of a name */

struct prefix {
    const char *text;
    enum code_kind kind;
};

/* Of names without parameters, such as those of C, of Go and of Rust's allocation. */
static const struct prefix plain_prefixes[] = {
    {"__rust_alloc", CODE_ALLOCATOR},
    {"__rust_realloc", CODE_ALLOCATOR},
    {"__rg_", CODE_ALLOCATOR},
    {"__rdl_", CODE_ALLOCATOR},
    {"__rustc::__rust_", CODE_ALLOCATOR},
    {"__rustc::__rg_", CODE_ALLOCATOR},
    {"__rustc::__rdl_", CODE_ALLOCATOR},
    {"__cxa_", CODE_PLUMBING},
    {"__gxx_", CODE_PLUMBING},
    {"sds", CODE_PLUMBING}, /* the strings of redis and others */
    {"_sds", CODE_PLUMBING},
    {"g_array_", CODE_PLUMBING}, /* the containers of GLib */
    {"g_byte_array_", CODE_PLUMBING},
    {"g_hash_table_", CODE_PLUMBING},
    {"g_list_", CODE_PLUMBING},
    {"g_ptr_array_", CODE_PLUMBING},
    {"g_queue_", CODE_PLUMBING},
    {"g_slist_", CODE_PLUMBING},
    {"g_string_", CODE_PLUMBING},
    {"_PyEval_", CODE_SYSTEM}, /* CPython's loop, below which everything is */
    {"PyEval_", CODE_SYSTEM},
    {"_PyRun_", CODE_SYSTEM},
    {"pymain_", CODE_SYSTEM},
    {"_PyMem_", CODE_ALLOCATOR}, /* its allocators, and those of its objects */
    {"PyMem_", CODE_ALLOCATOR},
    {"_PyObject_Arena", CODE_ALLOCATOR},
    {"_PyObject_GC_", CODE_ALLOCATOR},
    {"PyObject_GC_", CODE_ALLOCATOR},
    {"_PyObject_MallocWithType", CODE_ALLOCATOR},
    {"_Unwind_", CODE_SYSTEM},
    {"_dl_", CODE_SYSTEM},
    {"__libc_", CODE_SYSTEM},
    {"__pthread_", CODE_SYSTEM},
    {"pthread_create", CODE_SYSTEM},
    {"runtime/cgo.", CODE_SYSTEM},
    {"_cgo_", CODE_SYSTEM},
    {"x_cgo_", CODE_SYSTEM},
};

/*
 * Functions of the C library that return memory or lead to main, for programs
 * that contain it; not those that a program may call its own, such as getline.
 * And of CPython what calls anything.
 */
static const char *const system_names[] = {
    "_start",
    "clone3",
    "__clone",
    "__clone3",
    "__clone_internal",
    "strdup",
    "__strdup",
    "strndup",
    "__strndup",
    "asprintf",
    "vasprintf",
    "__asprintf_chk",
    "__vasprintf_chk",
    "__vasprintf_internal",
    "wcsdup",
    "__wcsdup",
    "getdelim",
    "__getdelim",
    "_IO_getdelim",
    "realpath",
    "__realpath",
    "open_memstream",
    "_IO_file_doallocate",
    "_IO_doallocbuf",
    "__alloc_dir",
    "crosscall2",
    "Py_BytesMain",
    "Py_RunMain",
    "run_eval_code_obj",
    "run_mod",
    "_PyFunction_Vectorcall",
    "PyObject_Vectorcall",
};

/*
 * Of allocators and pools, names that is_wrapper does not know for them: of CPython
 * (Objects/obmalloc.c, Modules/gcmodule.c), PostgreSQL, nginx, APR.
 */
static const char *const pool_names[] = {
    "new_arena",
    "allocate_from_new_pool",
    "pymalloc_pool_extend",
    "_PyObject_New",
    "_PyObject_NewVar",
    "_PyObject_Init",
    "_PyObject_InitVar",
    "PyObject_Init",
    "PyObject_InitVar",
    "PyUnicode_New",
    "Py_SET_TYPE",
    "Py_SET_REFCNT",
    "Py_SET_SIZE",
    "_Py_NewReference",
    "PyType_GenericAlloc",
    "_PyType_AllocNoTrack",
    "AllocSetAllocFromNewBlock",
    "DynaHashAlloc",
    "element_alloc",
    "ngx_alloc",
    "ngx_create_pool",
    "allocator_alloc",
};

/* Of functions of C++ and Rust, after return types are removed. */
static const struct prefix scopes[] = {
    {"std::", CODE_PLUMBING},         {"__gnu_cxx::", CODE_PLUMBING},
    {"__gnu_debug::", CODE_PLUMBING}, {"__gnu_parallel::", CODE_PLUMBING},
    {"__cxxabiv1::", CODE_PLUMBING},  {"abi::", CODE_PLUMBING},
    {"operator new", CODE_PLUMBING},  {"operator delete", CODE_PLUMBING},
};

static const struct prefix allocator_crates[] = {
    {"jemallocator::", CODE_ALLOCATOR},
    {"jemalloc_sys::", CODE_ALLOCATOR},
    {"tikv_jemallocator::", CODE_ALLOCATOR},
    {"tikv_jemalloc_sys::", CODE_ALLOCATOR},
};

static enum code_kind find_prefix(const struct prefix *list, size_t count, struct name_part part)
{
    for (size_t i = 0; i < count; i++)
        if (name_begins(part, list[i].text))
            return list[i].kind;
    return CODE_OWN;
}

#define FIND_PREFIX(list, part) find_prefix(list, ARRAY_LEN(list), part)

/* ---- wrappers of malloc ---- */

static bool word_is_any(struct name_part word, const char *const *texts, size_t count, bool at_end)
{
    const size_t size = (size_t)(word.end - word.at);

    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(texts[i]);
        if ((at_end ? size >= len : size == len) && strncasecmp(word.end - len, texts[i], len) == 0)
            return true;
    }
    return false;
}

/* Returns the next word of a name such as "MemoryContextAllocZero" or "my_malloc2"; at NULL: none.
 */
static struct name_part next_word(struct name_part *rest)
{
    struct name_part word = {NULL, NULL};

    while (rest->at < rest->end && !isalpha((unsigned char)*rest->at))
        rest->at++;
    if (rest->at == rest->end)
        return word;
    word.at = rest->at++;
    while (rest->at < rest->end && isalpha((unsigned char)*rest->at) &&
           (!isupper((unsigned char)*rest->at) || isupper((unsigned char)rest->at[-1])))
        rest->at++;
    word.end = rest->at;
    return word;
}

/*
 * A function whose name has no words but those of allocation hands memory on to its caller, as
 * "init_alloc_root" and "MemoryContextAllocZero" do. Before a name of the C library's may stand
 * whose it is: "CRYPTO_malloc".
 */
static bool is_wrapper(struct name_part name)
{
    static const char *const entries[] = {"calloc", "ealloc",   "malloc", "nalloc", "palloc",
                                          "zalloc", "memalign", "memdup", "strdup", "strndup"};
    static const char *const verbs[] = {"alloc", "allocate"};
    /* They say nothing about what the memory is for. */
    static const char *const fillers[] = {
        "aligned",  "arena",      "array", "block",    "bump",          "bytes",
        "checked",  "chunk",      "clear", "context",  "create",        "ctx",
        "data",     "default",    "do",    "extended", "fast",          "gc",
        "fallback", "generation", "get",   "heap",     "huge",          "impl",
        "init",     "int",        "large", "internal", "mem",           "memory",
        "multi",    "my",         "new",   "no",       "num",           "object",
        "page",     "pages",      "pool",  "raw",      "real",          "root",
        "safe",     "set",        "size",  "slab",     "slice",         "slow",
        "small",    "tcache",     "throw", "try",      "uninitialized", "usable",
        "zero",     "zeroed",
    };
    bool allocates = false, generic = true;
    struct name_part word;

    for (size_t i = 0; (word = next_word(&name)).at; i++) {
        if (word_is_any(word, entries, ARRAY_LEN(entries), true))
            allocates = generic = true;
        else if (word_is_any(word, verbs, ARRAY_LEN(verbs), false))
            allocates = true;
        else if (word.end - word.at > (i ? 1 : 2)) /* "PyMem_ArenaAlloc", "g_malloc0_n" */
            generic &= word_is_any(word, fillers, ARRAY_LEN(fillers), false);
    }
    return allocates && generic;
}

/* ---- Rust ---- */

/* Only of Rust: in C++ these crates may be the program's own namespaces. */
static enum code_kind kind_of_crate(struct name_part part)
{
    return name_in_rust_library(part) ? CODE_PLUMBING : FIND_PREFIX(allocator_crates, part);
}

/* Types that are of no crate are the language's own. */
static enum code_kind kind_of_path(struct name_part path)
{
    /* "<<app::A as Trait>::Item as Other>": the crate of the innermost type. */
    for (int nested = 0; nested < 8 && path.at < path.end && *path.at == '<'; nested++) {
        struct name_impl impl = name_split_impl(path);
        path = name_of_impl(&impl);
    }
    /* Types that belong to no crate: "T", "u8", "[T]", "(A, B)", "fn(u8)". */
    return *path.at == '<' || name_search(path, "::") ? kind_of_crate(path) : CODE_PLUMBING;
}

/* "core::run" may be the program's: functions of Rust's library are in modules. */
static bool has_module(struct name_part part)
{
    const char *crate = name_search(part, "::");

    return crate && name_search((struct name_part){crate + 2, part.end}, "::");
}

/* "<Type>::f" or "<Type as Trait>::f"; not "<lambda()>::operator()", which is of gcc. */
static bool begins_with_impl(struct name_part part)
{
    const char *behind = *part.at == '<' ? name_skip_bracket(part) : NULL;

    return behind && name_begins((struct name_part){behind, part.end}, "::") &&
           !name_begins(part, "<lambda");
}

static enum code_kind kind_in_rust(struct name_part part)
{
    if (begins_with_impl(part)) {
        /* An impl is in the crate of its type or of its trait; either may be the program's own. */
        struct name_impl impl = name_split_impl(part);
        if (impl.trait.at && name_begins(impl.trait, "core::alloc::"))
            return CODE_ALLOCATOR; /* GlobalAlloc: also a program's own one is an allocator */
        if (impl.trait.at && kind_of_path(impl.trait) == CODE_OWN)
            return CODE_OWN;
        return kind_of_path(name_of_impl(&impl));
    }
    if (name_search(part, "::<impl ")) /* "core::str::<impl str>::parse" */
        return kind_of_crate(part);
    /* C++ has parameters at the end: "core::Engine::run()"; Rust's names have none. */
    if (name_search(part, "("))
        return CODE_OWN;
    return has_module(part) ? kind_of_crate(part) : FIND_PREFIX(allocator_crates, part);
}

/* ---- Go and C ---- */

/* Go's runtime; "runtime.part.0" is a part of a function of C. */
static bool is_go_runtime(const char *name)
{
    static const char *const clones[] = {".part.", ".constprop.", ".isra.", ".cold", ".lto_priv."};

    if (strncmp(name, "runtime.", strlen("runtime.")) != 0)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(clones); i++)
        if (strstr(name, clones[i]))
            return false;
    return true;
}

static enum code_kind kind_of_plain(const char *name, struct name_part part)
{
    for (size_t i = 0; i < ARRAY_LEN(system_names); i++)
        if (strcmp(name, system_names[i]) == 0)
            return CODE_SYSTEM;
    /* "gc_alloc.constprop.0" is a part of gc_alloc. */
    size_t len = strcspn(name, ".");
    for (size_t i = 0; i < ARRAY_LEN(pool_names); i++)
        if (strncmp(name, pool_names[i], len) == 0 && !pool_names[i][len])
            return CODE_ALLOCATOR;
    enum code_kind kind = is_go_runtime(name) ? CODE_SYSTEM : FIND_PREFIX(plain_prefixes, part);
    part.end = name + len;
    return kind == CODE_OWN && !name[strcspn(name, ":<( ")] && is_wrapper(part) ? CODE_ALLOCATOR
                                                                                : kind;
}

enum code_kind code_kind(const char *name)
{
    struct name_part part = {name, name + strlen(name)};
    enum code_kind kind = kind_of_plain(name, part);
    char head[HEAD_SIZE];

    if (kind != CODE_OWN || name_is_tangled(part))
        return kind;
    kind = kind_in_rust(part);
    if (kind != CODE_OWN || begins_with_impl(part))
        return kind;
    short_name(name, head, sizeof head);
    part = (struct name_part){head, head + strlen(head)};
    kind = FIND_PREFIX(scopes, part);
    if (kind != CODE_OWN)
        return kind;
    for (const char *colons; (colons = name_search(part, "::"));)
        part.at = colons + 2;
    /* Of a class, or of its pool: "Sql_alloc::operator new", "rocksdb::Arena::Allocate". */
    return name_begins(part, "operator new") || is_wrapper(part) ? CODE_ALLOCATOR : CODE_OWN;
}

/* ---- modules ---- */

/* True if the file's name is the library's, with any version: "libc.so.6", "libc-2.31.so". */
static bool is_library(const char *file, const char *name)
{
    size_t len = strlen(name);
    const char *rest = file + len;

    if (strncmp(file, name, len) != 0)
        return false;
    return strncmp(rest, ".so", 3) == 0 || strncmp(rest, ".musl", 5) == 0 ||
           (*rest == '-' && rest[1] >= '0' && rest[1] <= '9');
}

enum code_kind code_kind_of_module(const char *path)
{
    static const char *const libraries[] = {
        "libc",     "libpthread", "libm",   "libdl",     "librt",     "libresolv",
        "libgcc_s", "libstdc++",  "libc++", "libc++abi", "libunwind", "ld",
    };
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;

    if (strstr(file, "jemalloc"))
        return CODE_ALLOCATOR;
    if (strncmp(file, "ld-linux", 8) == 0 || strncmp(file, "ld-musl", 7) == 0 ||
        strcmp(path, "[vdso]") == 0)
        return CODE_SYSTEM;
    for (size_t i = 0; i < ARRAY_LEN(libraries); i++)
        if (is_library(file, libraries[i]))
            return CODE_SYSTEM;
    return CODE_OWN;
}
