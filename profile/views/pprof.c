#include "profile/views/pprof.h"
#include "base/list.h"
#include "base/text.h"
#include "base/util.h"
#include "profile/views/gzip.h"
#include "profile/views/wire.h"

#include <string.h>

/* Field numbers of profile.proto. */
enum profile_field {
    PROFILE_SAMPLE_TYPE = 1,
    PROFILE_SAMPLE,
    PROFILE_MAPPING,
    PROFILE_LOCATION,
    PROFILE_FUNCTION,
    PROFILE_STRING,
    PROFILE_TIME_NANOS = 9,
    PROFILE_PERIOD_TYPE = 11,
    PROFILE_PERIOD,
    PROFILE_COMMENT,
    PROFILE_DEFAULT_SAMPLE_TYPE,
};
enum { VALUE_TYPE = 1, VALUE_UNIT };
enum { SAMPLE_LOCATION = 1, SAMPLE_VALUE, SAMPLE_LABEL };
enum { LABEL_KEY = 1, LABEL_STRING, LABEL_NUMBER, LABEL_UNIT };
enum {
    MAPPING_ID = 1,
    MAPPING_START,
    MAPPING_LIMIT,
    MAPPING_OFFSET,
    MAPPING_FILE,
    MAPPING_BUILD_ID,
    MAPPING_HAS_FUNCTIONS,
    MAPPING_HAS_FILES,
    MAPPING_HAS_LINES,
    MAPPING_HAS_INLINES,
};
enum { LOCATION_ID = 1, LOCATION_MAPPING, LOCATION_ADDRESS, LOCATION_LINE };
enum { LINE_FUNCTION = 1, LINE_NUMBER };
enum { FUNCTION_ID = 1, FUNCTION_NAME, FUNCTION_LINKAGE, FUNCTION_FILE, FUNCTION_START_LINE };

struct pprof {
    const struct samples *samples;
    struct gzip *gzip;
    struct wire field, message, inner; /* nested; kept to reuse their memory */
    const char **strings;              /* sorted by their numbers */
    size_t string_count, string_capacity;
    struct table string_table;
    bool *used; /* locations that a sample has */
    bool no_memory;
};

static bool same_string(const void *ctx, uint32_t place, const void *key)
{
    const struct pprof *pprof = ctx;
    return strcmp(pprof->strings[place], key) == 0;
}

/* Returns the number of a string, which must live until the end; "" is 0. */
static uint64_t string_number(struct pprof *pprof, const char *text)
{
    uint64_t hash = table_hash_bytes(&pprof->string_table, text, strlen(text));
    uint32_t place = TABLE_NONE;

    if (LIST_GROW(pprof->strings, pprof->string_capacity, pprof->string_count)) {
        place = table_put(&pprof->string_table, hash, same_string, pprof, text,
                          (uint32_t)pprof->string_count);
    }
    if (place == TABLE_NONE) {
        pprof->no_memory = true;
        return 0;
    }
    if (place == pprof->string_count)
        pprof->strings[pprof->string_count++] = text;
    return place;
}

/* Writes the field of the whole profile that `message` contains, and empties it. */
static void write_field(struct pprof *pprof, unsigned field)
{
    wire_reset(&pprof->field);
    wire_message(&pprof->field, field, &pprof->message);
    wire_reset(&pprof->message);
    if (!pprof->field.no_memory)
        gzip_write(pprof->gzip, pprof->field.bytes, pprof->field.len);
    else
        pprof->no_memory = true;
}

static void emit_number(struct pprof *pprof, unsigned field, uint64_t value)
{
    wire_reset(&pprof->field);
    wire_number(&pprof->field, field, value);
    gzip_write(pprof->gzip, pprof->field.bytes, pprof->field.len);
}

static void emit_value_type(struct pprof *pprof, unsigned field, const char *type, const char *unit)
{
    wire_number(&pprof->message, VALUE_TYPE, string_number(pprof, type));
    wire_number(&pprof->message, VALUE_UNIT, string_number(pprof, unit));
    write_field(pprof, field);
}

/* Accumulated numbers exist only with opt.prof_accum; columns of zeros would mislead. */
static enum value first_value(const struct pprof *pprof)
{
    return pprof->samples->accumulates ? VALUE_TOTAL_OBJECTS : VALUE_OBJECTS;
}

static void write_types(struct pprof *pprof, const struct display *display)
{
    for (enum value value = first_value(pprof); value < VALUE_KINDS; value++) {
        bool bytes = value == VALUE_BYTES || value == VALUE_TOTAL_BYTES;
        emit_value_type(pprof, PROFILE_SAMPLE_TYPE, value_name(value), bytes ? "bytes" : "count");
    }
    emit_value_type(pprof, PROFILE_PERIOD_TYPE, "space", "bytes");
    emit_number(pprof, PROFILE_PERIOD, pprof->samples->period);
    emit_number(pprof, PROFILE_DEFAULT_SAMPLE_TYPE,
                string_number(pprof, value_name(display->value)));
}

static void add_label(struct pprof *pprof, const char *key, const char *text, uint64_t number,
                      const char *unit)
{
    wire_reset(&pprof->inner);
    wire_number(&pprof->inner, LABEL_KEY, string_number(pprof, key));
    wire_number(&pprof->inner, LABEL_STRING, string_number(pprof, text));
    wire_number(&pprof->inner, LABEL_NUMBER, number);
    wire_number(&pprof->inner, LABEL_UNIT, string_number(pprof, unit));
    wire_message(&pprof->message, SAMPLE_LABEL, &pprof->inner);
}

static void add_labels(struct pprof *pprof, const struct sample *sample)
{
    const struct samples *samples = pprof->samples;

    if (sample->size && !samples->compares)
        add_label(pprof, "bytes", "", sample->size, "bytes");
    if (sample->thread == TABLE_NONE)
        return;
    if (*samples->threads[sample->thread].name)
        add_label(pprof, "thread", samples->threads[sample->thread].name, 0, "");
    add_label(pprof, "thread_id", "", samples->threads[sample->thread].uid, "");
}

/* A stack without a growth in any of its values is not part of a difference. */
static bool has_values(const struct pprof *pprof, const struct sample *sample)
{
    for (enum value value = first_value(pprof); value < VALUE_KINDS; value++)
        if (amount_growth(&sample->values[value]) != 0)
            return true;
    return false;
}

static void write_sample(struct pprof *pprof, const struct sample *sample)
{
    const uint32_t *calls = &pprof->samples->calls[sample->first];

    if (!has_values(pprof, sample))
        return;
    wire_reset(&pprof->inner);
    for (uint32_t i = 0; i < sample->depth; i++) {
        wire_varint(&pprof->inner, (uint64_t)calls[i] + 1);
        pprof->used[calls[i]] = true;
    }
    wire_message(&pprof->message, SAMPLE_LOCATION, &pprof->inner);
    wire_reset(&pprof->inner);
    for (enum value value = first_value(pprof); value < VALUE_KINDS; value++)
        wire_varint(&pprof->inner, (uint64_t)amount_growth(&sample->values[value]));
    wire_message(&pprof->message, SAMPLE_VALUE, &pprof->inner);
    add_labels(pprof, sample);
    write_field(pprof, PROFILE_SAMPLE);
}

/* Returns the build-id as hexadecimal text, kept with the other strings. */
static const char *build_id_text(const struct build_id *id, struct arena *arena)
{
    char text[2 * BUILD_ID_MAX + 1] = "";

    for (size_t i = 0; i < id->len && i < BUILD_ID_MAX; i++)
        snprintf(text + 2 * i, 3, "%02x", id->bytes[i]);
    return arena_string(arena, text, strlen(text));
}

static void write_mapping(struct pprof *pprof, size_t number, struct arena *arena)
{
    const struct location_mapping *mapping = &pprof->samples->locations.mappings[number];
    const char *build_id = build_id_text(&mapping->build_id, arena);
    struct wire *message = &pprof->message;

    wire_number(message, MAPPING_ID, number + 1);
    wire_number(message, MAPPING_START, mapping->start);
    wire_number(message, MAPPING_LIMIT, mapping->end);
    wire_number(message, MAPPING_OFFSET, mapping->offset);
    wire_number(message, MAPPING_FILE, string_number(pprof, mapping->path));
    wire_number(message, MAPPING_BUILD_ID, string_number(pprof, build_id ? build_id : ""));
    wire_number(message, MAPPING_HAS_FUNCTIONS, mapping->has_functions);
    wire_number(message, MAPPING_HAS_FILES, mapping->has_files);
    wire_number(message, MAPPING_HAS_LINES, mapping->has_lines);
    wire_number(message, MAPPING_HAS_INLINES, mapping->has_inlines);
    write_field(pprof, PROFILE_MAPPING);
}

/*
 * pprof looks for its own symbols in a mapping without known data
 * (has_functions not set): its locations get no lines.
 */
static bool is_for_pprof(const struct locations *locations, const struct location *location)
{
    return !location->named && location->mapping != TABLE_NONE &&
           !locations->mappings[location->mapping].has_functions;
}

static void write_location(struct pprof *pprof, size_t number)
{
    const struct locations *locations = &pprof->samples->locations;
    const struct location *location = &locations->list[number];

    if (!pprof->used[number])
        return;
    wire_number(&pprof->message, LOCATION_ID, number + 1);
    if (location->mapping != TABLE_NONE)
        wire_number(&pprof->message, LOCATION_MAPPING, (uint64_t)location->mapping + 1);
    wire_number(&pprof->message, LOCATION_ADDRESS, location->address);
    for (uint32_t i = 0; i < location->count && !is_for_pprof(locations, location); i++) {
        const struct location_line *line = &locations->lines[location->first + i];
        wire_reset(&pprof->inner);
        wire_number(&pprof->inner, LINE_FUNCTION, (uint64_t)line->function + 1);
        wire_number(&pprof->inner, LINE_NUMBER, line->line);
        wire_message(&pprof->message, LOCATION_LINE, &pprof->inner);
    }
    write_field(pprof, PROFILE_LOCATION);
}

static void write_function_field(struct pprof *pprof, size_t number)
{
    const struct function *function = &pprof->samples->locations.functions[number];
    const char *linkage = *function->linkage ? function->linkage : function->name;

    wire_number(&pprof->message, FUNCTION_ID, number + 1);
    wire_number(&pprof->message, FUNCTION_NAME, string_number(pprof, function->name));
    wire_number(&pprof->message, FUNCTION_LINKAGE, string_number(pprof, linkage));
    wire_number(&pprof->message, FUNCTION_FILE, string_number(pprof, function->file));
    wire_number(&pprof->message, FUNCTION_START_LINE, function->start_line);
    write_field(pprof, PROFILE_FUNCTION);
}

/* Strings of a protocol buffer are UTF-8; names of a target may contain anything. */
static void write_string(struct pprof *pprof, const char *text)
{
    AUTO_FREE char *clean = text_copy_clean(text, "");

    if (!clean) {
        pprof->no_memory = true;
        return;
    }
    wire_reset(&pprof->field);
    wire_bytes(&pprof->field, PROFILE_STRING, clean, strlen(clean));
    if (!pprof->field.no_memory)
        gzip_write(pprof->gzip, pprof->field.bytes, pprof->field.len);
}

static void write_all_fields(struct pprof *pprof, const struct display *display,
                             const struct pprof_info *info)
{
    const struct locations *locations = &pprof->samples->locations;
    struct arena build_ids = {0};

    string_number(pprof, "");
    write_types(pprof, display);
    for (size_t i = 0; i < pprof->samples->count; i++)
        write_sample(pprof, &pprof->samples->list[i]);
    for (size_t i = 0; i < locations->mapping_count; i++)
        write_mapping(pprof, i, &build_ids);
    for (size_t i = 0; i < locations->count; i++)
        write_location(pprof, i);
    for (size_t i = 0; i < locations->function_count; i++)
        write_function_field(pprof, i);
    emit_number(pprof, PROFILE_TIME_NANOS, info->time_ns);
    for (size_t i = 0; i < info->comment_count; i++)
        emit_number(pprof, PROFILE_COMMENT, string_number(pprof, info->comments[i]));
    for (size_t i = 0; i < pprof->string_count; i++)
        write_string(pprof, pprof->strings[i]);
    arena_free(&build_ids);
}

enum pprof_result pprof_write(const struct samples *samples, const struct display *display,
                              const struct pprof_info *info, FILE *out)
{
    struct pprof pprof = {.samples = samples, .gzip = gzip_open(out)};

    if (!pprof.gzip)
        return PPROF_NO_ZLIB;
    table_init(&pprof.string_table);
    pprof.used = calloc(samples->locations.count + 1, sizeof *pprof.used);
    if (pprof.used)
        write_all_fields(&pprof, display, info);
    if (!gzip_close(pprof.gzip) || !pprof.used)
        pprof.no_memory = true;
    pprof.no_memory |= pprof.field.no_memory || pprof.message.no_memory || pprof.inner.no_memory;
    wire_free(&pprof.field);
    wire_free(&pprof.message);
    wire_free(&pprof.inner);
    free(pprof.strings);
    free(pprof.used);
    table_free(&pprof.string_table);
    return pprof.no_memory ? PPROF_NO_MEMORY : PPROF_DONE;
}
