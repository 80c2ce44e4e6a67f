#include "capture/symbol_names.h"

#include <unordered_map>
#include <unordered_set>

#include "base/imported.h"
#include "base/python_error.h"

namespace stator {

namespace {

bool is_of_layout(const Source& source) {
    return source.access == Access::Size || source.access == Access::Stride || source.access == Access::Offset;
}

/// The number that a `ShapeEnv` tries first for the symbol of this source: the SHA-256 of its text, modulo 100.
int first_number(const std::string& text) {
    static PyObject* const sha256 = imported("hashlib", "sha256");
    Ref<> hashed = checked(PyBytes_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size())));
    Ref<> hash = checked(PyObject_CallOneArg(sha256, hashed.get()));
    Ref<> digest = checked(PyObject_CallMethod(hash.get(), "digest", nullptr));
    int number = 0;
    const auto* bytes = reinterpret_cast<const unsigned char*>(PyBytes_AS_STRING(digest.get()));
    for (Py_ssize_t i = 0; i < PyBytes_GET_SIZE(digest.get()); ++i) number = (number * 256 + bytes[i]) % 100;
    return number;
}

/// The numbers of symbols by their sources, in the order in which `stator.symbols` creates them.
std::unordered_map<const Source*, int> numbers_of(const std::vector<Symbol>& symbols) {
    std::unordered_map<const Source*, int> numbers;
    std::unordered_set<int> taken;
    for (const Symbol& symbol : symbols) {
        if (symbol.resolved != symbol.variable || symbol.variable->is_float) continue;
        int number = first_number(path(*symbol.variable->source));
        while (!taken.insert(number).second) ++number;
        numbers.emplace(symbol.variable->source, number);
    }
    return numbers;
}

}  // namespace

void name_size_placeholders(Trace& trace) {
    if (trace.symbols.empty()) return;
    const std::unordered_map<const Source*, int> numbers = numbers_of(trace.symbols);
    for (std::size_t i = 0; i < trace.inputs.size(); ++i) {
        auto found = numbers.find(trace.inputs[i]);
        if (found == numbers.end() || !is_of_layout(*trace.inputs[i])) continue;
        graph::Node* placeholder = trace.graph->at(i);
        placeholder->path = nullptr;
        placeholder->target = trace.graph->arena().keep(checked(PyUnicode_FromFormat("s%d", found->second)));
    }
}

}  // namespace stator
