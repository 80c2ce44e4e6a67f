/// Python objects as text for printing and messages. Never raises and never runs user code.
#pragma once

#include <string>
#include <string_view>

#include "base/ref.h"

namespace stator {

/// The UTF-8 contents of a `str`; for anything else a placeholder.
std::string_view utf8(Borrowed<> string);

/// `repr` of a constant (numbers, strings, `None`, tuples of those), shortened; `<type name>` for anything else.
std::string short_repr(Borrowed<> object);

/// `module.qualname` of a type, without the module for builtins.
std::string type_name(Borrowed<PyTypeObject> type);

/// `a, b, c`.
template <class Range, class Print>
std::string joined(const Range& range, Print print, std::string_view separator = ", ") {
    std::string text;
    for (const auto& item : range) {
        if (!text.empty()) text += separator;
        text += print(item);
    }
    return text;
}

}  // namespace stator
