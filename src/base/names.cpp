#include "base/names.h"

#include <unordered_map>

namespace stator {

PyObject* interned(const char* literal) {
    static std::unordered_map<const char*, PyObject*> by_address;
    auto [found, is_new] = by_address.try_emplace(literal, nullptr);
    if (is_new) found->second = PyUnicode_InternFromString(literal);
    return found->second;
}

}  // namespace stator
