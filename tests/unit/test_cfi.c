/* Hostile call frame information, as the tool's own unwinder reads it: all of it is bounded. */
#include "check.h"
#include "perf/cfi.h"

#include <stdlib.h>
#include <string.h>

enum {
    AT = 0x10000,   /* of the bytes */
    CODE = 0x40000, /* of the function */
    CODE_LEN = 16,
    BYTES_MAX = 1 << 20,
    REMEMBER = 0x0a,
    RESTORE = 0x0b,
};

static unsigned char bytes[BYTES_MAX];
static size_t used;
static struct memory memory;
static struct cfi_reader reader = {.memory = &memory};
static struct cfi_row row;

static bool read_bytes(void *ctx, remote_addr addr, void *buf, size_t len)
{
    (void)ctx;
    if (addr < AT || addr - AT > used || len > used - (addr - AT))
        return false;
    memcpy(buf, bytes + (addr - AT), len);
    return true;
}

static void put(const void *data, size_t len)
{
    memcpy(bytes + used, data, len);
    used += len;
}

static void put_word(uint32_t value)
{
    put(&value, sizeof value);
}

/* Ends the record that begins at an offset. */
static void end_record(size_t start)
{
    uint32_t len = (uint32_t)(used - start - 4);

    memcpy(bytes + start, &len, sizeof len);
}

/* Reads the row of a function whose CIE has that column, and whose FDE that program. */
static bool row_of(const void *column, size_t column_len, const void *program, size_t len)
{
    size_t fde;

    used = 0;
    put_word(0);
    put_word(0);
    put("\3zR\0\1\x78", 6);
    put(column, column_len);
    put("\1\x03\x0c\7\x08\x90\1", 7); /* addresses of 4 bytes; CFA rsp + 8, pc at CFA - 8 */
    end_record(0);
    fde = used;
    put_word(0);
    put_word((uint32_t)(fde + 4));
    put_word(CODE);
    put_word(CODE_LEN);
    put("", 1);
    put(program, len);
    end_record(fde);
    return cfi_row_at(&reader, AT + fde, CODE + 1, &row);
}

#define ROW(program) row_of("\x10", 1, program, sizeof(program) - 1)

static void test_plain(void)
{
    CHECK(ROW("") && row.link == 16 && row.count == 1 && row.cfa.value == 8);
    CHECK(ROW("\x0a\x0e\x10\x0b") && row.cfa.value == 8); /* remembered and restored */
}

static void test_states(void)
{
    AUTO_FREE unsigned char *program = malloc(BYTES_MAX);

    if (!CHECK(program != NULL))
        return;
    memset(program, REMEMBER, BYTES_MAX);
    CHECK(row_of("\x10", 1, program, 16));
    CHECK(!row_of("\x10", 1, program, 17));
    CHECK(!row_of("\x10", 1, program, CFI_RECORD_MAX / 2));
    CHECK(!row_of("\x10", 1, program, BYTES_MAX - 64)); /* it is not read */
    CHECK(!ROW("\x0b"));
    for (size_t i = 0; i < BYTES_MAX; i++)
        program[i] = i % 2 ? RESTORE : REMEMBER;
    CHECK(row_of("\x10", 1, program, CFI_RECORD_MAX / 2)); /* never more than one at a time */
}

static void test_numbers(void)
{
    CHECK(!row_of("\x80\x80\x80\x80\x80\x80\x10", 7, "", 0));                  /* column 2^46 */
    CHECK(!row_of("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 11, "", 0)); /* without end */
    /* Register 3 is in register 2^46, and register 2^46 in register 3. */
    CHECK(ROW("\x09\x03\x80\x80\x80\x80\x80\x80\x10") && row.rules[0].reg == 3 &&
          row.rules[0].how == CFI_UNDEFINED);
    CHECK(ROW("\x09\x80\x80\x80\x80\x80\x80\x10\x03") && row.count == 1);
    CHECK(ROW("\x0d\x80\x80\x80\x80\x80\x80\x10") && row.cfa.how == CFI_UNDEFINED);
}

/* An expression is only noted here; it has to lie in the record. */
static void test_expressions(void)
{
    CHECK(ROW("\x0f\3\x2f\xfd\xff") && row.cfa.how == CFI_IS_EXPRESSION && row.cfa.len == 3);
    CHECK(!ROW("\x0f\4\x2f\xfd\xff"));
    CHECK(!ROW("\x0f\xff\xff\xff\xff\xff\xff\xff\xff\xff\1"));
}

int main(void)
{
    const struct memory_source source = {read_bytes, NULL};

    memory_open_source(&memory, &source);
    test_plain();
    test_states();
    test_numbers();
    test_expressions();
    memory_close(&memory);
    return check_result();
}
