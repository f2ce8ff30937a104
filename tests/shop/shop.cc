/*
 * Leaks through the library that its mode names: always in the program's own
 * function shop::remember, or in a lambda or a coroutine of it. Prints "ready"
 * after the first 2 MiB, then goes on for 64 MiB.
 */
#include <any>
#include <chrono>
#include <coroutine>
#include <cstdio>
#include <cstring>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#define APART __attribute__((noinline))

namespace shop {

struct Item {
    long price;
    char label[1000];
};

template <typename T> class Shelf {
public:
    void put(const T &item) { items.push_back(item); } /* inlined: part of the caller */
    std::vector<T> items;
};

/* What the program may keep: a smaller part of the heap. */
std::vector<std::string> catalogue;

APART void load_catalogue()
{
    for (int i = 0; i < 300; i++)
        catalogue.emplace_back(1000, 'c');
}

/* An awaitable that never ends: its frame is kept. */
struct Order {
    struct promise_type {
        Order get_return_object() { return {}; }
        std::suspend_never initial_suspend() noexcept { return {}; }
        std::suspend_never final_suspend() noexcept { return {}; }
        void return_void() {}
        void unhandled_exception() {}
    };
};

namespace in_vector {
std::vector<Shelf<Item> *> all;
APART void remember(int count)
{
    Shelf<Item> *shelf = new Shelf<Item>;
    for (int i = 0; i < count; i++)
        shelf->put(Item{i, "x"});
    all.push_back(shelf);
}
} // namespace in_vector

namespace in_string {
std::list<std::string> all;
APART void remember(int count)
{
    for (int i = 0; i < count; i++) {
        all.emplace_back("order ");
        all.back() += std::string(900, 'x') + std::to_string(i);
    }
}
} // namespace in_string

namespace in_stream {
std::vector<std::unique_ptr<std::ostringstream>> all;
APART void remember(int count)
{
    for (int i = 0; i < count; i++) {
        all.push_back(std::make_unique<std::ostringstream>());
        *all.back() << "order " << i << std::string(800, 'x');
    }
}
} // namespace in_stream

namespace in_map {
std::map<std::string, std::vector<Item>> all;
APART void remember(int count)
{
    static long next;
    for (int i = 0; i < count; i++)
        all["customer " + std::to_string(next++)].resize(1);
}
} // namespace in_map

namespace in_hash {
std::unordered_map<long, Item> all;
APART void remember(int count)
{
    static long next;
    for (int i = 0; i < count; i++)
        all.emplace(next++, Item{i, "x"});
}
} // namespace in_hash

namespace in_function {
std::deque<std::function<long()>> all;
APART void remember(int count)
{
    for (int i = 0; i < count; i++)
        all.push_back([item = Item{i, "x"}] { return item.price; });
}
} // namespace in_function

namespace in_shared {
std::vector<std::shared_ptr<Item>> all;
APART void remember(int count)
{
    for (int i = 0; i < count; i++)
        all.push_back(std::make_shared<Item>());
}
} // namespace in_shared

namespace in_any {
std::vector<std::any> all;
APART void remember(int count)
{
    for (int i = 0; i < count; i++)
        all.emplace_back(Item{i, "x"});
}
} // namespace in_any

namespace in_thread {
std::vector<std::vector<Item>> all;
APART void remember(int count)
{
    std::thread([count] {
        all.emplace_back();
        for (int i = 0; i < count; i++)
            all.back().push_back(Item{i, "x"});
    }).join();
}
} // namespace in_thread

namespace in_coroutine {
std::coroutine_handle<> newest; /* the compiler may not leave out the frame */
struct Never {
    bool await_ready() { return false; }
    void await_suspend(std::coroutine_handle<> handle) { newest = handle; }
    void await_resume() {}
};
APART Order remember_order(int number)
{
    Item item{number, "x"};
    co_await Never{};
    std::printf("%s\n", item.label);
}
APART void remember(int count)
{
    for (int i = 0; i < count; i++)
        remember_order(i);
}
} // namespace in_coroutine

struct Mode {
    const char *name;
    void (*remember)(int count);
};

const Mode modes[] = {
    {"vector", in_vector::remember}, {"string", in_string::remember},
    {"stream", in_stream::remember}, {"map", in_map::remember},
    {"hash", in_hash::remember},     {"function", in_function::remember},
    {"shared", in_shared::remember}, {"any", in_any::remember},
    {"thread", in_thread::remember}, {"coroutine", in_coroutine::remember},
};

APART void serve(const Mode &mode)
{
    for (int round = 0; round < 1024; round++) {
        mode.remember(64);
        if (round == 32) {
            std::puts("ready");
            std::fflush(stdout);
        }
        if (round > 32)
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    std::this_thread::sleep_for(std::chrono::hours(1));
}

} // namespace shop

int main(int argc, char **argv)
{
    shop::load_catalogue();
    for (const shop::Mode &mode : shop::modes)
        if (argc == 2 && std::strcmp(argv[1], mode.name) == 0)
            shop::serve(mode);
    for (const shop::Mode &mode : shop::modes)
        std::puts(mode.name);
    return argc == 2;
}
