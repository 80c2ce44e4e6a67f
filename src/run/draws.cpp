#include "run/draws.h"

#include <algorithm>

#include "base/python_error.h"
#include "value/kinds/random_generator.h"

namespace stator {

void GeneratorStates::keep(Borrowed<> generator) {
    auto is_kept = [&](const auto& one) { return one.first.get() == generator.get(); };
    if (std::ranges::any_of(states_, is_kept)) return;
    states_.emplace_back(Ref<>::share(generator.get()), state_of_generator(generator));
}

bool GeneratorStates::restore() {
    try {
        for (const auto& [generator, state] : std::exchange(states_, {}))
            set_state_of_generator(generator.get(), state.get());
        return true;
    } catch (const PythonError&) {
        PyErr_Clear();
        return false;
    }
}

Ref<> draw(const DrawnInput& drawn, Borrowed<> generator, GeneratorStates& states) {
    states.keep(generator);
    Ref<> number = call_on_generator(drawn.method.get(), generator, drawn.arguments.get(), drawn.keywords.get());
    return checked(number.release());
}

}  // namespace stator
