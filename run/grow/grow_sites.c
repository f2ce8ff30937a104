#include "run/grow/grow_sites.h"
#include "base/list.h"

#include <string.h>

void grow_sites_init(struct grow_sites *sites)
{
    memset(sites, 0, sizeof *sites);
    table_init(&sites->table);
}

void grow_sites_free(struct grow_sites *sites)
{
    table_free(&sites->table);
    free(sites->list);
    free(sites->calls);
    free(sites->samples);
    memset(sites, 0, sizeof *sites);
}

/* ---- stacks ---- */

struct site_key {
    pid_t tid;
    const remote_addr *calls;
    size_t depth;
};

static bool same_site(const void *ctx, uint32_t index, const void *key)
{
    const struct grow_sites *sites = ctx;
    const struct grow_site *site = &sites->list[index];
    const struct site_key *sought = key;

    return site->tid == sought->tid && site->depth == sought->depth &&
           memcmp(sites->calls + site->first, sought->calls,
                  sought->depth * sizeof *sought->calls) == 0;
}

/* Makes space for one more stack; false: no_memory, or there are too many. */
static bool site_fits(struct grow_sites *sites, size_t depth)
{
    if (sites->count >= GROW_SITES_MAX || sites->call_count + depth > GROW_CALLS_MAX)
        return false;
    if (!LIST_GROW(sites->list, sites->capacity, sites->count))
        return !(sites->no_memory = true);
    while (sites->call_capacity < sites->call_count + depth)
        if (!LIST_GROW(sites->calls, sites->call_capacity, sites->call_capacity))
            return !(sites->no_memory = true);
    return true;
}

static uint32_t put_grow_site(struct grow_sites *sites, const struct site_key *key)
{
    uint64_t hash = table_hash_bytes(&sites->table, key->calls, key->depth * sizeof *key->calls) ^
                    table_hash_number(&sites->table, (uint64_t)key->tid);
    uint32_t place;

    if (!site_fits(sites, key->depth))
        return TABLE_NONE;
    place = table_put(&sites->table, hash, same_site, sites, key, (uint32_t)sites->count);
    if (place == TABLE_NONE)
        sites->no_memory = true;
    if (place != sites->count)
        return place;
    if (key->depth)
        memcpy(sites->calls + sites->call_count, key->calls, key->depth * sizeof *key->calls);
    sites->list[sites->count++] = (struct grow_site){
        .first = (uint32_t)sites->call_count, .depth = (uint32_t)key->depth, .tid = key->tid};
    sites->call_count += key->depth;
    return place;
}

/* ---- samples ---- */

static void add_file_fault(struct grow_sites *sites, struct grow_site *site, double weight)
{
    site->file_faults += weight;
    sites->file_samples++;
}

void grow_sites_add(struct grow_sites *sites, const struct grow_pages *pages,
                    const struct grow_sample *sample, pid_t tid, remote_addr sp,
                    const remote_addr *calls, size_t depth)
{
    const struct grow_range *range = grow_pages_range(pages, sample->page);
    const struct site_key key = {tid, calls, depth};
    struct grow_sample *kept;
    uint32_t site;

    sites->seen++;
    sites->weight += sample->weight;
    site = put_grow_site(sites, &key);
    if (site != TABLE_NONE)
        sites->list[site].sp = sp;
    if (range && range->kind == GROW_FILES && site != TABLE_NONE) {
        sites->other += sample->weight;
        add_file_fault(sites, &sites->list[site], sample->weight);
        return;
    }
    if (site == TABLE_NONE || sites->sample_count >= GROW_SAMPLES_MAX ||
        !LIST_GROW(sites->samples, sites->sample_capacity, sites->sample_count)) {
        sites->dropped++;
        return;
    }
    if (range && range->kind == GROW_DATA) /* most are pages of the file, which never are ours */
        sites->other += sample->weight;
    else
        sites->list[site].faults += sample->weight;
    kept = &sites->samples[sites->sample_count++];
    *kept = *sample;
    kept->page -= kept->page % pages->map.page;
    kept->site = site;
}

/* The samples of a page are together, the latest first. */
static int samples_in_order(const void *a, const void *b)
{
    const struct grow_sample *x = a, *y = b;

    if (x->page != y->page)
        return x->page < y->page ? -1 : 1;
    return x->time_ns > y->time_ns ? -1 : x->time_ns < y->time_ns;
}

/* True if the page is new and has been there since the sample, as far as the looks tell. */
static bool is_still_there(const struct grow_pages *pages, const struct grow_sample *sample)
{
    const struct grow_piece *piece = grow_pages_piece(pages, sample->page);
    size_t page;

    if (!piece)
        return false;
    page = (size_t)((sample->page - piece->start) / pages->map.page);
    if (!(grow_piece_gained(piece, page / 64) >> page % 64 & 1) || !piece->born)
        return false;
    return piece->born[page] && sample->time_ns >= pages->began_ns[piece->born[page] - 1];
}

/* True if the last look may have come too early for it. */
static bool is_newer(const struct grow_pages *pages, const struct grow_sample *sample)
{
    return !pages->looks || sample->time_ns >= pages->began_ns[pages->looks - 1];
}

static void thin_samples(struct grow_sites *sites, const struct grow_pages *pages, bool last)
{
    remote_addr before = 1; /* no page */
    size_t kept = 0;

    if (sites->sample_count)
        qsort(sites->samples, sites->sample_count, sizeof *sites->samples, samples_in_order);
    for (size_t i = 0; i < sites->sample_count; i++) {
        const struct grow_sample *sample = &sites->samples[i];
        bool older = sample->page == before;
        before = sample->page;
        if (!older && ((!last && is_newer(pages, sample)) || is_still_there(pages, sample))) {
            sites->samples[kept++] = *sample;
            continue;
        }
        /*
         * Of a page that is not there any more, or was touched again. In the mapping of a file
         * it was one of the file, and of a mapping that was new at the sample this is known
         * only now.
         */
        const struct grow_range *range = grow_pages_range(pages, sample->page);
        struct grow_site *site = &sites->list[sample->site];
        if (older || !range || (range->kind != GROW_DATA && range->kind != GROW_FILES))
            continue;
        add_file_fault(sites, site, sample->weight);
        if (range->kind == GROW_FILES && site->faults >= sample->weight) {
            site->faults -= sample->weight;
            sites->other += sample->weight;
        }
    }
    sites->sample_count = kept;
}

void grow_sites_thin(struct grow_sites *sites, const struct grow_pages *pages)
{
    thin_samples(sites, pages, false);
}

/* The samples are in the order of their pages. */
void grow_sites_tell_size(struct grow_sites *sites, remote_addr start, remote_addr end,
                          uint64_t size)
{
    size_t low = 0, high = sites->sample_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (sites->samples[middle].page < start)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < sites->sample_count && sites->samples[low].page < end; low++)
        sites->samples[low].size = size;
}

/* ---- the shares ---- */

enum group { STAYED, YOUNG, GROUPS };

enum { SURPLUS = 2 }; /* weights are estimates: so many times the pages may be touched */

/* A sample that owns pages. */
struct owner {
    const struct grow_sample *sample;
    size_t range; /* index, or range_count: none */
    enum grow_kind kind;
    enum group group;
};

struct sharing {
    struct grow_sites *sites;
    const struct grow_pages *pages;
    struct grow_sum *sum;
    struct owner *owners;
    size_t count;
    uint64_t cut_ns;                     /* pages that were born later are young */
    double (*rest)[GROUPS];              /* by range: gained pages of pieces without a sample */
    uint64_t gained[GROW_KINDS][GROUPS]; /* of the piece at hand */
    size_t where[GROW_KINDS];            /* the range of some of them */
};

static size_t range_index(const struct grow_pages *pages, remote_addr addr)
{
    const struct grow_range *range = grow_pages_range(pages, addr);

    return range ? (size_t)(range - pages->ranges) : pages->range_count;
}

static enum group page_group(const struct sharing *sharing, const struct grow_piece *piece,
                             size_t page)
{
    unsigned born = piece->born ? piece->born[page] : 0;

    return sharing->pages->began_ns[born] > sharing->cut_ns ? YOUNG : STAYED;
}

static void add_share(struct sharing *sharing, const struct owner *owner, enum group group,
                      double pages)
{
    struct grow_site *site = &sharing->sites->list[owner->sample->site];

    (group == YOUNG ? site->young : site->stayed)[owner->kind] += pages;
}

/* The latest sample of each kind and group first. */
static int owners_in_order(const void *a, const void *b)
{
    const struct owner *x = a, *y = b;

    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    return x->sample->time_ns > y->sample->time_ns ? -1 : x->sample->time_ns < y->sample->time_ns;
}

/*
 * Keeps of the piece's owners of a group, which begin there, those that can own its pages:
 * touches of about as many pages as there are, the latest ones; earlier touches were of
 * pages that were given back. Returns where the next group begins.
 */
static size_t share_group(struct sharing *sharing, size_t from, size_t end)
{
    const enum grow_kind kind = sharing->owners[from].kind;
    const enum group group = sharing->owners[from].group;
    double pages = (double)sharing->gained[kind][group], weight = 0;
    size_t next = from, kept = 0;

    while (next < end && sharing->owners[next].group == group &&
           sharing->owners[next].kind == kind) {
        if (weight < SURPLUS * pages) {
            weight += sharing->owners[next].sample->weight;
            kept++;
        }
        next++;
    }
    for (size_t i = from; i < from + kept; i++) {
        struct owner *owner = &sharing->owners[i];
        struct grow_site *site = &sharing->sites->list[owner->sample->site];
        add_share(sharing, owner, group, pages * owner->sample->weight / weight);
        site->live += owner->sample->weight;
        site->samples++;
        sharing->sum->parts[kind].samples++;
        sharing->owners[sharing->count++] = *owner;
    }
    if (kept)
        sharing->gained[kind][group] = 0;
    return next;
}

/* Counts pages of a piece that are all of one kind; mask: those of the word. */
static void count_kind(struct sharing *sharing, const struct grow_piece *piece, size_t word,
                       uint64_t mask, enum grow_kind kind)
{
    struct grow_part *part = &sharing->sum->parts[kind];
    const uint64_t first = piece->first[word] & mask, now = piece->now[word] & mask;

    part->before += (uint64_t)__builtin_popcountll(first);
    part->now += (uint64_t)__builtin_popcountll(now);
    part->gained += (uint64_t)__builtin_popcountll(now & ~first);
    part->lost += (uint64_t)__builtin_popcountll(first & ~now);
    for (uint64_t left = now & ~first; left; left &= left - 1) {
        size_t page = word * 64 + (size_t)__builtin_ctzll(left);
        sharing->gained[kind][page_group(sharing, piece, page)]++;
        sharing->where[kind] =
            range_index(sharing->pages, piece->start + page * sharing->pages->map.page);
    }
}

static void count_pages(struct sharing *sharing, const struct grow_piece *piece, size_t word)
{
    const struct grow_pages *pages = sharing->pages;
    const remote_addr start = piece->start + word * 64 * pages->map.page,
                      end = start + (uint64_t)64 * pages->map.page;
    const struct grow_range *range = grow_pages_range(pages, start);
    const uint64_t any = piece->first[word] | piece->now[word];

    if (!any)
        return;
    if (range && range->end >= end) {
        count_kind(sharing, piece, word, UINT64_MAX, range->kind);
        return;
    }
    for (uint64_t left = any; left; left &= left - 1) {
        unsigned page = (unsigned)__builtin_ctzll(left);
        count_kind(sharing, piece, word, left & -left,
                   grow_pages_kind(pages, start + (uint64_t)page * pages->map.page));
    }
}

/* Takes the samples of the piece, which begin at *at, as its owners. Returns their end. */
static size_t take_owners(struct sharing *sharing, const struct grow_piece *piece, size_t *at)
{
    const struct grow_pages *pages = sharing->pages;
    const struct grow_sites *sites = sharing->sites;
    remote_addr end = piece->start + pagemap_piece_bytes(&pages->map);
    size_t count = sharing->count;

    for (; *at < sites->sample_count && sites->samples[*at].page < end; (*at)++) {
        const struct grow_sample *sample = &sites->samples[*at];
        size_t page = (size_t)((sample->page - piece->start) / pages->map.page);
        sharing->owners[count++] =
            (struct owner){sample, range_index(pages, sample->page),
                           grow_pages_kind(pages, sample->page), page_group(sharing, piece, page)};
    }
    return count;
}

static void share_pieces(struct sharing *sharing)
{
    size_t at = 0;

    for (size_t i = 0; i < sharing->pages->count; i++) {
        const struct grow_piece *piece = &sharing->pages->list[i];
        memset(sharing->gained, 0, sizeof sharing->gained);
        for (size_t word = 0; word < PAGEMAP_WORDS; word++)
            count_pages(sharing, piece, word);
        /*
         * The owners from sharing->count to end are those of the piece; keeps them one after
         * another.
         */
        size_t end = take_owners(sharing, piece, &at);
        size_t from = sharing->count;
        if (end > from)
            qsort(sharing->owners + from, end - from, sizeof *sharing->owners, owners_in_order);
        while (from < end)
            from = share_group(sharing, from, end);
        for (enum grow_kind kind = 0; kind < GROW_KINDS; kind++)
            for (enum group group = STAYED; group < GROUPS; group++)
                sharing->rest[sharing->where[kind]][group] += (double)sharing->gained[kind][group];
    }
}

/* ---- the rest ---- */

/* Ever larger neighbourhoods, whose samples share the pages of pieces without one. */
enum nearness { SAME_GROUP, SAME_RANGE, SAME_KIND, NEARNESSES };

static size_t bucket_of(const struct sharing *sharing, enum nearness nearness, size_t range,
                        enum group group)
{
    const struct grow_pages *pages = sharing->pages;

    switch (nearness) {
    case SAME_GROUP:
        return GROUPS * range + group;
    case SAME_RANGE:
        return range;
    default:
        return range < pages->range_count ? pages->ranges[range].kind : GROW_MAPPED;
    }
}

static size_t bucket_count(const struct sharing *sharing)
{
    return GROUPS * (sharing->pages->range_count + 1) + GROW_KINDS;
}

/* Shares the rest out among owners that are near enough. */
static void spread(struct sharing *sharing, enum nearness nearness, double *weights,
                   double (*shared)[GROUPS])
{
    memset(weights, 0, bucket_count(sharing) * sizeof *weights);
    memset(shared, 0, bucket_count(sharing) * sizeof *shared);
    for (size_t i = 0; i < sharing->count; i++) {
        const struct owner *owner = &sharing->owners[i];
        weights[bucket_of(sharing, nearness, owner->range, owner->group)] += owner->sample->weight;
    }
    /* Moves the rest of each range to its bucket, if that has owners. */
    for (size_t range = 0; range <= sharing->pages->range_count; range++)
        for (enum group group = STAYED; group < GROUPS; group++) {
            size_t bucket = bucket_of(sharing, nearness, range, group);
            if (weights[bucket] <= 0)
                continue;
            shared[bucket][group] += sharing->rest[range][group];
            sharing->rest[range][group] = 0;
        }
    for (size_t i = 0; i < sharing->count; i++) {
        const struct owner *owner = &sharing->owners[i];
        size_t bucket = bucket_of(sharing, nearness, owner->range, owner->group);
        for (enum group group = STAYED; group < GROUPS; group++)
            add_share(sharing, owner, group,
                      shared[bucket][group] * owner->sample->weight / weights[bucket]);
    }
}

static bool spread_rest(struct sharing *sharing)
{
    AUTO_FREE double *weights = calloc(bucket_count(sharing), sizeof *weights);
    AUTO_FREE double(*shared)[GROUPS] = calloc(bucket_count(sharing), sizeof *shared);

    if (!weights || !shared)
        return false;
    for (enum nearness nearness = SAME_GROUP; nearness < NEARNESSES; nearness++)
        spread(sharing, nearness, weights, shared);
    for (size_t range = 0; range <= sharing->pages->range_count; range++)
        sharing->sum->parts[bucket_of(sharing, SAME_KIND, range, STAYED)].nobody +=
            sharing->rest[range][STAYED] + sharing->rest[range][YOUNG];
    return true;
}

/* ---- all of it ---- */

/* The part of the pages of a stack that stays, from 0 to 1. */
static double grow_site_staying(const struct grow_site *site)
{
    return site->live < site->faults ? site->live / site->faults : 1;
}

double grow_site_part(const struct grow_site *site, enum grow_kind kind)
{
    return site->stayed[kind] + site->young[kind] * grow_site_staying(site);
}

double grow_site_growth(const struct grow_site *site)
{
    double growth = 0;

    for (enum grow_kind kind = 0; kind < GROW_FILES; kind++)
        growth += grow_site_part(site, kind);
    return growth;
}

bool grow_sites_share(struct grow_sites *sites, const struct grow_pages *pages, uint64_t counted,
                      struct grow_sum *sum)
{
    struct sharing sharing = {.sites = sites, .pages = pages, .sum = sum};
    uint64_t end, soon, early = 0;
    double scale;

    memset(sum, 0, sizeof *sum);
    if (!pages->looks || sites->no_memory)
        return !sites->no_memory;
    thin_samples(sites, pages, true);
    /* Lost samples make the weights of the others too small. */
    scale = counted && sites->weight > 0 ? (double)counted / sites->weight : 1;
    for (size_t i = 0; i < sites->count; i++) {
        sites->list[i].faults *= scale;
        sites->list[i].file_faults *= scale;
    }
    for (size_t i = 0; i < sites->sample_count; i++)
        sites->samples[i].weight *= scale;
    sites->other *= scale;
    /* Young is what came in the last fifth of the time. */
    end = pages->began_ns[pages->looks - 1];
    sum->young_ns = (end - pages->began_ns[0]) / 5;
    sharing.cut_ns = end - sum->young_ns;
    AUTO_FREE struct owner *owners = calloc(sites->sample_count + 1, sizeof *owners);
    AUTO_FREE double(*rest)[GROUPS] = calloc(pages->range_count + 1, sizeof *rest);
    if (!owners || !rest)
        return false;
    sharing.owners = owners;
    sharing.rest = rest;
    share_pieces(&sharing);
    if (!spread_rest(&sharing))
        return false;
    for (size_t i = 0; i < sites->count; i++) {
        const struct grow_site *site = &sites->list[i];
        for (enum grow_kind kind = 0; kind < GROW_KINDS; kind++) {
            struct grow_part *part = &sum->parts[kind];
            double growth = grow_site_part(site, kind);
            part->by_stack += growth;
            part->in_flight += site->stayed[kind] + site->young[kind] - growth;
        }
        if (site->faults > site->live)
            sum->again += site->faults - site->live;
    }
    for (enum grow_kind kind = 0; grow_kind_is_private(kind); kind++) {
        const struct grow_part *part = &sum->parts[kind];
        sum->gained += part->gained;
        sum->lost += part->lost;
        sum->by_stack += part->by_stack;
        sum->in_flight += part->in_flight;
        sum->nobody += part->nobody;
        sum->samples += part->samples;
    }
    /* Pages that were in flight at the first look are gone at one of the next ones. */
    soon = pages->began_ns[0] + sum->young_ns;
    for (unsigned look = 0; look < pages->looks && pages->began_ns[look] <= soon; look++)
        if (pages->lost[look] > early)
            early = pages->lost[look];
    sum->lost_late = sum->lost > early ? sum->lost - early : 0;
    return true;
}

/* A fault may bring several pages of a file into memory: only the shares are known. */
void grow_sites_share_files(struct grow_sites *sites, uint64_t before, uint64_t now,
                            struct grow_sum *sum)
{
    struct grow_part *part = &sum->parts[GROW_FILES];
    double weight = 0;

    *part = (struct grow_part){.before = before,
                               .now = now,
                               .gained = now > before ? now - before : 0,
                               .lost = before > now ? before - now : 0};
    for (size_t i = 0; i < sites->count; i++)
        weight += sites->list[i].file_faults;
    part->nobody = weight > 0 ? 0 : (double)part->gained;
    part->by_stack = (double)part->gained - part->nobody;
    part->samples = part->gained ? sites->file_samples : 0;
    for (size_t i = 0; i < sites->count && weight > 0; i++)
        sites->list[i].stayed[GROW_FILES] = part->by_stack * sites->list[i].file_faults / weight;
}
