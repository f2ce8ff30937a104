/* Templates and inlined calls, included by more than one source file. */
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#define INLINE   inline __attribute__((always_inline))
#define NOINLINE __attribute__((noinline))

namespace shapes
{

template <class T> struct Box {
    T value;

    INLINE T get(int k) const
    {
        return value + T(k);
    }

    NOINLINE T sum(int n) const
    {
        T all{};
        for (int i = 0; i < n; i++)
            all = all + get(i);
        return all;
    }
};

class Shape
{
  public:
    virtual ~Shape() = default;
    virtual long area(int scale) const = 0;
};

int count_words(const std::string &text);
long areas(int scale);

static INLINE int twice(int x)
{
    return count_words(std::to_string(x)) + count_words(std::to_string(x + 1));
}

} // namespace shapes

extern "C" long plain_entry(long n);
