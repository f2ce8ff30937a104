/*
 * Fills its heap with objects of known kinds and numbers, says "ready", waits for the end of
 * stdin, and says "ok" if no byte of them has changed.
 */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/prctl.h>
#include <unistd.h>

struct Base {
    virtual ~Base() {}
    virtual int kind() const { return 0; }
};

/* 48 bytes, as Cart. */
struct Session : Base {
    long id;
    char state[24];
    explicit Session(long number) : id(number), state{1} {}
    int kind() const override { return 1; }
};

namespace shop
{
template <class T> struct Order : Base {
    T id;
    char items[150];
    explicit Order(T number) : id(number) { memset(items, 7, sizeof items); }
    int kind() const override { return 2; }
};

namespace
{
struct Cart : Base {
    long items[5] = {1, 2, 3, 4, 5};
    int kind() const override { return 3; }
};
} // namespace

Base *make_cart() { return new Cart; }
} // namespace shop

enum { SESSIONS = 700000, ORDERS = 300000, CARTS = 100000, TEXTS = 50000, ESCAPES = 5000 };
enum { ZEROS = 20000, BLOCKS = 2000, BUFFERS = 100, UNTOUCHED = 50 };

static struct {
    char *start;
    size_t size;
} objects[SESSIONS + ORDERS + CARTS + TEXTS + ESCAPES + ZEROS + BLOCKS + BUFFERS];
static size_t count;

static void keep(void *start, size_t size)
{
    objects[count].start = static_cast<char *>(start);
    objects[count++].size = size;
}

static void keep_text(const char *format, size_t size, long number)
{
    char *text = static_cast<char *>(calloc(1, size));

    snprintf(text, size, format, number);
    keep(text, size);
}

static void keep_random(size_t size)
{
    unsigned char *block = static_cast<unsigned char *>(malloc(size));

    for (size_t i = 0; i < size; i++)
        block[i] = static_cast<unsigned char>(random() >> 7);
    keep(block, size);
}

static uint64_t sum_of_all()
{
    uint64_t sum = 0;

    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k + 8 <= objects[i].size; k += 8) {
            uint64_t word;
            memcpy(&word, objects[i].start + k, sizeof word);
            sum = sum * 31 + word;
        }
    return sum;
}

static void fill()
{
    for (long i = 0; i < SESSIONS; i++)
        keep(new Session(i), sizeof(Session));
    for (long i = 0; i < ORDERS; i++)
        keep(new shop::Order<long>(i), sizeof(shop::Order<long>));
    for (long i = 0; i < CARTS; i++)
        keep(shop::make_cart(), sizeof(Session));
    for (long i = 0; i < TEXTS; i++)
        keep_text("{\"password\":\"hunter2\",\"user\":%ld}", 80, i);
    for (long i = 0; i < ESCAPES; i++)
        keep_text("terminal\x1b[31m\x9b\xe2\x80\xae\x07 %ld", 96, i);
    for (long i = 0; i < ZEROS; i++)
        keep(calloc(1, 1024), 1024);
    for (long i = 0; i < BLOCKS; i++)
        keep_random(4000);
    for (long i = 0; i < BUFFERS; i++) { /* text behind a header of zeros */
        char *buffer = static_cast<char *>(calloc(1, 8192));
        for (size_t k = 2048; k < 8192; k += 16)
            memcpy(buffer + k, "middle_of_buffer", 16);
        keep(buffer, 8192);
    }
}

int main()
{
    char ch;
    volatile char *untouched;
    uint64_t sum;

    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); /* the kernel would fill pages at any time */
    fill();
    for (int i = 0; i < UNTOUCHED; i++)
        untouched = static_cast<char *>(malloc(1 << 20));
    sum = sum_of_all();
    puts("ready");
    fflush(stdout);
    while (read(0, &ch, 1) > 0)
        ;
    puts(sum == sum_of_all() ? "ok" : "changed");
    return untouched == nullptr;
}
