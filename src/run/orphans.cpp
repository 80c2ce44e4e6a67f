#include "run/orphans.h"

#include <algorithm>
#include <utility>

namespace stator::orphans {

namespace {

struct Orphan {
    std::unique_ptr<EntryCache> cache;
    Py_ssize_t own_references;  // of the cache to the code of its function
};

/// The last left one first.
std::vector<Orphan>& all() {
    static auto* const orphans = new std::vector<Orphan>();
    return *orphans;
}

constexpr std::size_t kMost = 32;

Py_ssize_t count_references_to_code(const EntryCache& cache) {
    auto* const code = reinterpret_cast<PyObject*>(cache.use().code);
    Py_ssize_t count = 0;
    for (const Shared<Entry>& entry : cache.entries()) {
        count += reinterpret_cast<PyObject*>(entry->code.get()) == code ? 1 : 0;
        entry->visit([&](PyObject* object) { count += object == code ? 1 : 0; });
    }
    return count;
}

/// Whether something besides the cache keeps the code alive: if not, no one can compile it again.
bool is_code_in_use(const Orphan& orphan) {
    return Py_REFCNT(reinterpret_cast<PyObject*>(orphan.cache->use().code)) > orphan.own_references;
}

bool is_of_use(const EntryCache& cache) {
    const CompileOptions& options = cache.options();
    // Attributes of a graph module are parameters of the program.
    if (!options.backend || options.registers_attributes || options.is_isolated || cache.use().code == nullptr)
        return false;
    const std::vector<Shared<Entry>> entries = cache.entries();
    return std::ranges::any_of(entries, [](const Shared<Entry>& entry) { return entry->is_captured; });
}

/// Takes out the oldest ones if there are too many, and those whose code nobody else keeps. Freeing them runs any code.
[[nodiscard]] std::vector<Orphan> take_useless() {
    std::vector<Orphan> useless, left;
    for (Orphan& orphan : all())
        (left.size() < kMost && is_code_in_use(orphan) ? left : useless).push_back(std::move(orphan));
    all() = std::move(left);
    return useless;
}

}  // namespace

void leave(std::unique_ptr<EntryCache> cache) {
    if (is_of_use(*cache)) {
        const Py_ssize_t own_references = count_references_to_code(*cache);
        all().insert(all().begin(), {std::move(cache), own_references});
    }
    std::vector<Orphan> useless = take_useless();
}

bool take_over(EntryCache& cache) {
    if (cache.options().is_isolated) return false;
    // Comparing backends may run any code, which may change the list: candidates are taken out of it meanwhile.
    std::vector<Orphan> candidates, others;
    for (Orphan& orphan : all())
        (orphan.cache->use() == cache.use() ? candidates : others).push_back(std::move(orphan));
    all() = std::move(others);
    auto found = std::ranges::find_if(candidates, [&](const Orphan& one) { return cache.compiles_like(*one.cache); });
    const bool is_found = found != candidates.end();
    if (is_found) {
        cache.take_over(*found->cache);
        candidates.erase(found);
    }
    for (Orphan& orphan : candidates) all().push_back(std::move(orphan));
    return is_found;
}

void clear() {
    auto freed = std::exchange(all(), {});
}

}  // namespace stator::orphans
