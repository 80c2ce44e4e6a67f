/// Which parts of the tracer have run, as feedback for random programs: the blocks of the rooms that a build with
/// STATOR_GUIDE marks, and how often each ran, in eight steps from once to very often. Other builds mark nothing.
#include <Python.h>
#include <dlfcn.h>

#include <array>
#include <bit>
#include <cstdint>

#include "base/boundary.h"
#include "base/ref.h"

/// The compiler has it called at the start of each block.
extern "C" void __sanitizer_cov_trace_pc();

namespace stator {

namespace {

// A block is known by the address behind the call of its mark. A call takes five bytes, so no two blocks share four.
constexpr std::size_t kBytesPerBlock = 4;
constexpr std::size_t kBlocks = std::size_t{16} << 20;

/// The address at which this library is loaded, as the addresses in its symbol table count from there.
std::uintptr_t load_address() {
    Dl_info found{};
    if (dladdr(reinterpret_cast<const void*>(&__sanitizer_cov_trace_pc), &found) == 0) return 0;
    return reinterpret_cast<std::uintptr_t>(found.dli_fbase);
}

struct Blocks {
    std::uintptr_t start = load_address();
    std::size_t end = 0;                         // behind the last block that ever ran
    std::array<std::uint8_t, kBlocks> counts{};  // since they were last asked for
    std::array<std::uint8_t, kBlocks> seen{};    // one bit for each step that a count has reached
};

/// Made at the first mark and never freed: marks are reached until the process ends.
Blocks& blocks() {
    static Blocks* const all = new Blocks;
    return *all;
}

std::uint8_t step_of(std::uint8_t count) {
    return static_cast<std::uint8_t>(1U << (std::bit_width(count) - 1));
}

PyObject* news(PyObject*, PyObject*) {
    Blocks& all = blocks();
    std::size_t found = 0;
    for (std::size_t block = 0; block < all.end; ++block) {
        if (all.counts[block] == 0) continue;
        std::uint8_t step = step_of(all.counts[block]);
        if ((all.seen[block] & step) == 0) ++found;
        all.seen[block] |= step;
        all.counts[block] = 0;
    }
    return PyLong_FromSize_t(found);
}

PyObject* reached(PyObject*, PyObject*) {
    return at_boundary([] {
        const Blocks& all = blocks();
        Ref<> addresses = checked(PyList_New(0));
        for (std::size_t block = 0; block < all.end; ++block) {
            if (all.seen[block] == 0) continue;
            Ref<> address = checked(PyLong_FromSize_t(block * kBytesPerBlock));
            if (PyList_Append(addresses.get(), address.get()) != 0) throw PythonError();
        }
        return addresses;
    });
}

PyMethodDef kFunctions[] = {
    {"news", news, METH_NOARGS, "How many blocks ran, or ran more often, since the last call than ever before."},
    {"reached", reached, METH_NOARGS, "The addresses of the blocks that `news` has counted, rounded down to four."},
    {},
};

}  // namespace

bool bind_reached(PyObject* module) {
    return PyModule_AddFunctions(module, kFunctions) == 0;
}

}  // namespace stator

extern "C" void __sanitizer_cov_trace_pc() {
    auto& all = stator::blocks();
    auto address = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
    std::size_t block = (address - all.start) / stator::kBytesPerBlock;
    if (block >= stator::kBlocks) return;
    if (all.counts[block] != UINT8_MAX) ++all.counts[block];
    if (block >= all.end) all.end = block + 1;
}
