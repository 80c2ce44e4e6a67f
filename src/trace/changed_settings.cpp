/// Settings of `torch._dynamo.config` that the program changes while it is traced.
#include "trace/interpreter.h"
#include "value/builtins/config_patches.h"

namespace stator {

void change_setting(Tracer& tracer, std::string_view name, std::optional<bool> is_on) {
    static_cast<Interpreter&>(tracer).change_setting(name, is_on);
}

void Interpreter::change_setting(std::string_view name, std::optional<bool> is_on) {
    auto change = [&](bool before, auto set) {
        const bool first = first_settings_.try_emplace(std::string(name), before).first->second;
        on_undo([=] { set(before); });
        set(is_on.value_or(first));
    };
    if (name == "trace_autograd_ops") {
        change(torch_modes_.captures_autograd(), [this](bool now) { torch_modes_.set_captures_autograd(now); });
        return;
    }
    const std::pair<std::string_view, bool*> places[] = {
        {"capture_scalar_outputs", &captures_scalars_},
        {"capture_dynamic_output_shape_ops", &captures_data_sizes_},
        {"specialize_int", &dynamic_.specializes_ints},
        {"specialize_float", &dynamic_.specializes_floats},
        {"allow_unspec_int_on_nn_module", &dynamic_.has_dynamic_ints_of_modules},
    };
    for (const auto& [known, place] : places)
        if (known == name) change(*place, [place = place](bool now) { *place = now; });
}

}  // namespace stator
