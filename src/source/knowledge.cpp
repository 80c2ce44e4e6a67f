#include "source/knowledge.h"

#include <algorithm>

#include "base/text.h"

namespace stator {

bool Knowledge::add(const Knowledge& other) {
    bool is_new = false;
    for (const std::string& place : other.changing_numbers) is_new |= changing_numbers.insert(place).second;
    for (const std::string& place : other.changing_in_place) is_new |= changing_in_place.insert(place).second;
    for (const std::string& place : other.backend_constants) is_new |= backend_constants.insert(place).second;
    for (const auto& [code, held] : other.called_whole) is_new |= called_whole.emplace(code, held).second;
    for (const auto& [code, held] : other.communicating) is_new |= communicating.emplace(code, held).second;
    return is_new;
}

std::vector<std::string> Knowledge::print() const {
    std::vector<std::string> lines;
    for (const std::string& place : changing_numbers)
        lines.push_back(place + " changes between calls: " +
                        (backend_constants.contains(place)
                             ? "specialized all the same, because the backend fails on its symbol"
                             : "an input of the graph"));
    for (const std::string& place : backend_constants)
        if (!changing_numbers.contains(place))
            lines.push_back(place + " is a constant, because the backend fails on its symbol");
    for (const auto& [code, held] : called_whole)
        lines.push_back(std::string(utf8(code->co_qualname)) +
                        " is called uncompiled instead of inlined, because it breaks the graph and uses no tensors");
    for (const auto& [code, held] : communicating)
        lines.push_back(std::string(utf8(code->co_qualname)) +
                        " runs uncompiled, because it communicates between processes; what it calls is captured");
    std::ranges::sort(lines);
    return lines;
}

}  // namespace stator
