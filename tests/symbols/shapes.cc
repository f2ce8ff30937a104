#include "shapes.h"

#include <functional>
#include <memory>
#include <set>

namespace shapes
{

namespace
{

struct Square : Shape {
    long side;
    explicit Square(long s) : side(s)
    {
    }
    long area(int scale) const override
    {
        return side * side * scale;
    }
};

struct Circle : Shape {
    double radius;
    explicit Circle(double r) : radius(r)
    {
    }
    long area(int scale) const override
    {
        return static_cast<long>(radius * radius * 3.14159 * scale);
    }
};

NOINLINE long hidden(const std::vector<std::unique_ptr<Shape>> &all, int scale)
{
    long sum = 0;
    for (const auto &shape : all)
        sum += shape->area(scale);
    return sum;
}

} // namespace

static NOINLINE long file_static(int scale)
{
    std::vector<std::unique_ptr<Shape>> all;

    for (int i = 0; i < scale; i++) {
        all.push_back(std::make_unique<Square>(i));
        all.push_back(std::make_unique<Circle>(i / 2.0));
    }
    return hidden(all, scale);
}

int count_words(const std::string &text)
{
    std::set<std::string> words;
    std::string word;

    for (char c : text)
        if (c == ' ') {
            words.insert(word);
            word.clear();
        } else {
            word += c;
        }
    words.insert(word);
    return static_cast<int>(words.size());
}

long areas(int scale)
{
    struct Local {
        std::map<std::string, long> totals;
        NOINLINE void add(const std::string &name, long value)
        {
            totals[name] += value;
            if (totals.size() > 100)
                throw std::string("too many");
        }
    } local;
    std::function<long(int)> recursive = [&](int n) -> long {
        local.add(std::to_string(n), n);
        return n <= 0 ? file_static(scale) : recursive(n - 1) + twice(n);
    };

    try {
        long sum = recursive(scale) + Box<int>{scale}.sum(scale);
        return sum + static_cast<long>(Box<double>{1.5}.sum(scale));
    } catch (const std::string &error) {
        return static_cast<long>(error.size());
    }
}

} // namespace shapes
