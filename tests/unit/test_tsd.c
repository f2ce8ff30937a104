/*
 * The data of threads, made by hand in the form of each release: found at any place of their block,
 * by their data even if the version lies, and refused if they could be something else.
 */
#include "check.h"
#include "tsd_rig.h"

static struct tsd_rig rig;
static const char *why;

#define ASLEEP UINT64_C(0x7fffffffffff0000)

static bool find(struct tsd_place *place)
{
    return tsd_place_find(place, &rig.search, &why);
}

/* Thread 0 samples, thread 1 was born while thread_active_init was false, 2 has no data yet. */
static bool begin_used(const struct tsd_form *form, size_t at)
{
    if (!tsd_rig_begin(&rig, form, at))
        return false;
    tsd_rig_used(&rig, 0, 123456, 100000, 777);
    tsd_rig_used(&rig, 1, 5000, 7000, 888);
    tsd_rig_used(&rig, 2, 400, 0, 999);
    tsd_rig_sampled(&rig, 0, true, 777);
    tsd_rig_sampled(&rig, 1, false, 888);
    return true;
}

static void check_data(const struct tsd_place *place)
{
    const struct tsd_form *form = rig.form;
    const remote_addr tsd = tsd_rig_pointer(0) - RIG_BLOCK + rig.at;
    struct tsd_data data;

    CHECK(tsd_rig_take(&rig, place, 0, &data) && data.condition == TSD_NOMINAL);
    CHECK(data.allocated == 123456 && data.deallocated == 100000);
    CHECK(data.tdata == tsd_rig_tdata(0) && data.tdata_active);
    CHECK(data.active_at == tsd_rig_tdata(0) + (remote_addr)form->active);
    CHECK(data.has_wait && data.wait == 777);
    CHECK(data.wait_at == (form->wait >= 0 ? tsd + (remote_addr)form->wait
                                           : tsd_rig_tdata(0) + (remote_addr)form->tdata_wait));
    CHECK(tsd_rig_take(&rig, place, 1, &data) && data.allocated == 5000 &&
          data.deallocated == 7000 && data.tdata && !data.tdata_active);
    CHECK(tsd_rig_take(&rig, place, 2, &data) && data.allocated == 400 && !data.tdata &&
          !data.active_at);
    CHECK(data.has_wait == (form->wait >= 0));
    CHECK(tsd_rig_take(&rig, place, 3, &data) && data.condition == TSD_NEW && !data.allocated);
}

static void test_each_form(void)
{
    static const size_t places[] = {0, 8, 648, RIG_BLOCK - 1400};
    struct tsd_place place;

    for (size_t i = 0; i < ARRAY_LEN(tsd_forms); i++)
        for (size_t k = 0; k < ARRAY_LEN(places); k++) {
            if (!CHECK(begin_used(&tsd_forms[i], places[k])))
                return;
            if (CHECK(find(&place)) && CHECK(place.at == places[k]))
                check_data(&place);
            else
                fprintf(stderr, "%s at %zu: %s\n", tsd_forms[i].version, places[k], why);
            tsd_rig_end(&rig);
        }
}

/* A version that is unknown, or that of another layout, leads to the same members. */
static void test_versions_that_lie(void)
{
    static const char *const versions[] = {"0.0.0-0-g0", "5.3.0-0-g0", "4.0.0-0-g0", "9.9.9-0-g0"};
    struct tsd_place place;

    for (size_t i = 0; i < ARRAY_LEN(tsd_forms); i++)
        for (size_t k = 0; k < ARRAY_LEN(versions); k++) {
            if (!CHECK(begin_used(&tsd_forms[i], 200)))
                return;
            rig.search.version = version_parse(versions[k]);
            if (strncmp(tsd_forms[i].version, "4.", 2) == 0 || !version_parse(versions[k]).number) {
                tsd_rig_end(&rig);
                continue; /* 4.0 and 4.5 differ by the place of the arena only */
            }
            if (CHECK(find(&place)))
                check_data(&place);
            else
                fprintf(stderr, "%s as %s: %s\n", tsd_forms[i].version, versions[k], why);
            tsd_rig_end(&rig);
        }
}

static const struct tsd_form *form_of(const char *version)
{
    for (size_t i = 0; i < ARRAY_LEN(tsd_forms); i++)
        if (strcmp(tsd_forms[i].version, version) == 0)
            return &tsd_forms[i];
    return NULL;
}

/* Without profiling data, the counts without end are evidence. */
static void test_asleep(void)
{
    struct tsd_place place;
    struct tsd_data data;

    if (!CHECK(tsd_rig_begin(&rig, form_of("5.2.1-0-g0"), 64)))
        return;
    for (size_t i = 0; i < RIG_THREADS; i++)
        tsd_rig_used(&rig, i, 1000 + i, i, ASLEEP - i);
    rig.search.version = version_parse("0.0.0-0-g0");
    CHECK(find(&place) && place.layout->may_sleep);
    CHECK(tsd_rig_take(&rig, &place, 2, &data) && data.wait == ASLEEP - 2 &&
          tsd_wait_sleeps(data.wait) && data.allocated == 1002);
    tsd_rig_end(&rig);
}

static void test_defect(void)
{
    const struct tsd_layout *layout;
    struct tsd_threads threads = {0};

    CHECK(tsd_defect(&threads, "5.2.1-0-g0") == FACT_YES);
    CHECK(tsd_defect(&threads, "5.2.0-0-g0") == FACT_YES);
    CHECK(tsd_defect(&threads, "5.1.0-89-g0") == FACT_YES);
    CHECK(tsd_defect(&threads, "5.1.0-88-g0") == FACT_NO);
    CHECK(tsd_defect(&threads, "5.2.1-20-g0") == FACT_YES);
    CHECK(tsd_defect(&threads, "5.2.1-21-g0") == FACT_NO);
    CHECK(tsd_defect(&threads, "5.3.0-0-g0") == FACT_NO);
    CHECK(tsd_defect(&threads, "0.0.0-0-g0") == FACT_UNKNOWN);
    CHECK(tsd_layouts_of(version_parse("5.2.1"), &layout) == 1 && layout->may_sleep);
    threads.place.layout = layout;
    CHECK(tsd_defect(&threads, "0.0.0-0-g0") == FACT_UNKNOWN);
    threads.by_sampling[THREAD_ASLEEP] = 1;
    CHECK(tsd_defect(&threads, "0.0.0-0-g0") == FACT_YES);
    CHECK(tsd_layouts_of(version_parse("5.3.0"), &layout) == 1 && !layout->may_sleep);
    threads.place.layout = layout;
    CHECK(tsd_defect(&threads, "5.2.1-0-g0") == FACT_NO);
}

/* What looks like it twice is not certain. */
static void test_two_places(void)
{
    struct tsd_place place;

    if (!CHECK(begin_used(form_of("5.2.1-0-g0"), 0)))
        return;
    for (size_t i = 0; i < RIG_THREADS; i++)
        memcpy(rig.blocks[i] + 2048, rig.blocks[i], 1400);
    CHECK(!find(&place) && !place.layout);
    CHECK(why && strstr(why, "several places"));
    tsd_rig_end(&rig);
}

struct damage {
    const char *version;
    size_t thread;
    int offset; /* in the tsd; or in the profiling data */
    bool in_tdata;
    uint64_t value;
};

/* A place that does not fit one thread is refused. */
static void test_damaged(void)
{
    const struct damage damages[] = {
        {"5.2.1-0-g0", 0, 40, false, TSD_HEAP + 0xc000}, /* no profiling data */
        {"5.2.1-0-g0", 0, 40, false, 3},
        {"5.2.1-0-g0", 1, 440, false, TSD_CODE},                /* no arena */
        {"5.2.1-0-g0", 2, 48 + 32, false, 0x1234},              /* no key of the radix tree */
        {"5.2.1-0-g0", 2, 48 + 8, false, 16},                   /* no leaf */
        {"5.2.1-0-g0", 2, 16, false, UINT64_C(1) << 60},        /* more bytes than are possible */
        {"5.2.1-0-g0", 3, 16, false, 1},                        /* unused, and has allocated */
        {"5.2.1-0-g0", 1, 64 + 24, true, TSD_HEAP},             /* no function */
        {"5.2.1-0-g0", 1, 64 + 32, true, TSD_CODE + (2 << 20)}, /* of another module */
        {"5.2.1-0-g0", 1, 64 + 40, true, 0},
        {"5.3.0-0-g0", 0, 16, false, 1},                 /* an event before the last one */
        {"5.3.0-0-g0", 0, 16, false, UINT64_C(1) << 40}, /* too far */
        {"5.3.0-0-g0", 1, 56, false, ASLEEP},            /* this layout has no defect */
    };
    struct tsd_place place;

    for (size_t i = 0; i < ARRAY_LEN(damages); i++) {
        const struct damage *damage = &damages[i];
        if (!CHECK(begin_used(form_of(damage->version), 64)))
            return;
        CHECK(find(&place));
        if (damage->in_tdata)
            tsd_rig_put_heap(&rig, tsd_rig_tdata(damage->thread) + (remote_addr)damage->offset,
                             damage->value);
        else
            tsd_rig_put(&rig, damage->thread, damage->offset, damage->value);
        struct tsd_data data;
        if (!CHECK(!tsd_rig_take(&rig, &place, damage->thread, &data)) || !CHECK(!find(&place)))
            fprintf(stderr, "damage %zu\n", i);
        tsd_rig_end(&rig);
    }
}

/* A thread that changes its data meanwhile is read again. */
static void test_changing(void)
{
    struct tsd_place place;

    if (!CHECK(begin_used(form_of("5.3.0-0-g0"), 64)))
        return;
    rig.changes = 2;
    if (CHECK(find(&place)))
        check_data(&place);
    rig.changes = 1000;
    CHECK(!find(&place));
    tsd_rig_end(&rig);
}

/* Nothing is known if no thread has used jemalloc, and nothing without memory. */
static void test_nothing(void)
{
    struct tsd_place place;

    for (size_t i = 0; i < ARRAY_LEN(tsd_forms); i++) {
        if (!CHECK(tsd_rig_begin(&rig, &tsd_forms[i], 64)))
            return;
        CHECK(!find(&place) && why);
        tsd_rig_end(&rig);
    }
    if (!CHECK(begin_used(form_of("5.2.1-0-g0"), 64)))
        return;
    for (size_t i = 0; i < RIG_THREADS; i++)
        rig.list[i].pointer += UINT64_C(1) << 40;
    CHECK(!find(&place));
    tsd_rig_end(&rig);
}

/* A distance that a call has told. */
static void test_known_offset(void)
{
    struct tsd_place place;

    for (size_t i = 0; i < ARRAY_LEN(tsd_forms); i++) {
        if (!CHECK(begin_used(&tsd_forms[i], 64)))
            return;
        rig.search.offset = (int64_t)64 + tsd_forms[i].allocated - RIG_BLOCK;
        /* Reads do not leave the block. */
        CHECK(!find(&place) || place.layout);
        rig.search.offset += 8;
        CHECK(!find(&place));
        tsd_rig_end(&rig);
    }
}

int main(void)
{
    test_each_form();
    test_versions_that_lie();
    test_asleep();
    test_defect();
    test_two_places();
    test_damaged();
    test_changing();
    test_nothing();
    test_known_offset();
    return check_result();
}
