/* The index of a DWARF package: both versions, and damaged ones. */
#include "check.h"
#include "profile/symbols/dwp_index.h"

#include <string.h>

enum { SLOTS = 4, UNITS = 2 };

/* A header, SLOTS ids and rows, then columns, offsets and sizes of UNITS rows. */
struct made {
    uint32_t head[4];
    uint64_t ids[SLOTS];
    uint32_t rows[SLOTS], columns[3], offsets[UNITS][3], sizes[UNITS][3];
} __attribute__((packed));

static struct made make(uint32_t version, uint32_t column)
{
    return (struct made){.head = {version, 3, UNITS, SLOTS},
                         .ids = {[1] = 0x500000001, [2] = 0x500000005},
                         .rows = {[1] = 1, [2] = 2},
                         .columns = {1, 3, column},
                         .offsets = {{10, 20, 30}, {11, 21, 31}},
                         .sizes = {{1, 2, 3}, {4, 5, 6}}};
}

static bool find(const struct made *made, uint64_t id, struct dwp_unit *unit)
{
    return dwp_find(made, sizeof *made, id, unit);
}

static void test_versions(void)
{
    struct made made = make(5, 8);
    struct dwp_unit unit;

    CHECK(find(&made, 0x500000001, &unit) && unit.offset[DWP_INFO] == 10 &&
          unit.size[DWP_ABBREV] == 2 && unit.offset[DWP_RNGLISTS] == 30);
    CHECK(find(&made, 0x500000005, &unit) && unit.offset[DWP_RNGLISTS] == 31 &&
          !unit.has[DWP_LINE]);
    CHECK(!find(&made, 2, &unit) && !find(&made, 0x500000009, &unit));
    made = make(2, 8); /* macros */
    CHECK(find(&made, 0x500000001, &unit) && !unit.has[DWP_RNGLISTS]);
    made = make(2, 6);
    CHECK(find(&made, 0x500000001, &unit) && unit.size[DWP_STR_OFFSETS] == 3);
}

static void test_damaged(void)
{
    struct made good = make(5, 8), made;
    struct dwp_unit unit;

    for (size_t len = 0; len < sizeof good; len++)
        CHECK(!dwp_find(&good, len, 0x500000001, &unit));
    for (size_t i = 0; i < 4; i++) {
        made = good;
        made.head[i] = i == 3 ? 3 : UINT32_MAX;
        CHECK(!find(&made, 0x500000001, &unit));
    }
    made = good;
    made.rows[1] = 3;
    CHECK(!find(&made, 0x500000001, &unit));
    made = good;
    made.columns[1] = 0;
    CHECK(!find(&made, 0x500000001, &unit));
    made = good; /* no free slot ends the search */
    memset(made.ids, 1, sizeof made.ids);
    made.rows[0] = made.rows[3] = 1;
    CHECK(!find(&made, 7, &unit));
}

/* A search in a full table ends, although the unit is in it: each skeleton causes one. */
static void test_full_table(void)
{
    enum { MANY = 1 << 14 };
    static struct {
        uint32_t head[4];
        uint64_t ids[MANY];
        uint32_t rows[MANY], columns[2], offsets[2], sizes[2];
    } __attribute__((packed)) full = {.head = {5, 2, 1, MANY}, .columns = {1, 3}};
    struct dwp_unit unit;

    for (size_t i = 0; i < MANY; i++)
        full.rows[i] = 1;
    full.ids[100] = MANY; /* the step is 1 */
    CHECK(dwp_find(&full, sizeof full, MANY, &unit));
    full.ids[100] = 0;
    full.ids[MANY - 1] = MANY;
    CHECK(!dwp_find(&full, sizeof full, MANY, &unit));
}

int main(void)
{
    test_versions();
    test_damaged();
    test_full_table();
    return check_result();
}
