#include "jemalloc/names.h"
#include "jemalloc/faults.h"
#include "jemalloc/hooks.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

enum {
    INDEX_LIMIT = 65536,
    ARENAS_LIMIT = 4095, /* MALLOCX_ARENA_LIMIT: entries of arenas[] */
    ARENAS_ALL = 4096,   /* MALLCTL_ARENAS_ALL, since 5.0 */
};

static const char index_part[] = "<i>";

/* Returns the length of the first part of a name, up to the next dot. */
static size_t part_len(const char *text)
{
    return strcspn(text, ".");
}

static bool is_index_part(const char *pattern)
{
    return strncmp(pattern, index_part, sizeof index_part - 1) == 0;
}

/* Parses an index: decimal digits only, less than INDEX_LIMIT. */
static bool parse_index(const char *text, size_t len, unsigned *index)
{
    *index = 0;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        *index = *index * 10 + (unsigned)(text[i] - '0');
        if (*index >= INDEX_LIMIT)
            return false;
    }
    return len > 0;
}

/* Returns the part after this one; NULL at the end. */
static const char *next_name_part(const char *text)
{
    text += part_len(text);
    return *text ? text + 1 : NULL;
}

static bool name_fits(const char *pattern, const char *text)
{
    unsigned ignored;

    while (pattern && text) {
        size_t n = part_len(text);
        if (is_index_part(pattern) ? !parse_index(text, n, &ignored)
                                   : part_len(pattern) != n || memcmp(pattern, text, n) != 0)
            return false;
        pattern = next_name_part(pattern);
        text = next_name_part(text);
    }
    return !pattern && !text;
}

bool name_in_version(const struct ctl_name *name, struct version version)
{
    if (version.number == 0)
        return true;
    if (name->last && version.number > name->last)
        return false;
    return version.number >= name->first || version.commits > 0;
}

const struct ctl_name *names_find(const char *text, struct version version)
{
    const struct ctl_name *other = NULL;

    for (size_t i = 0; i < ctl_names_count; i++) {
        if (!name_fits(ctl_names[i].pattern, text))
            continue;
        if (name_in_version(&ctl_names[i], version))
            return &ctl_names[i];
        other = &ctl_names[i];
    }
    return other;
}

bool names_begin(const char *text)
{
    for (size_t i = 0; i < ctl_names_count; i++)
        for (const char *end = ctl_names[i].pattern; *end; end++) {
            char head[CTL_NAME_MAX];
            if (*end != '.')
                continue;
            snprintf(head, sizeof head, "%.*s", (int)(end - ctl_names[i].pattern),
                     ctl_names[i].pattern);
            if (name_fits(head, text))
                return true;
        }
    return false;
}

/* ---- suggestions ---- */

/* Writes the pattern with the indices in the same parts of text, or 0 where there are none. */
static void fill_indices(const char *pattern, const char *text, char out[CTL_NAME_MAX])
{
    size_t used = 0;
    unsigned index;

    for (; pattern; pattern = next_name_part(pattern), text = text ? next_name_part(text) : NULL) {
        const char *part = pattern;
        size_t n = part_len(pattern);
        if (is_index_part(pattern)) {
            n = text ? part_len(text) : 0;
            part = text && parse_index(text, n, &index) ? text : "0";
            n = part == text ? n : 1;
        }
        used += (size_t)snprintf(out + used, CTL_NAME_MAX - used, "%s%.*s", used ? "." : "", (int)n,
                                 part);
        if (used >= CTL_NAME_MAX)
            break;
    }
}

/*
 * Returns the number of insertions, deletions and replacements of a character
 * that turn a into b, but at most limit.
 */
static unsigned edit_distance(const char *a, const char *b, unsigned limit)
{
    unsigned row[CTL_NAME_MAX];
    size_t m = strlen(a), n = strlen(b);

    if ((m > n ? m - n : n - m) >= limit)
        return limit;
    for (size_t j = 0; j <= n; j++)
        row[j] = (unsigned)j;
    for (size_t i = 0; i < m; i++) {
        unsigned corner = row[0];
        row[0] = (unsigned)i + 1;
        for (size_t j = 0; j < n; j++) {
            unsigned above = row[j + 1], least = corner + (a[i] != b[j]);
            if (above + 1 < least)
                least = above + 1;
            row[j + 1] = row[j] + 1 < least ? row[j] + 1 : least;
            corner = above;
        }
    }
    return row[n];
}

bool names_suggest(const char *text, struct version version, char out[CTL_NAME_MAX])
{
    size_t len = strlen(text);
    unsigned best = (unsigned)len / 3 + 2;
    bool found = false;

    if (len == 0 || len >= CTL_NAME_MAX)
        return false;
    for (size_t i = 0; i < ctl_names_count; i++) {
        char name[CTL_NAME_MAX];
        size_t n;
        if (!name_in_version(&ctl_names[i], version))
            continue;
        fill_indices(ctl_names[i].pattern, text, name);
        n = strlen(name);
        /* "lg_sample" and "prof.lg_sample" */
        bool is_tail = n > len && name[n - len - 1] == '.' && strcmp(name + n - len, text) == 0;
        unsigned distance = is_tail ? 1 : edit_distance(text, name, best);
        if (distance >= best)
            continue;
        best = distance;
        found = true;
        memcpy(out, name, sizeof name);
    }
    return found;
}

/* ---- lists ---- */

bool name_covered(const struct ctl_name *name, const char *wildcard, char out[CTL_NAME_MAX])
{
    char filled[CTL_NAME_MAX];
    const char *pattern = name->pattern, *part = wildcard;
    unsigned ignored;

    for (; pattern; pattern = next_name_part(pattern), part = part ? next_name_part(part) : NULL)
        if (is_index_part(pattern) && (!part || !parse_index(part, part_len(part), &ignored)))
            return false;
    fill_indices(name->pattern, wildcard, filled);
    if (fnmatch(wildcard, filled, 0) != 0)
        return false;
    memcpy(out, filled, sizeof filled);
    return true;
}

/* ---- judgement ---- */

/*
 * arena_get reads arenas[index] without a check (jemalloc_internal_inlines_a.h),
 * and most of arena.<i>.* call it with the given index: the two special indices
 * are past the end of that array. Up to 4.0.4 it reads a copy of the array in the
 * thread, which ends with the last arena, and arena_i_index accepts one more.
 */
static bool index_is_safe(const struct ctl_name *name, const char *text, const struct build *build)
{
    static const char arena[] = "arena.";
    unsigned index;

    if (strncmp(text, arena, sizeof arena - 1) != 0)
        return true;
    text += sizeof arena - 1;
    if (!parse_index(text, part_len(text), &index))
        return false;
    if (version_within(build->version, VERSION_NUMBER(4, 0, 0), VERSION_NUMBER(4, 0, 99)) &&
        index >= build->arenas && !(name->traits & NAME_ALL_ARENAS))
        return false;
    return index < ARENAS_LIMIT || (index == ARENAS_ALL && name->traits & NAME_ALL_ARENAS);
}

bool name_hooks(const struct ctl_name *name, const char *text, unsigned use, int *scope)
{
    bool allocates = use != NAME_READ || name->traits & NAME_OF_PROF_THREAD;
    const char *index = next_name_part(text);
    unsigned arena;

    if (!(name->traits & NAME_HOOKS) || !allocates)
        return false;
    *scope = HOOKS_AUTOMATIC;
    if (is_index_part(next_name_part(name->pattern)) && parse_index(index, part_len(index), &arena))
        *scope = (int)arena;
    return true;
}

/*
 * The functions that look up a size class by its index also accept the length of
 * its array as an index (arenas_bin_i_index and similar ones, "i > NBINS"), so
 * they read past the end of that array.
 */
static bool class_is_safe(const char *text, const struct build *build)
{
    const struct {
        const char *part;
        unsigned count;
    } classes[] = {
        {"bin", build->bins},       {"bins", build->bins},    {"lextent", build->large},
        {"lextents", build->large}, {"lrun", build->runs},    {"lruns", build->runs},
        {"hchunk", build->huge},    {"hchunks", build->huge},
    };

    for (const char *next = next_name_part(text); next; text = next, next = next_name_part(next))
        for (size_t i = 0; i < ARRAY_LEN(classes); i++) {
            unsigned index;
            if (part_len(text) == strlen(classes[i].part) &&
                strncmp(text, classes[i].part, part_len(text)) == 0 && classes[i].count &&
                parse_index(next, part_len(next), &index) && index >= classes[i].count)
                return false;
        }
    return true;
}

unsigned name_use(const struct ctl_name *name, bool has_value)
{
    if (has_value)
        return NAME_WRITE;
    return name->access & NAME_ACT ? NAME_ACT : NAME_READ;
}

enum name_refusal name_judge(const struct ctl_name *name, const char *text, unsigned use,
                             const struct build *build)
{
    enum name_refusal always = use == NAME_READ ? name->read : name->write;

    if (!name_in_version(name, build->version))
        return NAME_OTHER_VERSION;
    if (always != NAME_ALLOWED)
        return always;
    if (name->traits & NAME_OF_STATS && build->config_stats != FACT_YES)
        return NAME_REFUSE_STATS;
    if (!(name->access & use)) {
        if (use != NAME_WRITE)
            return NAME_WRITE_ONLY;
        return name->access & NAME_READ ? NAME_READ_ONLY : NAME_TAKES_NO_VALUE;
    }
    if (!index_is_safe(name, text, build))
        return NAME_REFUSE_INDEX;
    if (!class_is_safe(text, build))
        return NAME_REFUSE_CLASS;
    /* Whether it can profile is read first, and never concluded from a return code. */
    if (name->traits & NAME_OF_PROF && use != NAME_READ) {
        if (build->config_prof != FACT_YES)
            return NAME_NEEDS_PROF_COMPILED;
        if (build->opt_prof != FACT_YES)
            return NAME_NEEDS_PROF;
    }
    if (name->traits & NAME_OF_PROF_THREAD && build->opt_prof != FACT_YES &&
        !(version_within(build->version, VERSION_NUMBER(5, 3, 0), 0) && !build->guessed))
        return NAME_REFUSE_PROF_THREAD;
    return NAME_ALLOWED;
}

/* ---- use ---- */

enum { OPS_OF_ONE = 2, BATCH_TEXTS = 4096, BUFFERS_OF_ONE = 512 };

/* Accesses whose calls go in one list. */
struct batch {
    struct injection *injection;
    const struct instance *instance;
    struct ctl_op ops[CTL_OPS_MAX];
    size_t op_count;
    struct access *first;
    size_t count;
    size_t texts_used; /* bytes of texts: the scratch area is small */
};

static bool is_readable(const struct access *access)
{
    return access->use == NAME_READ ||
           (access->use == NAME_WRITE && access->entry->access & NAME_READ);
}

static struct ctl_op *add_op(struct batch *batch, const struct access *access)
{
    struct ctl_op *op = &batch->ops[batch->op_count++];

    *op = (struct ctl_op){
        .name = access->name,
        .type = access->use == NAME_ACT ? CTL_VOID : access->type,
        .write_only = !is_readable(access),
        .into_buffer = access->entry->traits & NAME_INTO_BUFFER,
    };
    return op;
}

static fault_code run_batch(struct batch *batch, struct fault *fault)
{
    struct ctl_op *op = batch->ops + batch->op_count;
    fault_code rc = FAULT_NONE;

    if (batch->op_count)
        rc = ctl_run(batch->injection, batch->instance, batch->ops, batch->op_count, NULL, fault);
    /* Moves the texts from the operations to the accesses. */
    for (struct access *access = batch->first + batch->count;
         rc == FAULT_NONE && access-- > batch->first;) {
        if (is_readable(access)) {
            op--;
            access->has_now = op->rc == 0;
            access->now_value = op->value;
            access->now_text = steal_ptr(&op->text);
            access->rc = op->rc;
            if (access->use == NAME_READ)
                continue;
        }
        op--;
        access->has_old = is_readable(access) && op->rc == 0;
        access->old_value = op->value;
        access->old_text = steal_ptr(&op->text);
        access->rc = op->rc ? op->rc : access->rc;
    }
    ctl_free(batch->ops, batch->op_count);
    batch->first += batch->count;
    batch->count = batch->op_count = batch->texts_used = 0;
    return rc;
}

/*
 * Writes epoch if a name needs it, and the list itself does not. If it is refused, reading the
 * values fails too, so its result is not needed.
 */
static fault_code refresh_epoch(struct injection *injection, const struct instance *instance,
                                const struct access *list, size_t count, struct fault *fault)
{
    struct ctl_op op = {.name = "epoch", .type = CTL_UINT64, .writes = true, .new_value = 1};
    bool wanted = false;
    fault_code rc;

    for (size_t i = 0; i < count; i++) {
        if (strcmp(list[i].name, "epoch") == 0)
            return FAULT_NONE;
        wanted |= list[i].entry->traits & NAME_OF_EPOCH;
    }
    if (!wanted)
        return FAULT_NONE;
    rc = ctl_run(injection, instance, &op, 1, NULL, fault);
    if (rc == FAULT_NONE && op.rc != 0)
        rc = fault_set(fault, FAULT_CTL_REFUSED, op.rc, "mallctl", "epoch");
    return rc;
}

fault_code access_run(struct injection *injection, const struct instance *instance,
                      struct access *list, size_t count, struct fault *fault)
{
    struct batch batch = {.injection = injection, .instance = instance, .first = list};
    fault_code rc = refresh_epoch(injection, instance, list, count, fault);

    for (size_t i = 0; i < count && rc == FAULT_NONE; i++) {
        const struct access *access = &list[i];
        const bool has_text = access->use == NAME_WRITE && access->type == CTL_STRING;
        const size_t len = has_text ? strlen(access->text) + 1 : 0;
        /* Bytes in the scratch area, in addition to those of every operation. */
        const size_t size = len + (access->entry->traits & NAME_INTO_BUFFER ? BUFFERS_OF_ONE : 0);
        struct ctl_op *op;

        if (batch.op_count + OPS_OF_ONE > CTL_OPS_MAX || batch.texts_used + size > BATCH_TEXTS)
            rc = run_batch(&batch, fault);
        if (rc != FAULT_NONE)
            break;
        batch.count++;
        batch.texts_used += size;
        op = add_op(&batch, access);
        if (access->use != NAME_WRITE)
            continue;
        op->writes = true;
        op->new_value = access->value;
        if (len)
            op->new_text = injection_put(injection, access->text, len);
        if (is_readable(access))
            add_op(&batch, access);
        if (len && !op->new_text)
            return fault_set(fault, FAULT_INTERNAL, E2BIG, "mallctl", "%s", access->name);
    }
    return rc == FAULT_NONE ? run_batch(&batch, fault) : rc;
}

bool access_kept(const struct access *access)
{
    if (access->use != NAME_WRITE || !access->has_now || access->entry->traits & NAME_ADJUSTS)
        return true;
    if (access->type != CTL_STRING)
        return access->now_value == access->value;
    return access->now_text && strcmp(access->now_text, access->text) == 0;
}

void access_free(struct access *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(list[i].old_text);
        free(list[i].now_text);
        list[i].old_text = list[i].now_text = NULL;
    }
}
