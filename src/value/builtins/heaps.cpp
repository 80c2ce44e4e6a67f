/// `heapq` and `bisect`: the functions in C do what those in Python do, in the same order of comparisons. These are
/// traced.
#include "base/imported.h"
#include "base/python_error.h"
#include "value/builtins/registry.h"
#include "value/protocol/operations.h"
#include "value/tracer.h"

namespace stator {

namespace {

[[noreturn]] void leave_to_python(Tracer& tracer, const char* name) {
    tracer.break_graph(BreakKind::UnknownFunction,
                       std::string(name) + " is called with arguments that Stator has no model of");
}

Outcome call_python(Tracer& tracer, PyObject* function, const Arguments& arguments) {
    return operations::call(tracer, tracer.outside(tracer.provenance().pinned(function), function), arguments);
}

struct HeapFunction {
    const char* name;
    std::size_t arguments;
    bool needs_items;
};

constexpr HeapFunction kHeapFunctions[] = {
    {"heappush", 2, false}, {"heappop", 1, true},      {"heapreplace", 2, true},      {"heappushpop", 2, false},
    {"heapify", 1, false},  {"_heappop_max", 1, true}, {"_heapreplace_max", 2, true}, {"_heapify_max", 1, false},
};

template <std::size_t kFunction>
Outcome use_heap(Tracer& tracer, const Arguments& arguments) {
    static constexpr const HeapFunction& function = kHeapFunctions[kFunction];
    static PyObject* const traced = find_imported("stator.library", function.name).release();
    // Larger ones are put in order in another way.
    constexpr std::ptrdiff_t kLargest = 2500;
    if (traced == nullptr || !arguments.keywords.empty() || arguments.positional.size() != function.arguments)
        leave_to_python(tracer, function.name);
    Value* heap = arguments.positional[0];
    tracer.realize(heap);
    if (heap->type() != &PyList_Type) leave_to_python(tracer, function.name);
    const std::ptrdiff_t length = heap->length(tracer);
    if ((length == 0 && function.needs_items) || length > kLargest) leave_to_python(tracer, function.name);
    return call_python(tracer, traced, arguments);
}

constexpr const char* kBisections[] = {"bisect_left", "bisect_right", "insort_left", "insort_right"};

template <std::size_t kFunction>
Outcome bisect(Tracer& tracer, const Arguments& arguments) {
    static PyObject* const traced = find_imported("stator.library", kBisections[kFunction]).release();
    if (traced == nullptr || arguments.positional.size() != 2) leave_to_python(tracer, kBisections[kFunction]);
    // (The limits are converted by `__index__`.)
    for (const Keyword& keyword : arguments.keywords)
        if (PyUnicode_CompareWithASCIIString(keyword.name, "key") != 0) leave_to_python(tracer, kBisections[kFunction]);
    return call_python(tracer, traced, arguments);
}

template <std::size_t... kAll>
void register_heap_functions(Handlers& handlers, std::index_sequence<kAll...>) {
    (handlers.add("_heapq", kHeapFunctions[kAll].name, use_heap<kAll>), ...);
}

template <std::size_t... kAll>
void register_bisections(Handlers& handlers, std::index_sequence<kAll...>) {
    (handlers.add("_bisect", kBisections[kAll], bisect<kAll>), ...);
}

}  // namespace

void register_heaps(Handlers& handlers) {
    register_heap_functions(handlers, std::make_index_sequence<std::size(kHeapFunctions)>());
    register_bisections(handlers, std::make_index_sequence<std::size(kBisections)>());
    handlers.add_pure("_struct", "pack");
    handlers.add_pure("_struct", "calcsize");
    handlers.add_pure("_struct", "unpack");
}

}  // namespace stator
