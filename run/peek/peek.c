#include "run/peek/peek.h"
#include "attach/target.h"
#include "host/pagemap.h"
#include "run/faults.h"
#include "run/peek/peek_draw.h"
#include "run/peek/peek_rows.h"

#include <errno.h>
#include <string.h>

/*
 * Which bytes of a process are read: only those in pages that are present, because a read by
 * another process brings a page back from swap, or makes one that was never written
 * (host/pagemap.h). Of a core file each read is harmless.
 */

enum { PRESENCE_WINDOW = 16 }; /* pages: one takes the kernel as long as all of them */

struct presence_map {
    struct pagemap pages; /* unused of a core file */
    bool is_file;
    uint64_t first; /* number of the first page that was looked up last, with those after it */
    enum page_state states[PRESENCE_WINDOW];
};

/* What cannot be looked up counts as empty: then it is not read. */
static enum page_state presence_at(struct presence_map *map, remote_addr addr)
{
    enum page_state found;
    uint64_t page;

    if (map->is_file)
        return PAGE_PRESENT;
    page = addr / map->pages.page;
    if (page - map->first >= PRESENCE_WINDOW) {
        map->first = page;
        pagemap_states(&map->pages, addr, map->states, PRESENCE_WINDOW);
    }
    found = map->states[page - map->first];
    return found == PAGE_UNKNOWN ? PAGE_EMPTY : found;
}

/* Returns how many of the len bytes from addr on are in pages that are present, one after the
 * other. */
static size_t presence_len(struct presence_map *map, remote_addr addr, size_t len)
{
    remote_addr at = addr;

    if (map->is_file)
        return len;
    while (at - addr < len && presence_at(map, at) == PAGE_PRESENT)
        at = (at / map->pages.page + 1) * map->pages.page;
    return at - addr < len ? (size_t)(at - addr) : len;
}

enum { BATCH = 128 };

static const char stage[] = "look at the objects";

struct peek_pass {
    struct peek *peek;
    struct attachment *attachment;
    const struct peek_request *request;
    struct extents *extents;
    struct presence_map presence;
    struct extent last; /* that was read after the pieces of the batch; objects 0: none */
    struct peek_piece {
        size_t len; /* 0: not to be read */
        bool read;
    } pieces[2 * BATCH];
    unsigned char first[BATCH][CONTENT_FIRST], second[BATCH][CONTENT_SECOND];
};

static fault_code peek_out_of_memory(struct fault *fault)
{
    return fault_set(fault, FAULT_INTERNAL, ENOMEM, stage, "the sample");
}

static fault_code check_peek_time(const struct attachment *attachment, struct fault *fault)
{
    int pid = (int)attachment->target.pid;

    if (deadline_interrupted(&attachment->deadline))
        return fault_set(fault, FAULT_INTERRUPTED, EINTR, stage, "%d", pid);
    if (deadline_passed(&attachment->deadline))
        return fault_set(fault, FAULT_TOO_LATE, ETIMEDOUT, stage, "its memory was being read");
    return FAULT_NONE;
}

/* ---- the choice ---- */

struct offer {
    struct peek_draw draw;
    const struct attachment *attachment;
    const struct peek_request *request;
    size_t extents;
    fault_code ended;
    struct fault fault;
};

static bool is_asked_for(const struct peek_request *request, uint64_t size)
{
    for (size_t i = 0; i < request->size_count; i++)
        if (request->sizes[i] == size)
            return true;
    return !request->size_count;
}

static bool offer_extent(void *ctx, const struct extent *extent)
{
    struct offer *offer = ctx;

    if (++offer->extents % 1024 == 0)
        offer->ended = check_peek_time(offer->attachment, &offer->fault);
    return offer->ended == FAULT_NONE &&
           (!is_asked_for(offer->request, extent->size) || peek_draw_offer(&offer->draw, extent));
}

static fault_code choose_objects(struct peek_pass *pass, struct fault *fault)
{
    const size_t wanted = pass->request->samples ? pass->request->samples : PEEK_SAMPLES;
    struct offer offer = {
        .draw = {.peek = pass->peek,
                 .samples = wanted < PEEK_SAMPLES_MAX ? wanted : PEEK_SAMPLES_MAX},
        .attachment = pass->attachment,
        .request = pass->request};
    fault_code rc = extents_each(pass->extents, offer_extent, &offer, &pass->peek->pass, fault);

    if (offer.ended != FAULT_NONE) {
        *fault = offer.fault;
        return offer.ended;
    }
    if (rc == FAULT_NONE && (offer.draw.failed || !peek_draw_choose(&offer.draw)))
        return peek_out_of_memory(fault);
    return rc;
}

/* ---- the reads ---- */

static uint64_t size_of_sample(const struct peek *peek, const struct peek_sample *sample)
{
    return peek->classes[sample->of].size;
}

static void read_if_present(struct peek_pass *pass, struct peek_piece *piece, remote_addr addr,
                            size_t len, void *into)
{
    *piece = (struct peek_piece){.len = presence_len(&pass->presence, addr, len)};
    if (!piece->len)
        return;
    piece->read = memory_read(&pass->attachment->memory, addr, into, piece->len);
    pass->peek->bytes_read += piece->read ? piece->len : 0;
    pass->peek->pieces++;
}

static void read_sample(struct peek_pass *pass, struct peek_sample *sample, size_t at)
{
    uint64_t size = size_of_sample(pass->peek, sample);
    struct peek_piece *pieces = &pass->pieces[2 * at];

    pieces[1].len = 0;
    read_if_present(pass, &pieces[0], sample->addr, size < CONTENT_FIRST ? size : CONTENT_FIRST,
                    pass->first[at]);
    if (!pieces[0].len) {
        sample->state = presence_at(&pass->presence, sample->addr) == PAGE_SWAPPED ? PEEK_SWAPPED
                                                                                   : PEEK_UNWRITTEN;
        return;
    }
    if (size >= CONTENT_LARGE)
        read_if_present(pass, &pieces[1], sample->addr + size / 2, CONTENT_SECOND,
                        pass->second[at]);
}

/* After the read: what was released before it must not be judged. */
static bool is_still_in_use(struct peek_pass *pass, const struct peek_sample *sample)
{
    struct extent *extent = &pass->last;
    uint64_t at;

    if (pass->request->is_still)
        return true;
    /* Samples are in the order of addresses, so those of a slab follow each other. */
    if (sample->addr < extent->start ||
        sample->addr - extent->start >= extent->size * extent->objects)
        extent->objects = extents_at(pass->extents, sample->addr, extent) ? extent->objects : 0;
    if (!extent->objects || sample->addr < extent->start ||
        extent->size != size_of_sample(pass->peek, sample))
        return false;
    at = (sample->addr - extent->start) / extent->size;
    return at < extent->objects && extent_in_use(extent, (uint32_t)at) &&
           extent_object(extent, (uint32_t)at) == sample->addr;
}

static void keep_shown(struct peek_sample *sample, const struct content_bytes *pieces)
{
    const bool second = sample->content.in_middle;
    const unsigned char *bytes = second ? pieces->second : pieces->first;
    const size_t len = second ? pieces->second_len : pieces->first_len;
    size_t at = sample->content.kind == CONTENT_TEXT ? sample->content.at : 0;
    size_t end = sample->content.kind == CONTENT_TEXT ? at + sample->content.text_len : len;

    end = end < len ? end : len;
    sample->shown_len = (uint8_t)(end - at < PEEK_SHOWN ? end - at : PEEK_SHOWN);
    memcpy(sample->shown, bytes + at, sample->shown_len);
}

static void judge_sample(struct peek_pass *pass, struct peek_sample *sample, size_t at)
{
    const struct peek_piece *pieces = &pass->pieces[2 * at];
    const struct content_bytes bytes = {
        .addr = sample->addr,
        .size = size_of_sample(pass->peek, sample),
        .first = pass->first[at],
        .first_len = pieces[0].len,
        .second = pass->second[at],
        .second_len = pieces[1].len && pieces[1].read ? pieces[1].len : 0,
    };

    if (!is_still_in_use(pass, sample))
        sample->state = PEEK_FREED;
    if (sample->state != PEEK_CHOSEN)
        return;
    if (!pieces[0].read) {
        sample->state = pass->request->is_still ? PEEK_UNWRITTEN : PEEK_FREED;
        return;
    }
    sample->content = contents_judge(pass->peek->contents, &bytes);
    keep_shown(sample, &bytes);
    sample->state = PEEK_JUDGED;
}

static fault_code look_at_samples(struct peek_pass *pass, struct fault *fault)
{
    struct peek *peek = pass->peek;
    fault_code rc = FAULT_NONE;

    for (size_t i = 0; rc == FAULT_NONE && i < peek->sample_count; i += BATCH) {
        size_t left = peek->sample_count - i, n = left < BATCH ? left : BATCH;
        for (size_t k = 0; k < n; k++)
            read_sample(pass, &peek->samples[i + k], k);
        pass->last.objects = 0;
        for (size_t k = 0; k < n; k++)
            judge_sample(pass, &peek->samples[i + k], k);
        rc = check_peek_time(pass->attachment, fault);
    }
    return rc;
}

/* ---- all of it ---- */

/* A profile that cannot be read can be had by a call; the objects cannot. */
static fault_code refuse_objects(fault_code rc, struct fault *fault)
{
    if (rc == FAULT_UNREADABLE)
        rc = fault->code = FAULT_OBJECTS_UNREADABLE;
    return rc;
}

static fault_code open_peek(struct peek_pass *pass, struct fault *fault)
{
    struct attachment *attachment = pass->attachment;
    const struct target *target = &attachment->target;
    struct reader_source source = attachment_source(attachment, &attachment->deadline);
    struct presence_map *presence = &pass->presence;
    int err = 0;

    *presence = (struct presence_map){.is_file = target->record != NULL, .first = UINT64_MAX / 2};
    presence->pages.fd = -1;
    if (!presence->is_file)
        err = pagemap_open(&presence->pages, target->proc, target_via(target));
    source.is_still = pass->request->is_still;
    if (err && !memory_is_pinned(&attachment->memory)) /* extents_open has a better cause */
        return fault_set(fault, FAULT_DENIED, -err, stage, "/proc/%d/pagemap", (int)target->pid);
    pass->peek->contents = contents_new(&attachment->memory, &attachment->modules, target);
    if (!pass->peek->contents)
        return peek_out_of_memory(fault);
    return refuse_objects(extents_open(&pass->extents, &source, fault), fault);
}

fault_code peek_run(struct peek *peek, struct attachment *attachment,
                    const struct peek_request *request, struct fault *fault)
{
    struct peek_pass *pass = calloc(1, sizeof *pass);
    uint64_t began = clock_now();
    fault_code rc;

    memset(peek, 0, sizeof *peek);
    if (!pass)
        return peek_out_of_memory(fault);
    pass->peek = peek;
    pass->attachment = attachment;
    pass->request = request;
    peek_draw_seed(peek);
    rc = open_peek(pass, fault);
    if (rc == FAULT_NONE)
        rc = refuse_objects(choose_objects(pass, fault), fault);
    if (rc == FAULT_NONE)
        rc = look_at_samples(pass, fault);
    if (rc == FAULT_NONE)
        peek->unresolved = !contents_resolve(peek->contents);
    if (rc == FAULT_NONE && deadline_interrupted(&attachment->deadline))
        rc = check_peek_time(attachment, fault);
    if (rc == FAULT_NONE && !peek_rows_make(peek))
        rc = peek_out_of_memory(fault);
    extents_close(pass->extents);
    pagemap_close(&pass->presence.pages);
    free(pass);
    peek->ns = clock_now() - began;
    return rc;
}

void peek_free(struct peek *peek)
{
    for (size_t i = 0; i < peek->class_count; i++)
        free(peek->classes[i].reservoir);
    free(peek->samples);
    free(peek->rows);
    free(peek->totals);
    free(peek->kinds);
    contents_free(peek->contents);
    memset(peek, 0, sizeof *peek);
}
