/* Objects and samples of heaps made by hand: in each layout, stale, changing, hostile. */
#include "check.h"
#include "extents_rig.h"
#include "forged_profile.h"
#include "jemalloc/extents/live.h"
#include "jemalloc/extents/origins.h"
#include "jemalloc/extents/tree.h"

enum { PROFILE_PAGE = 512, PROFILE_BYTES = 1 << 20, SMALL = 3, LARGE = HEAP_BINS + 1, DEPTH = 3 };

#define MAGIC UINT64_C(0xb8a9ce37)

static struct heap_rig rig;
static struct forged profile;
static struct live *live;
static struct live_look look;
static size_t pages;
static remote_addr sample_record[64]; /* of the extents that add_sample made */
static size_t sample_count;

/* By version: where a record has what, in words from offset 64 on; -1: nowhere. */
static const struct form {
    const char *version;
    size_t record_layout, profile_layout;
    int birth, asked, tctx;
    bool magic;
} forms[] = {
    {"5.3.1-0-g1", 0, 7, 0, 1, 2, false},    {"5.3.0-0-g1", 1, 5, 0, 1, 2, false},
    {"5.3.0-0-g1", 1, 5, 0, 2, 3, true},     {"5.2.1-636-g1", 2, 5, 0, 1, 2, false},
    {"5.2.1-635-g1", 2, 5, 0, -1, 1, false}, {"5.2.1-0-g1", 2, 3, 0, -1, 1, false},
    {"5.1.0-58-g1", 2, 3, 0, -1, 1, false},  {"5.1.0-57-g1", 2, 3, -1, -1, 0, false},
    {"5.0.1-0-g1", 3, 2, -1, -1, 0, false},  {"5.0.0-0-g1", 3, 2, -1, -1, 0, false},
};
static const struct form *const usual = &forms[1];

static bool begin(const struct form *form)
{
    sample_count = 0;
    memset(&look, 0, sizeof look);
    if (!CHECK(heap_rig_begin(&rig, &record_layouts[form->record_layout], &tree_shapes[0],
                              form->version)))
        return false;
    pages = heap_rig_fill(&rig);
    forged_begin(&profile, &forged_layouts[form->profile_layout],
                 heap_rig_at(&rig, heap_rig_page(PROFILE_PAGE), PROFILE_BYTES), PROFILE_BYTES,
                 heap_rig_page(PROFILE_PAGE), HEAP_CODE + 0x8000);
    rig.instance.globals.opt_prof = profile.opt_prof;
    forged_thread(&profile, 1, 0, NULL, false);
    return true;
}

static void end(void)
{
    live_look_free(&look);
    live_close(live);
    live = NULL;
    heap_rig_end(&rig);
}

/* Adds a stack of three words from first on, with so many objects. Returns its tctx. */
static remote_addr add_stack(uint64_t first, uint64_t objects)
{
    const uint64_t words[DEPTH] = {first, first + 1, first + 2};
    const struct forged_count count = {.stack = forged_stack(&profile, words, DEPTH),
                                       .objects = objects,
                                       .uid = first,
                                       .state = FORGED_NOMINAL};

    return forged_count(&profile, &count);
}

/* Adds an extent of its own for a sampled object. */
static void add_sample(const struct form *form, unsigned class, uint64_t birth, uint64_t asked,
                       remote_addr tctx)
{
    const remote_addr record = heap_rig_record(rig.records);

    pages = heap_rig_large(&rig, class, pages, class < HEAP_BINS ? 5 : class - HEAP_BINS + 5, 0);
    if (form->birth >= 0)
        heap_rig_put(&rig, record + 64 + 8 * (unsigned)form->birth, birth);
    if (form->magic)
        heap_rig_put(&rig, record + 72, MAGIC);
    if (form->asked >= 0)
        heap_rig_put(&rig, record + 64 + 8 * (unsigned)form->asked, asked);
    heap_rig_put(&rig, record + 64 + 8 * (unsigned)form->tctx, tctx);
    sample_record[sample_count++] = record;
}

static bool open_live(void)
{
    return CHECK(live_open(&live, &rig.source, true, &rig.fault) == FAULT_NONE) &&
           CHECK(live_has_samples(live));
}

static bool take(void)
{
    return CHECK(live_take(live, &look, &rig.fault) == FAULT_NONE);
}

static bool has_stack(const struct live_object *object, uint64_t first)
{
    const struct live_stacks *stacks = live_stacks(live);
    const struct live_stack *stack = &stacks->list[object->stack];
    const uint64_t words[DEPTH] = {first, first + 1, first + 2};

    return object->stack < stacks->count && stack->depth == DEPTH &&
           memcmp(stacks->words + stack->first, words, sizeof words) == 0;
}

/* Returns how many objects of a class there are but for samples. */
static uint64_t objects_without(unsigned class)
{
    uint64_t own = class < HEAP_BINS ? heap_rig_objects(class) - (heap_rig_objects(class) + 2) / 3
                                     : class < HEAP_BINS + 4;

    return own + (class == SMALL); /* one with an extent of its own, which is not sampled */
}

static uint64_t size_of(unsigned class)
{
    return live_classes(live)->list[class].size;
}

static unsigned class_of(uint64_t size)
{
    unsigned class = 0;

    while (size_of(class) < size)
        class ++;
    return class;
}

static void check_form(const struct form *form)
{
    const struct forged_layout *layout = profile.layout;
    const size_t bt = layout->gctx_bt + 16u + 8 * DEPTH;

    CHECK(look.share == 1 && look.stale == 0 && look.left_out == 0);
    if (!CHECK(look.sample_count == 3))
        return;
    CHECK(look.samples[0].class == SMALL && look.samples[1].class == LARGE);
    CHECK(look.samples[2].class == SMALL && look.samples[0].start < look.samples[1].start);
    CHECK(has_stack(&look.samples[0], 100) && has_stack(&look.samples[1], 200));
    CHECK(look.samples[2].stack == look.samples[0].stack && live_stacks(live)->count == 2);
    for (size_t i = 0; i < 3; i++)
        CHECK(look.samples[i].birth == (form->birth >= 0 ? 1000 + i : 0));
    CHECK(look.objects[SMALL] == objects_without(SMALL) + 2);
    CHECK(look.bytes[SMALL] == look.objects[SMALL] * 48);
    CHECK(look.objects[LARGE] == objects_without(LARGE) + 1);
    CHECK(look.bytes[LARGE] == look.objects[LARGE] * 20480);
    CHECK(look.objects[class_of(layout->tctx_size)] + 2 ==
          objects_without(class_of(layout->tctx_size)));
    CHECK(class_of(layout->tctx_size) == class_of(bt) ||
          look.objects[class_of(bt)] + 2 == objects_without(class_of(bt)));
}

static void test_each_form(void)
{
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        if (!begin(&forms[i]))
            continue;
        remote_addr first = add_stack(100, 2), second = add_stack(200, 1);
        add_sample(&forms[i], SMALL, 1000, 40, first);
        add_sample(&forms[i], LARGE, 1001, 18000, second);
        add_sample(&forms[i], SMALL, 1002, 48, first);
        if (open_live() && take()) {
            check_form(&forms[i]);
            if (take()) /* stacks keep their numbers, and lists their memory */
                check_form(&forms[i]);
        }
        end();
    }
}

/* Without profiling, or a known version, the words mean nothing. */
static void test_without_samples(void)
{
    const char *const versions[] = {"5.3.0-0-g1", "0.0.0-0-g0"};

    for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
        if (!begin(usual))
            return;
        add_sample(usual, LARGE, 1000, 100, add_stack(100, 1));
        snprintf(rig.instance.version, sizeof rig.instance.version, "%s", versions[i]);
        if (i == 0)
            *forged_at(&profile, profile.opt_prof) = 0;
        CHECK(live_open(&live, &rig.source, true, &rig.fault) == FAULT_NONE);
        CHECK(!live_has_samples(live));
        if (take())
            CHECK(look.sample_count == 0 && look.objects[LARGE] == objects_without(LARGE) + 1);
        end();
    }
    if (!begin(usual))
        return;
    add_sample(usual, LARGE, 1000, 100, add_stack(100, 1));
    CHECK(live_open(&live, &rig.source, false, &rig.fault) == FAULT_NONE);
    CHECK(!live_has_samples(live) && live_stacks(live)->count == 0);
    end();
}

/* ---- freed objects in caches ---- */

/* A class of 16 KiB, asked for so much, of a tctx that counts so many: is it there? */
static void check_large(const struct form *form, uint64_t asked, uint64_t counted, bool is_there)
{
    if (!begin(form))
        return;
    add_sample(form, HEAP_BINS, 1000, asked, add_stack(100, counted));
    if (open_live() && take()) {
        CHECK(look.sample_count == is_there && look.stale == !is_there);
        CHECK(look.objects[HEAP_BINS] == objects_without(HEAP_BINS) + is_there);
        CHECK(look.bytes[HEAP_BINS] == look.objects[HEAP_BINS] * 16384);
    }
    end();
}

static void test_stale(void)
{
    check_large(usual, 14337, 1, true);
    check_large(usual, 14336, 1, false); /* it was a small one */
    check_large(usual, 16384, 0, false); /* its tctx counts none */
    check_large(&forms[2], 100, 1, false);
    check_large(&forms[5], 0, 1, true); /* no record of what was asked for */
    check_large(&forms[5], 0, 0, false);
    check_large(&forms[9], 0, 0, false);
}

/* Of one tctx: a small object surely lives; of three large ones as many as are left, the youngest.
 */
static void test_some_stale(void)
{
    for (uint64_t counted = 0; counted <= 5; counted++) {
        const size_t large = counted > 4 ? 3 : counted > 1 ? counted - 1 : 0;
        if (!begin(usual))
            return;
        remote_addr tctx = add_stack(100, counted);
        add_sample(usual, LARGE, 1002, 20000, tctx);
        add_sample(usual, LARGE, 1001, 20000, tctx);
        add_sample(usual, SMALL, 1000, 40, tctx);
        add_sample(usual, LARGE, 1003, 20000, tctx);
        if (open_live() && take()) {
            CHECK(look.sample_count == 1 + large && look.stale == 3 - large);
            for (size_t i = 0; i < look.sample_count; i++)
                CHECK(look.samples[i].class == SMALL || look.samples[i].birth > 1003 - large);
            CHECK(look.objects[LARGE] == objects_without(LARGE) + large);
        }
        end();
    }
}

/* ---- pointers that lead astray ---- */

/*
 * Each of these leaves a small object without a stack, and takes a large one for freed: its tctx
 * is none any more.
 */
static void test_each_contradiction(void)
{
    const struct forged_layout *layout = &forged_layouts[usual->profile_layout];
    const struct {
        bool gctx; /* of it, else of the tctx */
        unsigned at;
        uint64_t value;
    } damages[] = {
        {false, 0, 16},                            /* a thread that is not in the heap */
        {false, layout->tctx_gctx, 0},             /* a stack that is not in the heap */
        {false, layout->tctx_gctx, HEAP_DATA},     /* in the program's own data */
        {false, layout->tctx_gctx, HEAP_META + 4}, /* not aligned */
        {false, layout->tctx_gctx, HEAP_META + HEAP_META_BYTES - 8},
        {false, layout->tctx_gctx, HEAP_META + 64}, /* another object */
        {false, layout->tctx_state, 7},
        {true, layout->gctx_bt, HEAP_META},      /* words elsewhere */
        {true, layout->gctx_bt + 8, UINT32_MAX}, /* more words than there can be */
        {true, layout->gctx_bt + 8, (1 << 16) + 1},
        {true, layout->gctx_bt + 8, 1 << 19},
    };

    for (size_t i = 0; i < ARRAY_LEN(damages); i++) {
        if (!begin(usual))
            return;
        remote_addr tctx = add_stack(100, 2);
        add_sample(usual, SMALL, 1000, 40, tctx);
        add_sample(usual, LARGE, 1001, 20000, tctx);
        add_sample(usual, SMALL, 1002, 40, add_stack(200, 1));
        forged_put(&profile, (damages[i].gctx ? profile.stacks[0].at : tctx) + damages[i].at,
                   damages[i].value);
        if (open_live() && take()) {
            bool good = look.sample_count == 2 && look.stale == 1 &&
                        look.samples[0].stack == TABLE_NONE && has_stack(&look.samples[1], 200);
            if (!CHECK(good))
                fprintf(stderr, "damage %zu\n", i);
            CHECK(look.objects[SMALL] == objects_without(SMALL) + 2);
            CHECK(look.objects[LARGE] == objects_without(LARGE));
        }
        end();
    }
}

/* A word that can be no tctx is that of an object that is not sampled. */
static void test_no_tctx(void)
{
    const remote_addr none[] = {
        0,         1, HEAP_META + 4, HEAP_DATA, HEAP_META + HEAP_META_BYTES - 64, UINT64_MAX - 7,
        UINT64_MAX};

    for (size_t i = 0; i < ARRAY_LEN(none); i++) {
        if (!begin(usual))
            return;
        add_sample(usual, SMALL, 1000, 40, none[i]);
        add_sample(usual, HEAP_BINS, 1000, 40, none[i]);
        if (open_live() && take()) {
            CHECK(look.sample_count == 0 && look.stale == 0);
            CHECK(look.objects[SMALL] == objects_without(SMALL) + 1);
            CHECK(look.objects[HEAP_BINS] == objects_without(HEAP_BINS) + 1);
        }
        end();
    }
}

/* Many long stacks, which change with each look, end at the limits. */
static void test_endless_stacks(void)
{
    enum { COUNT = 40, WORDS = 65536 };
    const struct live_stacks *stacks;
    const size_t bt = forged_layouts[usual->profile_layout].gctx_bt;
    size_t unknown = 0;

    if (!begin(usual))
        return;
    for (size_t i = 0; i < COUNT; i++)
        add_sample(usual, SMALL, 1000 + i, 40, add_stack(100 * i + 100, 1));
    for (size_t i = 0; i < COUNT; i++)
        forged_put32(&profile, profile.stacks[i].at + bt + 8, WORDS);
    if (open_live()) {
        stacks = live_stacks(live);
        for (uint64_t i = 0; i < 4 && take(); i++) {
            CHECK(look.sample_count == COUNT && stacks->word_count <= ORIGIN_WORDS_MAX);
            for (size_t k = 0; k < look.sample_count; k++)
                unknown += look.samples[k].stack == TABLE_NONE;
            for (size_t k = 0; k < COUNT; k++)
                forged_put(&profile, profile.stacks[k].at + bt + 16, i);
        }
        CHECK(stacks->word_count == ORIGIN_WORDS_MAX && unknown > COUNT);
    }
    end();
}

/* ---- a process that runs on ---- */

static remote_addr changed_at;
static uint64_t changed_to;
static remote_addr change_with; /* before the read of this address */

static void change_once(struct heap_rig *changed, remote_addr addr, size_t len)
{
    if (changed_at && change_with >= addr && change_with - addr < len) {
        heap_rig_put(changed, changed_at, changed_to);
        changed_at = 0;
    }
}

/* An object that is freed, or another one, when its stack is read: that stack may be any. */
static void test_freed_meanwhile(void)
{
    const struct forged_layout *layout = &forged_layouts[usual->profile_layout];

    for (size_t i = 0; i < 4; i++) {
        if (!begin(usual))
            return;
        remote_addr tctx = add_stack(100, 2), other = add_stack(200, 1);
        add_sample(usual, SMALL, 1000, 40, tctx);
        add_sample(usual, SMALL, 1001, 40, other);
        if (open_live()) {
            const remote_addr record = sample_record[0];
            const struct {
                remote_addr at;
                uint64_t to;
            } changes[] = {{record + 64 + 16, other}, /* of another stack */
                           {record + 64, 2000},       /* born later */
                           {record, heap_rig_get(&rig, record) | UINT64_C(1) << 17}, /* free */
                           {record + 8, heap_rig_get(&rig, record + 8) + MEMORY_PAGE}};
            rig.before = change_once;
            changed_at = changes[i].at;
            changed_to = changes[i].to;
            change_with = tctx + layout->tctx_gctx;
            if (take()) {
                CHECK(!changed_at && look.sample_count == 1 && look.samples[0].birth == 1001);
                CHECK(has_stack(&look.samples[0], 200) && look.stale == 0);
                CHECK(look.objects[SMALL] == objects_without(SMALL) + 2); /* at its moment */
            }
        }
        end();
    }
}

static struct deadline passed;

static void pass_deadline(struct heap_rig *late, remote_addr addr, size_t len)
{
    (void)late;
    if (addr <= change_with && change_with - addr < len)
        passed.at = 1;
}

static void test_late(void)
{
    remote_addr tctx;

    if (!begin(usual))
        return;
    tctx = add_stack(100, 1);
    add_sample(usual, SMALL, 1000, 40, tctx);
    rig.source.deadline = &passed;
    passed.at = 1;
    CHECK(live_open(&live, &rig.source, true, &rig.fault) == FAULT_TOO_LATE && !live);
    passed.at = UINT64_MAX;
    if (open_live()) {
        CHECK(take() && look.sample_count == 1);
        passed.at = 1;
        CHECK(live_take(live, &look, &rig.fault) == FAULT_TOO_LATE);
        passed.at = UINT64_MAX;
        change_with = tctx; /* its records are read by then */
        rig.before = pass_deadline;
        CHECK(live_take(live, &look, &rig.fault) == FAULT_TOO_LATE && passed.at == 1);
    }
    end();
}

int main(void)
{
    test_each_form();
    test_without_samples();
    test_stale();
    test_some_stale();
    test_each_contradiction();
    test_no_tctx();
    test_endless_stacks();
    test_freed_meanwhile();
    test_late();
    return check_result();
}
