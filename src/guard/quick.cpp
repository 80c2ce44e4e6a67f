#include "guard/quick.h"

#include "cpython/dict_watch.h"
#include "cpython/versions.h"
#include "guard/state.h"

namespace stator {

bool QuickCheck::check(State& state, PyObject* const* slots, PyObject* function) {
    // Read first: a step may run code that changes a dict that was compared already.
    std::uint64_t changes = cpython::watched_dict_changes();
    bool all_watched = cpython::kCanWatchDicts;
    if (changes == watched_since_) {
        if (!check_levels<true>(state, slots, function, all_watched)) return false;
        ++watched_hits_;
    } else {
        if (!check_levels<false>(state, slots, function, all_watched)) return false;
        if (all_watched) watched_since_ = changes;
    }
    ++hits_;
    return true;
}

template <bool kWatched>
bool QuickCheck::check_levels(State& state, PyObject* const* slots, PyObject* function, bool& all_watched) {
    state.walked.clear();
    const Instance* instance = parts_.instances.items.data();
    const Typed* typed = parts_.typed.items.data();
    const Dict* dict = parts_.dicts.items.data();
    const Class* type = parts_.classes.items.data();
    std::uint32_t tensor = 0;
    for (const Level& level : levels_) {
        if (level.first_step >= 0 && !state.execute_steps(&parts_.steps.items[level.first_step], slots, function))
            return false;
        if constexpr (kWatched)
            if (cpython::watched_dict_changes() != watched_since_) return false;
        for (const Instance* end = parts_.instances.items.data() + level.instances; instance != end; ++instance) {
            if (Py_TYPE(instance->object) != instance->type) return false;
            auto* place = reinterpret_cast<char*>(instance->object) + instance->dict_offset;
            if (*reinterpret_cast<PyObject**>(place) != instance->dict) return false;
            if constexpr (!kWatched) {
                if (cpython::dict_version(instance->dict) != instance->version) return false;
                if constexpr (cpython::kCanWatchDicts) all_watched &= cpython::is_watched(instance->dict);
            }
        }
        for (const Typed* end = parts_.typed.items.data() + level.typed; typed != end; ++typed)
            if (Py_TYPE(typed->object) != typed->type) return false;
        if constexpr (!kWatched)
            for (const Dict* end = parts_.dicts.items.data() + level.dicts; dict != end; ++dict) {
                if (cpython::dict_version(dict->dict) != dict->version) return false;
                if constexpr (cpython::kCanWatchDicts) all_watched &= cpython::is_watched(dict->dict);
            }
        for (const Class* end = parts_.classes.items.data() + level.classes; type != end; ++type)
            if (cpython::current_type_version(type->type) != type->version) return false;
        if (level.tensors != tensor) {
            if (!torch_room::all_match({parts_.tensors.items.data() + tensor, level.tensors - tensor})) return false;
            tensor = level.tensors;
        }
    }
    if (!distinct_.empty() && !state.distinct->check(state.registers.data(), distinct_)) return false;
    for (std::int32_t index : fetched_) state.fetched[index] = state.registers[state.fetched_from[index]];
    return true;
}

std::vector<std::string> QuickCheck::print(const State& state) const {
    std::vector<std::string> lines;
    if (!is_there_) return lines;
    Level before;
    auto add = [&](const char* what, std::int32_t place) {
        lines.push_back(std::string(what) + " r" + std::to_string(place) + ": " + state.print_place(place));
    };
    for (std::size_t i = 0; i < levels_.size(); ++i) {
        const Level& level = levels_[i];
        lines.push_back("level " + std::to_string(i));
        for (std::int32_t k = level.first_step; k >= 0 && parts_.steps.items[k].op != StepOp::Done; ++k) {
            const Step& step = parts_.steps.items[k];
            if (parts_.steps.places[k] >= 0)
                lines.push_back(state.print_step(parts_.steps.places[k]));
            else if (step.op == StepOp::Identity)
                add("same address", step.from);
            else
                add(is_fetch(step.op) ? "fetch" : "same kind", is_fetch(step.op) ? step.to : step.from);
        }
        for (std::uint32_t k = before.instances; k < level.instances; ++k)
            add("same state", parts_.instances.places[k]);
        for (std::uint32_t k = before.typed; k < level.typed; ++k) add("same class", parts_.typed.places[k]);
        for (std::uint32_t k = before.dicts; k < level.dicts; ++k) add("same dict", parts_.dicts.places[k]);
        for (std::uint32_t k = before.classes; k < level.classes; ++k) add("class unchanged", parts_.classes.places[k]);
        for (std::uint32_t k = before.tensors; k < level.tensors; ++k) add("tensor", parts_.tensors.places[k]);
        before = level;
    }
    if (!distinct_.empty()) lines.push_back("distinct: " + std::to_string(distinct_.size()) + " may have changed");
    return lines;
}

}  // namespace stator
