/*
 * Three steps. Classes: the counts say which grow. Cells: of the objects of one class and one
 * stack, the samples say by how much at most they have grown; sums of all cells less those of a
 * stack are the others. Stacks: what the classes of a stack grow by, less the most that others
 * can have grown there, is the least that the stack has.
 *
 * A sample of an object of z bytes, with the period R, stands for z / (1 - exp(-z / R)) bytes, and
 * its variance is that times z / (exp(z / R) - 1): nothing for objects that are always sampled.
 */
#include "profile/verdict.h"
#include "base/table.h"
#include "base/util.h"
#include "profile/steady.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double Z = 3.09, NONE = 6.908; /* 0.1 %: of a normal variable, and of no event */
static const double SHARE = 0.2;   /* of a growth: less than that is not called one of its causes */
static const double FLOOR = 65536; /* bytes; less is not worth a word */
static const double LEADING = 0.5; /* of the whole growth: a class with less is one of many */
static const double ONLY_UP = 0.8; /* of what rises: the rest was taken back */
static const double UNSEEN_MOST = 1 << 20; /* bytes in a second: who may grow so fast, may grow */
static const double LOOKS_APART = 0.5;     /* of the mean time between looks, at least */
/* Time until stacks can be told apart: so many samples of the growth. */
static const double SAMPLES_APART = 12, SAMPLES_ALONE = 5.8;
enum {
    COHORT_LEAST = 8,
    SAMPLES_OF_ABOUT = 30,
    CLASS_FLOOR = 2,
    CLEAR_MOST = 20,
    TOTAL_FLOOR = 4096
};

/* A class. */
struct class_model {
    double weight, unseen; /* bytes of a sample; its variance divided by them */
    double none;           /* the most bytes that may grow without a sample */
    struct steady steady;
    bool grows, counts; /* counts: no growth in threads that do not sample hides in it */
    double older;       /* bytes at the first look without a sample, at most */
    size_t born, died, alive, early; /* early: alive at the first look */
    double net, variance;            /* of the cells */
    double shrunk;                   /* what cells have lost, whose place others may have taken */
};

/* The objects of one stack and class. */
struct cell {
    uint32_t stack, class, born, died;
    double net, variance; /* of what has grown, bytes; by the better of two bounds */
    double shrunk;        /* net is 0 instead of so much less */
};

/* Sums of cells. */
struct part {
    double net, variance, unseen, none;
    size_t samples;
};

struct model {
    const struct verdict_input *input;
    struct verdict *verdict;
    struct steady_rule rule;
    double *seconds;
    size_t count;   /* of looks that are far enough apart */
    double *series; /* bytes of each class at them */
    double *sum, *increments;
    struct class_model *classes;
    struct cell *cells; /* in order of stacks */
    size_t cell_count;
    double *growing; /* the sum of the classes that grow */
    double growth;   /* of it */
    double most;     /* that all classes have grown by, where samples count */
    double floor;    /* the least change of it that counts */
    bool moves;      /* as much of other classes is freed: the same objects may change their size */
    struct part all; /* of their cells */
};

/* ---- looks ---- */

/* Copies the numbers of the looks that are kept: always the first and the last. */
static size_t keep_looks(size_t *kept, const double *seconds, size_t count)
{
    double least = LOOKS_APART * (seconds[count - 1] - seconds[0]) / (double)(count - 1);
    size_t have = 1;

    kept[0] = 0;
    for (size_t i = 1; i < count; i++)
        if (seconds[i] - seconds[kept[have - 1]] > least)
            kept[have++] = i;
    if (kept[have - 1] != count - 1 && have > 1)
        kept[have - 1] = count - 1;
    return have;
}

static const double *series_of(const struct model *model, size_t class)
{
    return &model->series[class * model->count];
}

static bool take_looks(struct model *model)
{
    const struct verdict_input *input = model->input;
    AUTO_FREE size_t *kept = calloc(input->look_count + 1, sizeof *kept);
    AUTO_FREE double *all = calloc(input->look_count + 1, sizeof *all);

    if (!kept || !all)
        return false;
    for (size_t i = 0; i < input->look_count; i++)
        all[i] = input->looks[i].seconds;
    if (input->look_count > 1)
        model->count = keep_looks(kept, all, input->look_count);
    model->seconds = calloc(model->count + 1, sizeof *model->seconds);
    model->increments = calloc(model->count + 1, sizeof *model->increments);
    model->sum = calloc(model->count + 1, sizeof *model->sum);
    model->growing = calloc(model->count + 1, sizeof *model->growing);
    model->series = calloc(model->count * input->class_count + 1, sizeof *model->series);
    if (!model->seconds || !model->increments || !model->sum || !model->growing || !model->series)
        return false;
    for (size_t i = 0; i < model->count; i++) {
        model->seconds[i] = all[kept[i]];
        for (size_t j = 0; j < input->class_count; j++)
            model->series[j * model->count + i] = (double)input->looks[kept[i]].bytes[j];
    }
    return true;
}

/* ---- classes ---- */

static void add_series(const struct model *model, double *sum, size_t class)
{
    for (size_t i = 0; i < model->count; i++)
        sum[i] += series_of(model, class)[i];
}

static struct steady steady_of_series(const struct model *model, const double *series, double floor)
{
    return steady_of(&model->rule, model->seconds, series, floor, model->increments);
}

/* Tests share the error: classes that changed by so much that a growth would be said of them. */
static bool model_classes(struct model *model)
{
    size_t count = model->input->class_count, tests = 1;

    for (size_t i = 0; i < count; i++)
        tests += fabs(series_of(model, i)[model->count - 1] - series_of(model, i)[0]) > FLOOR;
    model->rule = steady_rule_make(model->count - 1, (double)tests);
    model->classes = calloc(count + 1, sizeof *model->classes);
    for (size_t i = 0; model->classes && i < count; i++) {
        struct class_model *class = &model->classes[i];
        double size = (double)model->input->sizes[i], period = model->input->period;
        class->counts = true;
        class->steady = steady_of_series(model, series_of(model, i), CLASS_FLOOR * size);
        class->grows = class->steady.grows;
        if (!(period > 0))
            continue;
        class->weight = size / -expm1(-size / period);
        class->unseen = size / expm1(size / period);
        class->none = floor(NONE * period / size) * size;
    }
    return model->classes != NULL;
}

/* ---- cells ---- */

static int compare_objects(const void *a, const void *b)
{
    const struct verdict_object *x = a, *y = b;

    if (x->stack != y->stack)
        return x->stack < y->stack ? -1 : 1;
    return (x->class > y->class) - (x->class < y->class);
}

/* Returns when it was born, in seconds since the first look; not after it: 0 or less. */
static double born_at(const struct verdict_input *input, const struct verdict_object *object)
{
    if (input->began_ns)
        return object->birth > input->began_ns ? (double)(object->birth - input->began_ns) / 1e9
                                               : 0;
    return input->looks[object->first].seconds - input->looks[0].seconds;
}

/* Returns an upper bound of the mean of so many events, at 0.1 % (Wilson and Hilferty). */
static double events_most(double count)
{
    double n = count + 1;

    return count > 0 ? n * pow(1 - 1 / (9 * n) + Z / (3 * sqrt(n)), 3) : NONE;
}

/* Returns a lower bound, likewise. */
static double events_least(double count)
{
    return count > 0 ? count * pow(fmax(0, 1 - 1 / (9 * count) - Z / (3 * sqrt(count))), 3) : 0;
}

/* Bounds the growth by what lives of those born in the first part of the time. */
static void bound_by_cohort(struct cell *cell, const struct model *model,
                            const struct verdict_object *objects, size_t count, double part)
{
    const struct class_model *class = &model->classes[cell->class];
    uint32_t last = (uint32_t)model->input->look_count - 1;
    double born = 0, of[2] = {0}, alive[2] = {0}, mean, most, net, variance,
           until = part * model->verdict->seconds;

    for (size_t i = 0; i < count; i++) {
        double at = born_at(model->input, &objects[i]);
        size_t half = at > until / 2;
        born += at > 0;
        if (at <= 0 || at > until)
            continue;
        of[half]++;
        alive[half] += objects[i].last == last;
    }
    if (of[0] < COHORT_LEAST || of[1] < COHORT_LEAST)
        return;
    mean = fmax(alive[0] / of[0], alive[1] / of[1]);
    most = fmax(mean, fmin(1, events_most(alive[0] + alive[1]) / (of[0] + of[1])));
    net = class->weight * born * mean;
    variance = pow(
        ((class->weight * born + Z * sqrt(class->weight * class->unseen * born)) * most - net) / Z,
        2);
    if (net + Z * sqrt(variance) < cell->net + Z * sqrt(cell->variance)) {
        cell->net = net;
        cell->variance = variance;
    }
}

static struct cell make_cell(struct model *model, const struct verdict_object *objects,
                             size_t count)
{
    struct cell cell = {.stack = objects->stack, .class = objects->class};
    struct class_model *class = &model->classes[cell.class];
    uint32_t last = (uint32_t)model->input->look_count - 1;

    for (size_t i = 0; i < count; i++) {
        bool later = born_at(model->input, &objects[i]) > 0;
        cell.born += later && objects[i].last == last;
        cell.died += !later && objects[i].first == 0 && objects[i].last < last;
        class->alive += objects[i].last == last;
        class->early += objects[i].first == 0;
    }
    cell.net = class->weight * ((double)cell.born - (double)cell.died);
    cell.variance = class->weight * class->unseen * ((double)cell.born + (double)cell.died);
    /*
     * Of what is born, the share remains that lives of those born early. Both halves of the early
     * part must say so: a pool that is freed once, as a whole, takes only those before.
     */
    static const double parts[] = {0.25, 0.5, 0.75};
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        bound_by_cohort(&cell, model, objects, count, parts[i]);
    if (cell.net < -Z * sqrt(cell.variance)) { /* others take its place: that is no growth */
        cell.shrunk = -cell.net;
        cell.net = 0;
    }
    class->shrunk += cell.shrunk;
    class->born += cell.born;
    class->died += cell.died;
    class->net += cell.net;
    class->variance += cell.variance;
    return cell;
}

static bool make_cells(struct model *model)
{
    struct verdict_object *objects = model->input->objects;
    size_t count = model->input->object_count;

    if (count)
        qsort(objects, count, sizeof *objects, compare_objects);
    for (size_t i = 0; i < count; i++)
        model->cell_count += i == 0 || compare_objects(&objects[i - 1], &objects[i]) != 0;
    model->cells = calloc(model->cell_count + 1, sizeof *model->cells);
    if (!model->cells)
        return false;
    for (size_t i = 0, from = 0, cell = 0; i < count; i++)
        if (i + 1 == count || compare_objects(&objects[i], &objects[i + 1]) != 0) {
            model->cells[cell++] = make_cell(model, &objects[from], i + 1 - from);
            from = i + 1;
        }
    return true;
}

/* ---- parts ---- */

static void add_cell(struct part *part, const struct class_model *class, const struct cell *cell,
                     double sign)
{
    part->net += sign * cell->net;
    part->variance += sign * cell->variance;
    part->samples += sign > 0 ? cell->born + cell->died : -(size_t)(cell->born + cell->died);
    part->unseen = fmax(part->unseen, class->unseen);
    part->none = fmax(part->none, class->none);
}

/* All cells of a class. */
static void add_class(struct part *part, const struct class_model *class)
{
    part->net += class->net;
    part->variance += class->variance;
    part->samples += class->born + class->died;
    part->unseen = fmax(part->unseen, class->unseen);
    part->none = fmax(part->none, class->none);
}

/* Returns the most that it has grown, at 0.1 %. */
static double part_most(const struct part *part)
{
    if (part->samples == 0)
        return part->none;
    return part->net + Z * sqrt(fmax(0, part->variance)) + Z * Z / 2 * part->unseen;
}

/*
 * The bytes at the first look that were not sampled because they are older than the sampling: all
 * but the samples, unless sampling was on from the start and the samples agree with the count.
 */
static double older_most(const struct model *model, const struct class_model *class, size_t number)
{
    double samples = (double)class->early, bytes = series_of(model, number)[0],
           error = Z * sqrt(class->weight * class->unseen * fmax(samples, 1)) + class->unseen;

    if (model->input->from_start && bytes - class->weight * samples < error)
        return 0;
    return bytes;
}

/* A change that is not for certain is no bound: its error is, or about all that ever rose. */
static double steady_most(const struct steady *steady)
{
    double rose = steady->rises + steady->deviation,
           most = steady->grows ? steady->change : fmin(steady->change + steady->error, rose);

    return fmax(0, most + steady->noise);
}

/* ---- stacks ---- */

/*
 * The most that a stack has grown, if what nobody has sampled did not shrink: what its samples
 * allow, what its classes have grown by and others, as samples show, have shrunk. Classes of
 * which it has no sample can be a little of it.
 */
static void bound_above(struct verdict_stack *stack, const struct model *model,
                        const struct cell *cells, size_t count)
{
    struct part own = {0};
    double sum = 0, rest = model->most;

    for (size_t i = 0; i < count; i++) {
        const struct cell *cell = &cells[i];
        const struct class_model *class = &model->classes[cell->class];
        double most = class->weight * events_most(cell->born),
               shrunk = fmax(0, cell->net - class->net);
        add_cell(&own, class, cell, 1);
        sum += class->counts ? fmin(most, steady_most(&class->steady) + shrunk) : most;
        rest -= class->counts ? steady_most(&class->steady) : 0;
    }
    sum += fmin(fmax(0, rest), NONE * model->input->period);
    stack->high = fmax(0, fmin(part_most(&own), sum));
    /* More than its samples allow, by all classes together: a thread that does not sample. */
    if (stack->low > part_most(&own))
        stack->low = 0;
}

/*
 * Bounds by the stack's own samples: of what it has no sample of, no more can be freed unseen than
 * was alive at the first look and older than the sampling. What other stacks have lost it may have
 * replaced.
 */
static void bound_by_samples(struct verdict_stack *stack, double *total, const struct model *model,
                             const struct cell *cells, size_t count, double lost)
{
    double weight = 0, born = 0, died = 0, older = lost, change = 0, low;

    for (size_t i = 0; i < count; i++) {
        const struct class_model *class = &model->classes[cells[i].class];
        const double replaced = class->older + class->shrunk - cells[i].shrunk;
        if (!class->grows || !class->counts || replaced > SHARE * class->steady.change)
            continue;
        weight = fmax(weight, class->weight);
        born += class->weight * (double)cells[i].born;
        died += class->weight * (double)cells[i].died;
        older += replaced;
        change += class->steady.change;
    }
    if (!(weight > 0))
        return;
    low = weight * events_least(born / weight) - older;
    if (died > 0)
        low -= weight * events_most(died / weight);
    low = fmin(low, change);
    if (low > 0 && low > stack->low) {
        stack->low = low;
        *total = change;
    }
}

enum set {
    SET_OWN,     /* the classes of the stack */
    SET_GROWING, /* all that grow */
    SET_BOTH,
    SET_CLEAR, /* those that it has and that grow, if not much of them is another's */
    SETS,
};

static bool set_has(enum set set, const struct class_model *class, const struct cell *cell)
{
    if (!class->counts)
        return false;
    if (set == SET_CLEAR)
        return class->grows && class->born + class->died - cell->born - cell->died < CLEAR_MOST;
    return class->grows || set != SET_GROWING;
}

/*
 * Returns what those classes of a stack that do not grow have lost, as far as it may all be the
 * stack's: objects that change their size do so in classes that grow and in others.
 */
static double lost_elsewhere(const struct model *model, const struct cell *cells, size_t count)
{
    double change = 0, most = 0;

    for (size_t i = 0; i < count; i++) {
        const struct class_model *class = &model->classes[cells[i].class];
        if (class->grows)
            continue;
        change += class->steady.change;
        most += class->older + class->weight * events_most(cells[i].died);
    }
    return fmin(fmax(0, -change), most);
}

/*
 * Bounds by one set of classes: its growth, less the most that others have of it, and less what
 * was lost in classes of the stack that the set does not have.
 */
static void bound_below(struct verdict_stack *stack, double *total, struct model *model,
                        const struct cell *cells, size_t count, enum set set, double lost)
{
    bool few = set == SET_OWN || set == SET_CLEAR;
    struct part others = few ? (struct part){0} : model->all;
    double floor = few ? 0 : model->floor;
    struct steady steady;

    for (size_t i = 0; i < model->count; i++)
        model->sum[i] = few ? 0 : model->growing[i];
    for (size_t i = 0; i < count; i++) {
        const struct class_model *class = &model->classes[cells[i].class];
        if (!set_has(set, class, &cells[i]))
            continue;
        if (few || !class->grows) {
            floor = fmax(floor, CLASS_FLOOR * (double)model->input->sizes[cells[i].class]);
            add_series(model, model->sum, cells[i].class);
            add_class(&others, class);
        }
        add_cell(&others, class, &cells[i], -1);
    }
    steady = steady_of_series(model, model->sum, floor);
    /* Keeps the better of two bounds. */
    double low = steady.grows ? steady.change - steady.noise - part_most(&others) -
                                    (set == SET_GROWING || set == SET_CLEAR ? lost : 0)
                              : fmin(0, steady.change - steady.error);
    if (low <= stack->low)
        return;
    stack->low = low;
    *total = steady.change;
}

/* Returns the growth of which the lower bound is a part. */
static double bound_stack(struct verdict_stack *stack, struct model *model,
                          const struct cell *cells, size_t count)
{
    double total = 0, most = -INFINITY, lost = lost_elsewhere(model, cells, count);
    bool grows = false;

    stack->low = -INFINITY;
    for (size_t i = 0; i < count; i++) {
        const struct class_model *class = &model->classes[cells[i].class];
        double estimate = class->weight * ((double)cells[i].born - (double)cells[i].died);
        stack->born += cells[i].born;
        stack->died += cells[i].died;
        stack->estimate += estimate;
        grows |= class->grows && class->counts;
        if (estimate > most) {
            most = estimate;
            stack->class = cells[i].class;
        }
    }
    for (enum set set = SET_OWN; set < (grows ? SETS : SET_GROWING); set++)
        bound_below(stack, &total, model, cells, count, set, lost);
    bound_by_samples(stack, &total, model, cells, count, lost);
    bound_above(stack, model, cells, count);
    stack->low = fmin(stack->low, stack->high);
    if (model->input->threads_unsampled || (model->moves && !model->input->from_start))
        stack->low = fmin(stack->low, 0);
    return total;
}

/*
 * Says of stacks that they grow. Where all of a growth may be another's, a bound is positive by
 * chance in 0.1 % of looks: it must also be a share of the growth, and of the largest such bound.
 */
static bool bound_stacks(struct model *model)
{
    struct verdict *verdict = model->verdict;
    AUTO_FREE double *totals = calloc(model->input->stack_count + 1, sizeof *totals);
    double largest = 0;

    if (!totals)
        return false;
    for (size_t i = 0, count; i < model->cell_count; i += count) {
        uint32_t stack = model->cells[i].stack;
        for (count = 1; i + count < model->cell_count; count++)
            if (model->cells[i + count].stack != stack)
                break;
        if (stack >= model->input->stack_count)
            continue;
        totals[stack] = bound_stack(&verdict->stacks[stack], model, &model->cells[i], count);
        largest = fmax(largest, verdict->stacks[stack].low);
    }
    for (size_t i = 0; i < model->input->stack_count; i++) {
        struct verdict_stack *stack = &verdict->stacks[i];
        stack->grows =
            stack->low > 0 && stack->low > SHARE * totals[i] && stack->low > SHARE * largest;
        if (stack->grows)
            stack->estimate = fmin(fmax(stack->estimate, stack->low), stack->high);
        verdict->grows += stack->grows;
    }
    return true;
}

/* ---- the verdict ---- */

static void fill_classes(struct model *model)
{
    double seconds = model->verdict->seconds;

    for (size_t i = 0; i < model->input->class_count; i++) {
        const struct class_model *class = &model->classes[i];
        struct verdict_class *judged = &model->verdict->classes[i];
        double size = (double)model->input->sizes[i], samples = (double)class->alive,
               grown = class->weight * ((double)class->born - (double)class->died),
               objects = (double)model->input->looks[model->input->look_count - 1].objects[i];
        judged->growth = class->steady.change;
        judged->error = class->steady.noise;
        judged->grows = class->grows;
        judged->unsampled = class->grows && !class->counts;
        judged->unseen = judged->unsampled || class->steady.change < class->none;
        judged->wait_s = -1;
        if (!(model->input->period > 0) || !class->grows)
            continue;
        judged->older = fmax(0, objects - class->weight / size * samples);
        judged->older_per_s = fmax(0, (grown - class->steady.change) / size / seconds);
        /* About how long until the stacks of the class can be told apart. */
        double rate = class->steady.change / seconds;
        if (judged->older_per_s > 0 && class->alive + class->died >= SAMPLES_OF_ABOUT)
            judged->wait_s =
                judged->older / judged->older_per_s + SAMPLES_APART * class->weight / rate;
        else if (judged->unseen)
            judged->wait_s = fmax(0, SAMPLES_ALONE * class->weight / rate - seconds);
    }
    for (size_t i = 0; i < model->cell_count; i++)
        if (model->cells[i].stack < model->input->stack_count &&
            model->verdict->stacks[model->cells[i].stack].grows)
            model->verdict->classes[model->cells[i].class].explained = true;
}

/* Returns the class that grows most and is not explained; VERDICT_ALL_CLASSES: none. */
static uint32_t find_leading(const struct verdict *verdict, size_t count)
{
    uint32_t leading = VERDICT_ALL_CLASSES;
    double most = FLOOR;

    for (uint32_t i = 0; i < count; i++)
        if (verdict->classes[i].grows && !verdict->classes[i].explained &&
            verdict->classes[i].growth > most) {
            most = verdict->classes[i].growth;
            leading = i;
        }
    return leading;
}

/*
 * Marks the stacks that may be the growth of the leading class, or of all. One without a new
 * sample is one of those that no sample shows.
 */
static void mark_candidates(struct model *model, double growth, double most)
{
    struct verdict *verdict = model->verdict;

    for (size_t i = 0; i < model->cell_count; i++) {
        const struct cell *cell = &model->cells[i];
        double high = model->classes[cell->class].weight * events_most(cell->born);
        if (cell->stack >= model->input->stack_count || !cell->born ||
            (verdict->leading != VERDICT_ALL_CLASSES && cell->class != verdict->leading))
            continue;
        if (verdict->leading == VERDICT_ALL_CLASSES)
            high = verdict->stacks[cell->stack].high;
        verdict->stacks[cell->stack].candidate |=
            fmin(fmin(high, most), verdict->stacks[cell->stack].high) > SHARE * growth;
    }
}

/* The class with the largest part of a step. */
static uint32_t find_stepped(const struct model *model, size_t stepped)
{
    uint32_t leading = 0;
    double most = -INFINITY;

    for (uint32_t i = 0; i < model->input->class_count; i++) {
        double step = series_of(model, i)[stepped + 1] - series_of(model, i)[stepped];
        if (step > most) {
            most = step;
            leading = i;
        }
    }
    return leading;
}

double verdict_watch(double bound)
{
    return bound / UNSEEN_MOST;
}

/* The kind that a series alone has. */
static enum verdict_kind kind_of_series(const struct steady *total, double seconds)
{
    bool moved = total->change > FLOOR;

    if (moved && total->grows)
        return VERDICT_GROWS;
    if (moved && total->once)
        return VERDICT_ONCE;
    if (moved && (total->change > 2 * total->deviation || total->change > ONLY_UP * total->rises))
        return VERDICT_UNSTEADY;
    return verdict_watch(steady_most(total)) > seconds ? VERDICT_UNSURE : VERDICT_NOTHING;
}

static void find_kind(struct model *model, const struct steady *total)
{
    struct verdict *verdict = model->verdict;
    uint32_t most = VERDICT_ALL_CLASSES;
    double low = 0;

    for (size_t i = 0; i < model->input->stack_count; i++)
        if (verdict->stacks[i].grows && verdict->stacks[i].low > low) {
            low = verdict->stacks[i].low;
            most = verdict->stacks[i].class;
        }
    verdict->kind = kind_of_series(total, verdict->seconds);
    verdict->leading = find_leading(verdict, model->input->class_count);
    /* One size of many is not the growth, and neither is one that takes the place of others. */
    if (verdict->leading != VERDICT_ALL_CLASSES &&
        (model->moves || (total->grows && model->classes[verdict->leading].steady.change <
                                              LEADING * total->change)))
        verdict->leading = VERDICT_ALL_CLASSES;
    bool class = verdict->leading != VERDICT_ALL_CLASSES && total->change + total->error > 0;
    if (verdict->grows) {
        verdict->kind = VERDICT_GROWS;
        verdict->leading = most;
    } else if (class || verdict->kind == VERDICT_GROWS) {
        const struct steady *grown = class ? &model->classes[verdict->leading].steady : total;
        verdict->kind = model->input->period > 0 ? VERDICT_ONE_OF : VERDICT_CLASSES;
        verdict->unseen = class ? verdict->classes[verdict->leading].unseen
                                : total->change < NONE * model->input->period;
        mark_candidates(model, grown->change, grown->change + grown->noise);
    } else if (verdict->kind == VERDICT_ONCE) {
        verdict->leading = find_stepped(model, total->stepped);
        mark_candidates(model, total->step, INFINITY);
    }
}

static bool make_verdict(struct model *model)
{
    struct verdict *verdict = model->verdict;
    struct steady_rule single;
    struct steady total;
    double grown = 0;

    verdict->seconds = model->count > 1 ? model->seconds[model->count - 1] - model->seconds[0] : 0;
    memset(model->sum, 0, (model->count + 1) * sizeof *model->sum);
    for (size_t i = 0; i < model->input->class_count; i++)
        add_series(model, model->sum, i);
    if (model->count)
        verdict->growth = model->sum[model->count - 1] - model->sum[0];
    verdict->kind = VERDICT_TOO_SHORT;
    if (model->count < STEADY_LEAST + 1)
        return true;
    single = steady_rule_make(model->count - 1, 1);
    total = steady_of(&single, model->seconds, model->sum, TOTAL_FLOOR, model->increments);
    verdict->error = total.noise;
    verdict->bound = steady_most(&total);
    if (!model_classes(model) || !make_cells(model))
        return false;
    /* The sum of the classes that grow: objects that move between them cancel. */
    for (size_t i = 0; i < model->input->class_count; i++) {
        struct class_model *class = &model->classes[i];
        /*
         * A class that grows by more than its samples allow does so in threads that do not sample.
         * What is freed and was never sampled makes the samples too many, never too few.
         */
        double samples = (double)class->born - (double)class->died,
               error = class->born + class->died == 0
                           ? class->none
                           : Z * sqrt(class->weight * class->unseen *
                                      (double)(class->born + class->died)) +
                                 Z * Z / 2 * class->unseen;
        class->counts = !(class->grows && class->steady.change - class->steady.noise >
                                              class->weight * samples + error);
        class->older = older_most(model, class, i);
        model->most += class->counts ? steady_most(&class->steady) : 0;
        grown += class->grows ? class->steady.change : 0;
        if (!class->grows || !class->counts)
            continue;
        add_series(model, model->growing, i);
        add_class(&model->all, class);
        model->growth += class->steady.change;
        model->floor = fmax(model->floor, CLASS_FLOOR * (double)model->input->sizes[i]);
    }
    model->moves = fabs(total.change) < SHARE * grown && total.change + total.error < SHARE * grown;
    if (!bound_stacks(model))
        return false;
    fill_classes(model);
    find_kind(model, &total);
    return true;
}

bool verdict_make(struct verdict *verdict, struct verdict_input *input)
{
    struct model model = {.input = input, .verdict = verdict};
    bool good;

    *verdict = (struct verdict){.leading = VERDICT_ALL_CLASSES};
    verdict->stacks = calloc(input->stack_count + 1, sizeof *verdict->stacks);
    verdict->classes = calloc(input->class_count + 1, sizeof *verdict->classes);
    good = verdict->stacks && verdict->classes && take_looks(&model) && make_verdict(&model);
    free(model.seconds);
    free(model.series);
    free(model.sum);
    free(model.increments);
    free(model.growing);
    free(model.classes);
    free(model.cells);
    return good;
}

void verdict_free(struct verdict *verdict)
{
    free(verdict->stacks);
    free(verdict->classes);
    *verdict = (struct verdict){0};
}

struct verdict_total verdict_of_total(const double *seconds, const double *bytes, size_t count)
{
    struct verdict_total total = {.kind = VERDICT_TOO_SHORT};
    AUTO_FREE size_t *kept = calloc(count + 1, sizeof *kept);
    AUTO_FREE double *series = calloc(3 * (count + 1), sizeof *series);
    struct steady_rule rule;
    struct steady steady;

    if (!kept || !series || count < 2)
        return total;
    total.seconds = seconds[count - 1] - seconds[0];
    total.growth = bytes[count - 1] - bytes[0];
    count = keep_looks(kept, seconds, count);
    if (count < STEADY_LEAST + 1)
        return total;
    for (size_t i = 0; i < count; i++) {
        series[i] = seconds[kept[i]];
        series[count + i] = bytes[kept[i]];
    }
    rule = steady_rule_make(count - 1, 1);
    steady = steady_of(&rule, series, series + count, TOTAL_FLOOR, series + 2 * count);
    total.kind = kind_of_series(&steady, total.seconds);
    total.error = steady.noise;
    total.bound = steady_most(&steady);
    return total;
}
