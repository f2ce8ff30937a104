#include "jemalloc/facts.h"
#include "elf/sections.h"
#include "jemalloc/stripped/stripped.h"
#include "jemalloc/stripped/xrefs.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum {
    CHUNK = 1 << 20,
    OVERLAP = 256,            /* longer than any version string, so that none is split */
    CONSTANTS_MAX = 256 << 20 /* limit of bytes read from one file */
};

/* "MAJOR.MINOR.PATCH-N-g" and one word (configure.ac, jemalloc_version, from git describe). */
static size_t version_len(const char *text, size_t len)
{
    static const char shape[] = "#.#.#-#-g";
    size_t n = 0, word;

    for (const char *p = shape; *p; p++) {
        size_t first = n;
        if (*p != '#') {
            if (n == len || text[n++] != *p)
                return 0;
            continue;
        }
        while (n < len && isdigit((unsigned char)text[n]))
            n++;
        if (n == first || n - first > 9)
            return 0;
    }
    for (word = n; n < len && (isalnum((unsigned char)text[n]) || text[n] == '_');)
        n++;
    return n > word && n < len && text[n] == '\0' ? n : 0;
}

int facts_version(const char *bytes, size_t len, char *out, size_t size)
{
    const char *end = bytes + len, *mark = bytes;
    int found = 0;

    for (; (mark = memmem(mark, (size_t)(end - mark), "-g", 2)); mark += 2) {
        const char *start = mark;
        unsigned hyphens = 0;
        size_t n;

        /* The digits and points before it: a version must start there. */
        while (start > bytes && (isdigit((unsigned char)start[-1]) || start[-1] == '.' ||
                                 (start[-1] == '-' && ++hyphens < 2)))
            start--;
        n = version_len(start, (size_t)(end - start));
        if (!n || n >= size)
            continue;
        /* A word before it: "v1.2.3-0-gabc" is the version of something else. */
        if (start == bytes || isgraph((unsigned char)start[-1]))
            continue;
        if (out[0] && (strlen(out) != n || memcmp(out, start, n) != 0))
            return -1;
        memcpy(out, start, n);
        out[n] = '\0';
        found = 1;
    }
    return found;
}

/* Searches chunk by chunk; the last bytes of a chunk stay in buf for the next one. */
static int vma_version(const struct vma *vma, struct memory *memory, char *buf, char *out,
                       size_t size)
{
    size_t kept = 1;
    int found = 0;

    buf[0] = '\0';
    for (remote_addr at = vma->start; at < vma->end;) {
        size_t n = vma->end - at < CHUNK ? (size_t)(vma->end - at) : CHUNK;
        if (!memory_read(memory, at, buf + kept, n))
            return found;
        int rc = facts_version(buf, kept + n, out, size);
        if (rc < 0)
            return rc;
        found |= rc;
        at += n;
        n += kept;
        kept = n < OVERLAP ? n : OVERLAP;
        memmove(buf, buf + n - kept, kept);
    }
    return found;
}

/* Searches the constants of a module: without write permission; with or without execution. */
static int module_version(const struct modules *modules, size_t module, bool in_code,
                          struct memory *memory, char *buf, char *out, size_t size)
{
    uint64_t left = CONSTANTS_MAX;
    int found = 0;

    for (size_t i = 0; i < modules->vma_count && found >= 0; i++) {
        const struct vma *vma = &modules->vmas[i];
        if (vma->module != (int)module || vma->prot & MAP_WRITE ||
            ((vma->prot & MAP_EXEC) != 0) != in_code || vma->end - vma->start > left)
            continue;
        left -= vma->end - vma->start;
        int rc = vma_version(vma, memory, buf, out, size);
        found = rc < 0 ? rc : found | rc;
    }
    return found;
}

/*
 * Searches all constants. If there are two different versions, one belongs to
 * something else, and it is unknown which.
 */
static void locate_version(struct fact_variables *variables, const struct instance *instance,
                           const struct modules *modules, struct memory *memory)
{
    const struct module *module = modules_at(modules, instance->mallctl);
    AUTO_FREE char *buf = NULL;
    int found = 0;

    buf = malloc(CHUNK + OVERLAP);
    if (!module || !buf)
        return;
    /* Constants are not in code; but old linkers put them there. */
    for (int in_code = 0; in_code < 2 && found == 0; in_code++)
        found = module_version(modules, (size_t)(module - modules->list), in_code, memory, buf,
                               variables->version, sizeof variables->version);
    if (found < 0)
        variables->version[0] = '\0';
}

/* Private names follow the private namespace, "je_" unless configured differently. */
static const struct {
    const char *name;
    enum fact_variable which;
    uint64_t size; /* 0: any */
} private_names[] = {
    {"opt_prof", VARIABLE_OPT_PROF, 1},
    {"prof_active", VARIABLE_PROF_ACTIVE, 1},
    {"prof_active_state", VARIABLE_PROF_ACTIVE, 1},
    {"prof_thread_active_init", VARIABLE_THREAD_INIT, 1},
    {"lg_prof_sample", VARIABLE_LG_SAMPLE, 8},
    {"opt_prof_prefix", VARIABLE_PREFIX, 0},
    {"opt_prof_unbias", VARIABLE_UNBIAS, 1},
    {"bt2gctx", VARIABLE_STACKS, 0},
    {"tdatas", VARIABLE_THREADS, 0},
};

static const char version_function[] = "version_ctl";

/* The names to search .symtab for. */
static const struct name_pattern fact_names[] = {
    NAME_ENDS_WITH("opt_prof"),
    NAME_ENDS_WITH("prof_active"),
    NAME_ENDS_WITH("prof_active_state"),
    NAME_ENDS_WITH("lg_prof_sample"),
    NAME_ENDS_WITH("opt_prof_prefix"),
    NAME_ENDS_WITH("prof_thread_active_init"),
    NAME_ENDS_WITH("opt_prof_unbias"),
    NAME_IS("bt2gctx"),
    NAME_IS("tdatas"),
    NAME_BEGINS_WITH("bt2gctx."),
    NAME_BEGINS_WITH("tdatas."),
    NAME_BEGINS_WITH("prof_thread_active_init."),
    NAME_IS(version_function),
};

struct variable_search {
    struct fact_variables *variables;
    bool twice[VARIABLE_COUNT];
    struct symbol version; /* the function that serves the name "version" */
    unsigned versions;     /* how many such functions there are */
};

/* Link-time optimization may rename what is static: tdatas.lto_priv.0 (gcc), tdatas.llvm.123. */
static bool is_private_name(const char *name, const char *variable)
{
    const char *dot = strchr(name, '.');
    size_t n = strlen(name), m = strlen(variable);

    if (dot && (strncmp(dot, ".lto_priv.", 10) == 0 || strncmp(dot, ".llvm.", 6) == 0))
        n = (size_t)(dot - name);
    if (n < m || memcmp(name + n - m, variable, m) != 0)
        return false;
    return n == m || (n - m >= 3 && memcmp(name + n - m - 3, "je_", 3) == 0);
}

static bool visit_fact_symbol(void *ctx, const char *name, const struct symbol *symbol)
{
    struct variable_search *search = ctx;

    if (symbol->type == STT_FUNC) {
        /* ctl.c, CTL_RO_NL_GEN(version, ...): static in all versions, so it has no prefix. */
        if (strcmp(name, version_function) == 0 && symbol->local && symbol->file &&
            strncmp(symbol->file, "ctl.", 4) == 0) {
            search->version = *symbol;
            search->versions++;
        }
        return true;
    }
    for (size_t i = 0; i < ARRAY_LEN(private_names); i++) {
        enum fact_variable which = private_names[i].which;
        if (!is_private_name(name, private_names[i].name) ||
            (private_names[i].size && symbol->size != private_names[i].size))
            continue;
        if (search->variables->at[which].address &&
            search->variables->at[which].address != symbol->address)
            search->twice[which] = true;
        search->variables->at[which].address = symbol->address;
        search->variables->at[which].size = symbol->size;
    }
    return true;
}

/* With two jemallocs in one file, a name found twice is ambiguous and not used. */
static void locate_names(struct fact_variables *variables, const struct instance *instance,
                         const struct target *target, struct memory *memory)
{
    static const struct name_query names = {.patterns = fact_names, .count = ARRAY_LEN(fact_names)};
    struct variable_search search = {.variables = variables};
    struct view view;
    AUTO_CLOSE int fd = module_open(&instance->module, target, memory);

    if (fd < 0 || !symtab_visit_all(fd, instance->bias, &names, visit_fact_symbol, &search))
        return;
    for (size_t i = 0; i < VARIABLE_COUNT; i++)
        if (search.twice[i])
            variables->at[i].address = 0;
    /* Reads the version from one small function, so the size of the file does not matter. */
    if (search.versions == 1 && view_open(&view, &instance->module, target, memory)) {
        remote_addr start = search.version.address;
        if (!xrefs_version_in(&view, start, start + search.version.size, variables->version,
                              sizeof variables->version))
            variables->version[0] = '\0';
        view_close(&view);
    }
}

void facts_locate(struct fact_variables *variables, const struct instance *instance,
                  const struct modules *modules, const struct target *target, struct memory *memory)
{
    char version[sizeof variables->version];
    struct globals globals;

    memset(variables, 0, sizeof *variables);
    locate_names(variables, instance, target, memory);
    if (!variables->version[0] || !variables->at[VARIABLE_OPT_PROF].address ||
        !variables->at[VARIABLE_LG_SAMPLE].address) {
        /* Facts from the tables certainly belong to jemalloc. */
        stripped_facts(instance, target, memory, version, sizeof version, &globals);
        const remote_addr found[VARIABLE_COUNT] = {
            [VARIABLE_OPT_PROF] = globals.opt_prof,
            [VARIABLE_PROF_ACTIVE] = globals.prof_active,
            [VARIABLE_THREAD_INIT] = globals.thread_init,
            [VARIABLE_LG_SAMPLE] = globals.lg_sample,
            [VARIABLE_PREFIX] = globals.prefix,
        };
        if (!variables->version[0])
            memcpy(variables->version, version, sizeof version);
        for (size_t i = 0; i < VARIABLE_COUNT; i++)
            if (!variables->at[i].address)
                variables->at[i].address = found[i];
    }
    if (!variables->version[0])
        locate_version(variables, instance, modules, memory);
}

/* A C bool is 0 or 1: with any other value it is not the expected variable. */
static enum fact read_bool(const struct fact_variables *variables, enum fact_variable which,
                           struct memory *memory)
{
    unsigned char value;

    if (!variables->at[which].address ||
        !memory_read(memory, variables->at[which].address, &value, sizeof value) || value > 1)
        return FACT_UNKNOWN;
    return fact_of(value);
}

void facts_read(const struct fact_variables *variables, struct memory *memory,
                struct prof_state *state)
{
    const remote_addr period = variables->at[VARIABLE_LG_SAMPLE].address;
    const remote_addr prefix = variables->at[VARIABLE_PREFIX].address;
    const uint64_t prefix_size = variables->at[VARIABLE_PREFIX].size;
    struct build *build = &state->build;

    memset(state, 0, sizeof *state);
    memcpy(build->text, variables->version, sizeof build->text);
    build->version = version_parse(build->text);
    build->opt_prof = read_bool(variables, VARIABLE_OPT_PROF, memory);
    /* Without profiling it has one byte, else it is a path (prof.c, PROF_DUMP_FILENAME_LEN). */
    if (build->opt_prof == FACT_YES)
        build->config_prof = FACT_YES;
    else if (prefix && prefix_size)
        build->config_prof = fact_of(prefix_size > 1);
    state->prof_active = read_bool(variables, VARIABLE_PROF_ACTIVE, memory);
    state->thread_active_init = read_bool(variables, VARIABLE_THREAD_INIT, memory);
    /* Up to 5.2.1 it can be true without opt.prof, and then has no effect. */
    if (build->opt_prof == FACT_NO)
        state->prof_active = FACT_NO;
    state->lg_sample_known =
        period && memory_read(memory, period, &state->lg_sample, 8) && state->lg_sample < 64;
    state->prefix_known =
        prefix && memory_read_string(memory, prefix, state->prefix, sizeof state->prefix) >= 0;
}
