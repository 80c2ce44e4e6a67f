#include "base/names.h"

#include <array>
#include <cstdint>
#include <unordered_map>

#include "base/python_error.h"

namespace stator {

namespace {

struct Name {
    const char* literal;
    PyObject* object;
};

/// Throws `PythonError` where there is no memory for it: the next one that asks makes it.
PyObject* interned_before_or_now(const char* literal) {
    static std::unordered_map<const char*, PyObject*> by_address;
    if (auto found = by_address.find(literal); found != by_address.end()) return found->second;
    PyObject* const made = checked(PyUnicode_InternFromString(literal)).release();
    by_address.emplace(literal, made);
    return made;
}

}  // namespace

PyObject* interned(const char* literal) {
    // Some hundred literals are looked up thousands of times in a capture: each has a place by its address.
    static std::array<Name, 1024> places{};
    Name& place = places[(reinterpret_cast<std::uintptr_t>(literal) * 0x9E3779B97F4A7C15u) >> 54];
    if (place.literal != literal) place = {literal, interned_before_or_now(literal)};
    return place.object;
}

}  // namespace stator
