#include "jemalloc/census.h"
#include "attach/memory.h"
#include "attach/target_paths.h"
#include "elf/scope.h"
#include "host/codefiles.h"
#include "jemalloc/faults.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { HEAD_BYTES = 4096, SLOTS_FIRST = 1024, ENVIRON_MAX = 4 << 20 };

/* A jemalloc in a file; addresses are those of the process in which it was first seen. */
struct file_jemalloc {
    struct instance instance; /* instance.module.path is not valid */
    struct fact_variables variables;
};

struct file_key {
    uint64_t inode, content;
    uint64_t code_size; /* 0 in keys of whole files */
    unsigned dev_major, dev_minor;
};

struct file_slot {
    struct file_key key;
    bool used;
    struct file_jemalloc *found; /* NULL: no jemalloc in this file */
};

/*
 * There are two kinds of keys: the first page of a file, for a file that was
 * examined, and the first bytes of its code, for one that has no jemalloc
 * (code_key).
 */
struct census {
    struct file_slot *slots; /* open addressing; the size is a power of two */
    size_t size, count;
    struct code_file *code; /* of the process that is examined */
    struct gate gate;
    void (*tell)(void *ctx, const void *record, size_t size); /* may be NULL */
    void *ctx;
};

struct file_record {
    struct file_key key;
    uint64_t has_jemalloc;      /* a bool: no byte of the record is padding */
    struct file_jemalloc found; /* only if has_jemalloc */
};

struct census *census_new(void)
{
    struct census *census = calloc(1, sizeof *census);

    if (!census)
        return NULL;
    census->size = SLOTS_FIRST;
    census->slots = calloc(SLOTS_FIRST, sizeof *census->slots);
    census->code = calloc(CODE_FILES_MAX, sizeof *census->code);
    if (!census->slots || !census->code) {
        census_free(census);
        return NULL;
    }
    gate_init(&census->gate);
    return census;
}

void census_free(struct census *census)
{
    if (!census)
        return;
    for (size_t i = 0; census->slots && i < census->size; i++)
        free(census->slots[i].found);
    free(census->slots);
    free(census->code);
    free(census);
}

static uint64_t mix_hash(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

/*
 * Makes a key of the first page as it is mapped: the ELF header, the program
 * headers and, with present-day linkers, the build-id.
 */
static bool file_key(struct memory *memory, const struct module *module, struct file_key *key)
{
    uint64_t words[HEAD_BYTES / sizeof(uint64_t)], hash = 0;

    if (!memory_read(memory, module->start, words, sizeof words))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        hash = mix_hash(hash, words[i]);
    memset(key, 0, sizeof *key);
    key->inode = module->inode;
    key->content = hash;
    key->dev_major = module->dev_major;
    key->dev_minor = module->dev_minor;
    return true;
}

/* Makes a key of the part of a file that is mapped as code. It has a size, unlike file_key's. */
static void code_key(const struct code_file *code, struct file_key *key)
{
    uint64_t words[CODE_HEAD / sizeof(uint64_t)], hash = mix_hash(code->size, code->offset);

    memcpy(words, code->head, sizeof words);
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        hash = mix_hash(hash, words[i]);
    memset(key, 0, sizeof *key);
    key->inode = code->inode;
    key->content = hash;
    key->code_size = code->size;
    key->dev_major = code->dev_major;
    key->dev_minor = code->dev_minor;
}

/* Returns the slot of a file, or the free slot for it. */
static struct file_slot *slot_find(const struct census *census, const struct file_key *key)
{
    uint64_t hash = mix_hash(mix_hash(key->content, key->inode), key->dev_minor);

    for (size_t i = hash & (census->size - 1);; i = (i + 1) & (census->size - 1)) {
        struct file_slot *slot = &census->slots[i];
        if (!slot->used || memcmp(&slot->key, key, sizeof *key) == 0)
            return slot;
    }
}

static bool slots_grow(struct census *census)
{
    struct census larger = {.size = census->size * 2};

    if (census->count * 2 < census->size)
        return true;
    larger.slots = calloc(larger.size, sizeof *larger.slots);
    if (!larger.slots)
        return false;
    for (size_t i = 0; i < census->size; i++)
        if (census->slots[i].used)
            *slot_find(&larger, &census->slots[i].key) = census->slots[i];
    free(census->slots);
    census->slots = larger.slots;
    census->size = larger.size;
    return true;
}

/* Takes over found. */
static void census_add(struct census *census, struct file_slot *slot, const struct file_key *key,
                       struct file_jemalloc *found)
{
    struct file_record record = {.key = *key, .has_jemalloc = found != NULL};

    *slot = (struct file_slot){*key, true, found};
    census->count++;
    if (!census->tell)
        return;
    if (found)
        record.found = *found;
    census->tell(census->ctx, &record, found ? sizeof record : offsetof(struct file_record, found));
}

void census_on_file(struct census *census, void (*tell)(void *ctx, const void *record, size_t size),
                    void *ctx)
{
    census->tell = tell;
    census->ctx = ctx;
}

/* Nothing in the calling process reads more of a record than its key before it is forked. */
bool census_learn(struct census *census, const void *record, size_t size)
{
    struct file_record taken;
    struct file_jemalloc *found = NULL;

    memset(&taken, 0, sizeof taken);
    if (size < offsetof(struct file_record, found) || size > sizeof taken)
        return false;
    memcpy(&taken, record, size);
    if (taken.has_jemalloc > 1 ||
        size != (taken.has_jemalloc ? sizeof taken : offsetof(struct file_record, found)))
        return false;
    if (!slots_grow(census) || slot_find(census, &taken.key)->used)
        return true;
    if (taken.has_jemalloc && !(found = malloc(sizeof *found)))
        return true;
    if (found)
        *found = taken.found;
    census_add(census, slot_find(census, &taken.key), &taken.key, found);
    return true;
}

/* True if all code of the process is from files that are known to have no jemalloc. */
static bool all_known(const struct census *census, ssize_t count)
{
    for (ssize_t i = 0; i < count; i++) {
        struct file_key key;
        code_key(&census->code[i], &key);
        if (!slot_find(census, &key)->used)
            return false;
    }
    return count > 0;
}

/* One process while it is examined. */
struct look {
    struct census *census;
    struct target target;
    struct modules modules;
    struct memory memory;
    bool opened; /* target is open */
    bool missed; /* some of its files could not be examined */
};

static bool is_examined(const struct look *look, const struct code_file *code)
{
    for (size_t i = 0; i < look->modules.count; i++) {
        const struct module *module = &look->modules.list[i];
        if (module->inode == code->inode && module->dev_major == code->dev_major &&
            module->dev_minor == code->dev_minor && module->exec_start != module->exec_end)
            return true;
    }
    return false;
}

/*
 * Caches the files of count mappings of code in a process without jemalloc. The
 * list was read before the files were examined: after an exec in between it is
 * that of another program, with files that were not examined.
 */
static void remember_files(struct look *look, ssize_t count)
{
    for (ssize_t i = 0; i < count && !look->missed && slots_grow(look->census); i++) {
        struct file_key key;
        code_key(&look->census->code[i], &key);
        struct file_slot *slot = slot_find(look->census, &key);
        if (slot->used || !is_examined(look, &look->census->code[i]))
            continue;
        census_add(look->census, slot, &key, NULL);
    }
}

/* Examines a file that is seen for the first time; NULL: no jemalloc, or out of memory. */
static struct file_jemalloc *examine_file(struct look *look, const struct module *module)
{
    struct file_jemalloc *found = malloc(sizeof *found);

    if (!found || !instance_in_module(&found->instance, module, &look->target, &look->memory)) {
        free(found);
        return NULL;
    }
    facts_locate(&found->variables, &found->instance, &look->modules, &look->target, &look->memory);
    found->instance.module.path = NULL;
    return found;
}

static fault_code target_open_once(struct look *look, struct fault *fault)
{
    if (look->opened)
        return FAULT_NONE;
    look->opened = true;
    return target_open(&look->target, look->target.proc, look->target.pid, fault);
}

/* Finds the cached result for the file of a module, or examines it. */
static fault_code module_jemalloc(struct look *look, const struct module *module,
                                  const struct file_jemalloc **out, struct fault *fault)
{
    struct file_key key;
    struct file_slot *slot;
    fault_code rc;

    *out = NULL;
    if (!file_key(&look->memory, module, &key)) {
        if (errno == EPERM || errno == EACCES)
            return fault_set(fault, FAULT_DENIED, errno, "read memory", "%d", look->target.pid);
        look->missed = true;
        return FAULT_NONE; /* past the end of its file, or of another process */
    }
    if (!slots_grow(look->census))
        return fault_set(fault, FAULT_INTERNAL, ENOMEM, "remember files", "%d", look->target.pid);
    slot = slot_find(look->census, &key);
    if (!slot->used) {
        rc = target_open_once(look, fault);
        if (rc != FAULT_NONE)
            return rc;
        struct file_jemalloc *found = examine_file(look, module);
        /* If the process has ended, the result is not about the file. */
        if (!found && (rc = target_check(&look->target, fault)) != FAULT_NONE)
            return rc;
        census_add(look->census, slot, &key, found);
    }
    *out = slot->found;
    return FAULT_NONE;
}

/* Chooses like instance_find the jemalloc that serves malloc: without prefix, else the first. */
static fault_code choose_jemalloc(struct look *look, const struct file_jemalloc **best,
                                  const struct module **where, struct fault *fault)
{
    *best = NULL;
    for (size_t i = 0; i < look->modules.count; i++) {
        const struct module *module = &look->modules.list[i];
        const struct file_jemalloc *found;
        if (module->inode == 0 || module->exec_start == module->exec_end)
            continue;
        fault_code rc = module_jemalloc(look, module, &found, fault);
        if (rc != FAULT_NONE)
            return rc;
        if (!found || (*best && (found->instance.prefix[0] || !(*best)->instance.prefix[0])))
            continue;
        *best = found;
        *where = module;
    }
    if (!*best)
        return fault_set(fault, FAULT_NO_ALLOCATOR, 0, "look for jemalloc", "%zu modules",
                         look->modules.count);
    return FAULT_NONE;
}

/* True for "libjemalloc.so" and "libjemalloc.so.2": two names of one library. */
static bool same_library(const char *a, size_t a_len, const char *b)
{
    const char *slash = memrchr(a, '/', a_len);
    const char *end = a + a_len, *a_so, *b_so = strstr(b, ".so");

    a = slash ? slash + 1 : a;
    a_so = memmem(a, (size_t)(end - a), ".so", 3);
    if (a_so && b_so)
        return a_so - a == b_so - b && memcmp(a, b, (size_t)(a_so - a)) == 0;
    return strlen(b) == (size_t)(end - a) && memcmp(a, b, (size_t)(end - a)) == 0;
}

/* True if the list contains the name; blanks and colons separate (ld.so(8), LD_PRELOAD). */
static bool list_names(const char *list, const char *name)
{
    while (*(list += strspn(list, " \t\n:"))) {
        size_t n = strcspn(list, " \t\n:");
        if (same_library(list, n, name))
            return true;
        list += n;
    }
    return false;
}

/*
 * Searches the environment of the exec: strings, each ended by a NUL. A program that
 * has written its title over them (PostgreSQL, nginx) leaves empty ones: unknown.
 */
static enum fact environ_preloads(struct look *look, const char *name)
{
    static const char variable[] = "LD_PRELOAD=";
    AUTO_FREE char *text = NULL;
    ssize_t n = environ_read(&look->target, &look->memory, &text, ENVIRON_MAX);
    bool intact = n >= 0;

    for (ssize_t at = 0; at < n; at += (ssize_t)strlen(text + at) + 1) {
        if (strncmp(text + at, variable, sizeof variable - 1) == 0)
            return list_names(text + at + sizeof variable - 1, name) ? FACT_YES : FACT_NO;
        intact = intact && text[at];
    }
    return intact ? FACT_NO : FACT_UNKNOWN;
}

static bool file_preloads(const struct look *look, const char *name)
{
    char text[4096];
    AUTO_CLOSE int fd = target_open_file(&look->target, "/etc/ld.so.preload");
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);

    if (n <= 0)
        return false;
    text[n] = '\0';
    return list_names(text, name);
}

static enum linkage linkage_of(struct look *look, const struct file_jemalloc *found,
                               const struct module *module)
{
    enum scope_cause cause;
    enum fact named;

    if (found->instance.in_program)
        return LINKAGE_STATIC;
    cause = scope_cause_of(&look->modules, &look->memory, module);
    if (cause == SCOPE_PRELOADED)
        return LINKAGE_PRELOADED;
    named = environ_preloads(look, module_name(module));
    if (named == FACT_YES || file_preloads(look, module_name(module)))
        return LINKAGE_PRELOADED;
    return cause == SCOPE_NEEDED || named == FACT_NO ? LINKAGE_SHARED : LINKAGE_UNKNOWN;
}

static fault_code look_at_modules(struct look *look, struct census_entry *entry,
                                  struct fault *fault)
{
    const struct file_jemalloc *found = NULL;
    const struct module *module = NULL;
    struct fact_variables variables;
    fault_code rc = modules_load(&look->modules, &look->target, fault);

    /*
     * A process whose first thread has ended, and one without memory, have no
     * mappings; target_open distinguishes them.
     */
    if (rc == FAULT_GONE) {
        rc = target_open_once(look, fault);
        if (rc == FAULT_NONE)
            rc = modules_load(&look->modules, &look->target, fault);
    }
    if (rc != FAULT_NONE)
        return rc;
    memory_open(&look->memory, &look->target, &look->census->gate);
    modules_tell_memory(&look->modules, &look->memory);
    rc = choose_jemalloc(look, &found, &module, fault);
    if (rc == FAULT_NONE)
        rc = target_open_once(look, fault);
    if (rc != FAULT_NONE)
        return rc;

    /* The addresses are moved to those of the file in this process. */
    variables = found->variables;
    for (size_t i = 0; i < VARIABLE_COUNT; i++)
        if (variables.at[i].address)
            variables.at[i].address += module->start - found->instance.module.start;
    entry->stat = look->target.stat;
    entry->status = look->target.status;
    snprintf(entry->path, sizeof entry->path, "%s", module->path);
    memcpy(entry->prefix, found->instance.prefix, sizeof entry->prefix);
    entry->found_by = found->instance.found_by;
    entry->linkage = linkage_of(look, found, module);
    facts_read(&variables, &look->memory, &entry->prof);
    return target_check(&look->target, fault);
}

fault_code census_look(struct census *census, struct procfs *proc, pid_t pid,
                       struct census_entry *entry, struct fault *fault)
{
    struct look look = {
        .census = census,
        .target = {.proc = proc, .pid = pid, .pidfd = -1},
        .memory = {.memfd = -1, .mapsfd = -1},
    };
    ssize_t code = code_files(proc, pid, census->code);
    fault_code rc;

    if (all_known(census, code))
        return fault_set(fault, FAULT_NO_ALLOCATOR, 0, "look for jemalloc", "%zd files", code);
    rc = look_at_modules(&look, entry, fault);
    if (rc == FAULT_NO_ALLOCATOR)
        remember_files(&look, code);

    modules_free(&look.modules);
    memory_close(&look.memory);
    target_close(&look.target);
    return rc;
}
