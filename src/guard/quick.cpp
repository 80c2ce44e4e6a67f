#include "guard/quick.h"

#include "cpython/versions.h"
#include "guard/steps.h"

namespace stator {

bool QuickCheck::check(State& state, PyObject* const* slots, PyObject* function) {
    state.walked.clear();
    const Instance* instance = instances_.data();
    const Typed* typed = typed_.data();
    const Dict* dict = dicts_.data();
    const Class* type = classes_.data();
    std::uint32_t tensor = 0;
    for (const Level& level : levels_) {
        if (level.first_step >= 0 && !state.execute_steps(steps_.data() + level.first_step, slots, function))
            return false;
        for (const Instance* end = instances_.data() + level.instances; instance != end; ++instance) {
            if (Py_TYPE(instance->object) != instance->type) return false;
            auto* place = reinterpret_cast<char*>(instance->object) + instance->dict_offset;
            if (*reinterpret_cast<PyObject**>(place) != instance->dict) return false;
            if (cpython::dict_version(instance->dict) != instance->version) return false;
        }
        for (const Typed* end = typed_.data() + level.typed; typed != end; ++typed)
            if (Py_TYPE(typed->object) != typed->type) return false;
        for (const Dict* end = dicts_.data() + level.dicts; dict != end; ++dict)
            if (cpython::dict_version(dict->dict) != dict->version) return false;
        for (const Class* end = classes_.data() + level.classes; type != end; ++type)
            if (cpython::current_type_version(type->type) != type->version) return false;
        if (level.tensors != tensor) {
            if (!torch_room::all_match({tensors_.data() + tensor, level.tensors - tensor})) return false;
            tensor = level.tensors;
        }
    }
    if (!distinct_.empty() && !state.distinct->check(state.registers.data(), distinct_)) return false;
    for (std::int32_t index : fetched_) state.fetched[index] = state.registers[state.fetched_from[index]];
    ++hits_;
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
        for (std::int32_t k = level.first_step; k >= 0 && steps_[k].op != StepOp::Done; ++k) {
            const Step& step = steps_[k];
            if (origin_[k] >= 0)
                lines.push_back(state.print_step(origin_[k]));
            else if (step.op == StepOp::Identity)
                add("same address", step.from);
            else
                add(is_fetch(step.op) ? "fetch" : "same kind", is_fetch(step.op) ? step.to : step.from);
        }
        for (std::uint32_t k = before.instances; k < level.instances; ++k) add("same state", instances_[k].place);
        for (std::uint32_t k = before.typed; k < level.typed; ++k) add("same class", typed_[k].place);
        for (std::uint32_t k = before.dicts; k < level.dicts; ++k) add("same dict", dicts_[k].place);
        for (std::uint32_t k = before.classes; k < level.classes; ++k) add("class unchanged", classes_[k].place);
        for (std::uint32_t k = before.tensors; k < level.tensors; ++k) add("tensor", tensor_places_[k]);
        before = level;
    }
    if (!distinct_.empty()) lines.push_back("distinct: " + std::to_string(distinct_.size()) + " may have changed");
    return lines;
}

}  // namespace stator
