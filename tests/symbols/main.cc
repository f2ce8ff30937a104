#include "shapes.h"

#include <cstdio>

using namespace shapes;

template <int N> static NOINLINE long unrolled(long x)
{
    if constexpr (N == 0)
        return x;
    else
        return unrolled<N - 1>(x * N + twice(static_cast<int>(x) % 10));
}

int main(int argc, char **argv)
{
    std::vector<std::string> words(argv, argv + argc);

    std::sort(words.begin(), words.end(),
              [](const std::string &a, const std::string &b) { return a.size() < b.size(); });
    printf("%ld %ld %ld\n", areas(argc), unrolled<4>(argc), plain_entry(argc));
    return words.empty();
}
