#include "profile/symbols/symbols.h"
#include "attach/target.h"
#include "base/interruptions.h"
#include "base/list.h"
#include "base/search.h"
#include "base/table.h"
#include "profile/names/code_kind.h"
#include "profile/symbols/module_files.h"
#include "profile/symbols/perf_map.h"
#include "profile/symbols/reader.h"

#include <errno.h>
#include <string.h>

enum { GIVEN_LINES_MAX = 256 }; /* calls of a name that the profile gives, with inlined ones */

struct mapping {
    struct symbol_mapping given; /* path in the arena, build_id in id */
    struct build_id id;
    size_t module;
};

/* The tool's part of a module. */
struct known_module {
    const struct mapping *mapping; /* the first one */
    const char *path;
    bool opened;
    struct module_files files;
    enum symbols_lack lack;
    int err;
    enum symbols_loss loss;
    uint64_t addresses, with_function, with_line;
    bool asked;                   /* the reader knows what it lacks */
    struct debug_missing missing; /* its path is in the arena */
};

struct answer {
    uint64_t address;
    const struct symbol_line *lines;
    size_t count;
    bool asked;
    bool generated; /* the name is of the perf map */
};

struct symbols {
    struct symbols_options options;
    struct mapping *mappings; /* sorted by address */
    size_t mapping_count;
    struct known_module *modules;
    struct child_module *trusts; /* of the modules */
    size_t module_count;
    struct reader reader;
    struct table table; /* of answers, by address */
    struct answer *answers;
    size_t answer_count, answer_capacity;
    struct table generated_table; /* of the lines of the perf map, by name */
    const struct symbol_line **generated;
    size_t generated_count, generated_capacity;
    struct arena arena;
    struct map_names map_names;
    struct target_alias alias;
    bool finished;
};

static bool copy_strings(struct symbols *symbols, const struct symbols_options *options)
{
    struct arena *arena = &symbols->arena;
    const char **dirs = arena_alloc(arena, options->debug_dir_count * sizeof *dirs);

    symbols->options = *options;
    if (options->root &&
        !(symbols->options.root = arena_string(arena, options->root, strlen(options->root))))
        return false;
    for (size_t i = 0; dirs && i < options->debug_dir_count; i++)
        if (!(dirs[i] =
                  arena_string(arena, options->debug_dirs[i], strlen(options->debug_dirs[i]))))
            return false;
    symbols->options.debug_dirs = dirs;
    if (options->program)
        symbols->options.program = arena_string(arena, options->program, strlen(options->program));
    return dirs && !symbols->options.program == !options->program;
}

static int compare_mappings(const void *a, const void *b)
{
    const struct mapping *x = a, *y = b;

    return (x->given.start > y->given.start) - (x->given.start < y->given.start);
}

/* Successive mappings with the same path belong to one file. */
static void find_modules(struct symbols *symbols)
{
    qsort(symbols->mappings, symbols->mapping_count, sizeof *symbols->mappings, compare_mappings);
    for (size_t i = 0; i < symbols->mapping_count; i++) {
        struct mapping *mapping = &symbols->mappings[i];
        const struct mapping *last = i ? mapping - 1 : NULL;
        mapping->given.build_id = mapping->id.len ? &mapping->id : NULL;
        if (!last || strcmp(mapping->given.path, last->given.path) != 0 ||
            mapping->id.len != last->id.len ||
            memcmp(mapping->id.bytes, last->id.bytes, last->id.len) != 0)
            symbols->modules[symbols->module_count++] = (struct known_module){
                .mapping = mapping, .path = mapping->given.path, .files.fd = -1};
        mapping->module = symbols->module_count - 1;
    }
    for (size_t i = 0; i < symbols->module_count; i++)
        symbols->trusts[i].lines = !symbols->options.no_inlines &&
                                   (symbols->options.system_lines ||
                                    code_kind_of_module(symbols->modules[i].path) != CODE_SYSTEM);
}

struct symbols *symbols_new(const struct symbol_mapping *mappings, size_t count,
                            const struct symbols_options *options)
{
    struct symbols *symbols = calloc(1, sizeof *symbols);

    if (!symbols)
        return NULL;
    table_init(&symbols->table);
    table_init(&symbols->generated_table);
    symbols->mapping_count = count;
    symbols->mappings = calloc(count + 1, sizeof *symbols->mappings);
    symbols->modules = calloc(count + 1, sizeof *symbols->modules);
    symbols->trusts = calloc(count + 1, sizeof *symbols->trusts);
    bool good =
        symbols->mappings && symbols->modules && symbols->trusts && copy_strings(symbols, options);
    for (size_t i = 0; good && i < count; i++) {
        struct mapping *copy = &symbols->mappings[i];
        const char *path = mappings[i].path ? mappings[i].path : "";
        const char *last = i ? copy[-1].given.path : "";
        copy->given = mappings[i];
        copy->given.file = mappings[i].file ? symbols->options.program : NULL;
        if (mappings[i].build_id) {
            copy->id = *mappings[i].build_id;
            copy->id.len = copy->id.len <= BUILD_ID_MAX ? copy->id.len : BUILD_ID_MAX;
        }
        copy->given.path =
            strcmp(path, last) == 0 ? last : arena_string(&symbols->arena, path, strlen(path));
        good = copy->given.path != NULL;
    }
    if (!good) {
        symbols_free(symbols);
        return NULL;
    }
    target_alias_find(&symbols->alias, options->target);
    find_modules(symbols);
    symbols->reader = (struct reader){.modules = symbols->trusts,
                                      .module_count = symbols->module_count,
                                      .deadline = options->deadline,
                                      .arena = &symbols->arena};
    return symbols;
}

const char *symbols_file_name(const struct symbols *symbols, const char *path)
{
    return target_file_name(&symbols->alias, path);
}

static void close_modules(struct symbols *symbols)
{
    reader_end(&symbols->reader);
    for (size_t i = 0; i < symbols->module_count; i++)
        module_files_close(&symbols->modules[i].files);
}

void symbols_finish(struct symbols *symbols)
{
    if (!symbols->options.once)
        return;
    close_modules(symbols);
    table_free(&symbols->table);
    free(symbols->answers);
    symbols->answers = NULL;
    symbols->finished = true;
}

void symbols_free(struct symbols *symbols)
{
    if (!symbols)
        return;
    close_modules(symbols);
    map_names_free(&symbols->map_names);
    table_free(&symbols->table);
    table_free(&symbols->generated_table);
    free(symbols->generated);
    arena_free(&symbols->arena);
    free(symbols->answers);
    free(symbols->mappings);
    free(symbols->modules);
    free(symbols->trusts);
    free(symbols);
}

static const struct mapping *mapping_at(const struct symbols *symbols, uint64_t address)
{
    size_t low =
        SEARCH_FIRST(i, symbols->mapping_count, address < symbols->mappings[i].given.start);
    return low > 0 && address < symbols->mappings[low - 1].given.end ? &symbols->mappings[low - 1]
                                                                     : NULL;
}

/* ---- what the reader is asked ---- */

/* The addresses of one question, which are the last of all answers. */
struct question {
    struct symbols *symbols;
    struct channel_address *list;
    uint32_t *places; /* of their answers */
    size_t count, answered;
};

static int open_wanted(void *ctx, size_t number, const struct file_wanted *wanted)
{
    const struct question *question = ctx;
    struct known_module *module = &question->symbols->modules[number];
    int fd;

    if (!module->opened || module->lack)
        return -ENOENT;
    fd = module_files_want(&module->files, module->path, &question->symbols->options, wanted);
    if (fd == -EDQUOT || fd == -EFBIG || fd == -ETIME)
        module->loss = SYMBOLS_LOSS_WORK;
    return fd;
}

static void take_lines(void *ctx, size_t number, const struct symbol_line *lines, size_t count)
{
    const struct question *question = ctx;
    struct symbols *symbols = question->symbols;
    struct known_module *module = &symbols->modules[question->list[number].module];
    struct answer *answer = &symbols->answers[question->places[number]];
    struct symbol_line *copy = arena_alloc(&symbols->arena, count * sizeof *copy);

    if (!copy || !count)
        return;
    memcpy(copy, lines, count * sizeof *copy);
    answer->lines = copy;
    answer->count = count;
    module->with_function++;
    module->with_line += lines[0].line != 0;
}

static void take_state(void *ctx, const struct channel_state *state, const char *split_path)
{
    struct known_module *module = &((const struct question *)ctx)->symbols->modules[state->module];

    module->lack = (enum symbols_lack)state->lack;
    module->missing = (struct debug_missing){state->split_missing, split_path};
}

static enum symbols_loss loss_of(enum reader_end end)
{
    switch (end) {
    case READER_MEMORY:
        return SYMBOLS_LOSS_MEMORY;
    case READER_TIME:
        return SYMBOLS_LOSS_TIME;
    case READER_INTERRUPTED:
        return SYMBOLS_LOSS_INTERRUPTED;
    case READER_NONE:
        return SYMBOLS_LOSS_NO_READER;
    default:
        return SYMBOLS_LOSS_CRASHED;
    }
}

/*
 * The reader ended while it worked on an address: less is read of that module. If nothing was read
 * of it any more, the reader cannot work here at all.
 */
static bool go_on_without(struct question *question, enum reader_end end)
{
    struct symbols *symbols = question->symbols;
    const size_t last = question->count - 1; /* it may have ended after its last answer */
    const size_t module =
        question->list[question->answered < last ? question->answered : last].module;

    if (end == READER_INTERRUPTED || end == READER_NONE ||
        symbols->trusts[module].trust == SYMBOLS_TRUST_NONE) {
        for (size_t i = question->answered; i < question->count; i++)
            symbols->modules[question->list[i].module].loss = loss_of(end);
        return false;
    }
    symbols->modules[module].loss = loss_of(end);
    symbols->trusts[module].trust++;
    return true;
}

static void ask_reader(struct question *question)
{
    struct reader *reader = &question->symbols->reader;
    const struct reader_client client = {
        .lines = take_lines,
        .state = take_state,
        .opener = {open_wanted, question},
        .ctx = question,
    };
    enum reader_end end;

    reader->client = &client;
    do
        end = reader_lines(reader, question->list, question->count, &question->answered);
    while (end != READER_DONE && go_on_without(question, end));
    reader->client = NULL;
}

static bool same_answer_address(const void *ctx, uint32_t place, const void *key)
{
    const struct symbols *symbols = ctx;
    return symbols->answers[place].address == *(const uint64_t *)key;
}

/* Returns the place of the answer for an address; TABLE_NONE: out of memory. */
static uint32_t answer_place(struct symbols *symbols, uint64_t address)
{
    uint32_t next = (uint32_t)symbols->answer_count, place;

    if (symbols->answer_count >= TABLE_NONE ||
        !LIST_GROW(symbols->answers, symbols->answer_capacity, symbols->answer_count))
        return TABLE_NONE;
    place = table_put(&symbols->table, table_hash_number(&symbols->table, address),
                      same_answer_address, symbols, &address, next);
    if (place == next) {
        symbols->answers[next] = (struct answer){.address = address};
        symbols->answer_count++;
    }
    return place;
}

/* The name of a call may be that of the address behind it: jeprof has only that of innermost ones.
 */
static const char *given_name(const struct symbols_options *options, uint64_t address)
{
    const size_t i = SEARCH_FIRST(k, options->given_count, address <= options->given[k].address);

    return i < options->given_count && options->given[i].address - address <= 1
               ? options->given[i].text
               : NULL;
}

/* Returns the "--" that ends the first function of a line of inlined ones; NULL: there is one. */
static char *next_inlined(const char *name)
{
    static const char op[] = "operator";
    const char *at = strstr(name, "--");

    while (at && (size_t)(at - name) >= sizeof op - 1 &&
           memcmp(at - (sizeof op - 1), op, sizeof op - 1) == 0)
        at = strstr(at + 2, "--");
    return (char *)(uintptr_t)at;
}

/* Makes lines of "outer--inner", innermost first. */
static void take_given(struct symbols *symbols, const struct mapping *mapping,
                       struct answer *answer)
{
    const char *name = given_name(&symbols->options, answer->address);
    struct known_module *module = mapping ? &symbols->modules[mapping->module] : NULL;
    struct symbol_line *lines = NULL;
    char *copy = NULL;
    size_t count = 1;

    if (module)
        module->addresses++;
    for (char *at = name ? next_inlined(name) : NULL; at; at = next_inlined(at + 2))
        count++;
    if (name && symbols->reader.bytes < READER_BYTES_MAX && count <= GIVEN_LINES_MAX) {
        symbols->reader.bytes += strlen(name) + count * sizeof *lines;
        copy = arena_string(&symbols->arena, name, strlen(name));
        lines = arena_alloc(&symbols->arena, count * sizeof *lines);
    }
    if (!copy || !lines)
        return;
    for (size_t i = count; i-- > 0;) {
        char *end = next_inlined(copy);
        if (end)
            *end = '\0';
        lines[i] = (struct symbol_line){.function = copy, .linkage = copy};
        copy = end ? end + 2 : copy;
    }
    answer->lines = lines;
    answer->count = count;
    if (module)
        module->with_function++;
}

void symbols_ask(struct symbols *symbols, const uint64_t *addresses, size_t count)
{
    const struct deadline *deadline = symbols->options.deadline;
    const uint64_t former = deadline ? interruptions_end_at(deadline->at) : 0;
    struct question question = {.symbols = symbols};
    AUTO_FREE struct channel_address *list = reallocarray(NULL, count + 1, sizeof *list);
    AUTO_FREE uint32_t *places = reallocarray(NULL, count + 1, sizeof *places);

    for (size_t i = 0; list && places && !symbols->finished && i < count; i++) {
        const struct mapping *mapping = mapping_at(symbols, addresses[i]);
        const uint32_t place = answer_place(symbols, addresses[i]);
        if (place == TABLE_NONE || symbols->answers[place].asked)
            continue;
        symbols->answers[place].asked = true;
        if (symbols->options.given_count)
            take_given(symbols, mapping, &symbols->answers[place]);
        if (!mapping || symbols->options.given_count)
            continue;
        struct known_module *module = &symbols->modules[mapping->module];
        if (!module->opened)
            module->lack =
                module_files_open(&module->files, &mapping->given, &symbols->options, &module->err);
        module->opened = true;
        module->addresses++;
        if (module->lack && !module->asked)
            continue;
        module->asked = true;
        list[question.count] = (struct channel_address){
            addresses[i] - mapping->given.start + mapping->given.offset, mapping->module};
        places[question.count++] = place;
    }
    question.list = list;
    question.places = places;
    if (question.count)
        ask_reader(&question);
    if (symbols->options.once) /* while it lives, each page that the tool writes is copied */
        reader_end(&symbols->reader);
    if (deadline)
        (void)interruptions_end_at(former);
}

size_t symbols_lines(struct symbols *symbols, uint64_t address, const struct symbol_line **lines)
{
    uint32_t place;

    *lines = NULL;
    if (symbols->finished)
        return 0;
    place = answer_place(symbols, address);
    if (place == TABLE_NONE)
        return 0;
    if (!symbols->answers[place].asked)
        symbols_ask(symbols, &address, 1);
    *lines = symbols->answers[place].lines;
    return symbols->answers[place].count;
}

bool symbols_find_map(struct symbols *symbols)
{
    return map_names_open(&symbols->map_names, &symbols->options);
}

static bool same_generated(const void *ctx, uint32_t place, const void *key)
{
    return strcmp(((const struct symbols *)ctx)->generated[place]->linkage, key) == 0;
}

/* Returns the line of a name of the perf map, which many addresses may have; NULL: no memory. */
static const struct symbol_line *line_of(struct symbols *symbols, const char *name)
{
    const uint64_t hash = table_hash_bytes(&symbols->generated_table, name, strlen(name));
    uint32_t place = table_find(&symbols->generated_table, hash, same_generated, symbols, name);
    struct symbol_line *line;

    if (place != TABLE_NONE)
        return symbols->generated[place];
    line = arena_alloc(&symbols->arena, sizeof *line);
    name = arena_string(&symbols->arena, name, strlen(name));
    if (!line || !name ||
        !LIST_GROW(symbols->generated, symbols->generated_capacity, symbols->generated_count))
        return NULL;
    jit_name_line(&symbols->arena, name, line);
    if (line->function == name)
        line->function = reader_demangle(&symbols->reader, name);
    place = table_put(&symbols->generated_table, hash, same_generated, symbols, name,
                      (uint32_t)symbols->generated_count);
    if (place != TABLE_NONE)
        symbols->generated[symbols->generated_count++] = line;
    return place == TABLE_NONE ? NULL : line;
}

void symbols_read_map(struct symbols *symbols)
{
    struct map_names *names = &symbols->map_names;

    for (size_t i = 0; i < symbols->answer_count; i++)
        if (!symbols->answers[i].count || symbols->answers[i].generated)
            if (!map_names_want(names, symbols->answers[i].address))
                break;
    map_names_read(names);
    /*
     * In a sequence of profiles an address keeps its first name: its samples are older
     * than the code that may have replaced it, and another name would look like growth.
     */
    for (size_t i = 0; i < symbols->answer_count; i++) {
        struct answer *answer = &symbols->answers[i];
        const char *name = answer->count ? NULL : map_names_find(names, answer->address);
        const struct symbol_line *line = name ? line_of(symbols, name) : NULL;
        if (!line)
            continue;
        const struct mapping *mapping = mapping_at(symbols, answer->address);
        if (mapping)
            symbols->modules[mapping->module].with_function++;
        if (mapping && line->line)
            symbols->modules[mapping->module].with_line++;
        *answer = (struct answer){answer->address, line, 1, true, true};
    }
}

int symbols_map_error(const struct symbols *symbols)
{
    return symbols->map_names.err;
}

bool symbols_build_id(struct symbols *symbols, uint64_t address, struct build_id *out)
{
    const struct mapping *mapping = mapping_at(symbols, address);

    if (!mapping)
        return false;
    *out = symbols->modules[mapping->module].files.build_id;
    return out->len > 0;
}

size_t symbols_asked(const struct symbols *symbols)
{
    return symbols->answer_count;
}

bool symbols_coverage(const struct symbols *symbols, size_t index, struct symbols_coverage *out)
{
    const struct known_module *module;

    if (index >= symbols->module_count)
        return false;
    module = &symbols->modules[index];
    *out = (struct symbols_coverage){
        .path = module->path,
        .addresses = module->addresses,
        .with_function = module->with_function,
        .with_line = module->with_line,
        .lack = module->lack,
        .doubt = module->files.doubt,
        .err = module->err,
        .loss = module->loss,
        .trust = symbols->trusts[index].trust,
        .split_missing = module->missing.count,
        .split_path = module->missing.path,
    };
    return true;
}
