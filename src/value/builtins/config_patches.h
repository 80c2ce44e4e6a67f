/// `torch._dynamo.config.patch(...)` and `torch._dynamo.patch_dynamo_config(...)` in a compiled function: inside of
/// them the program is traced with other settings, and a graph break really enters them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "value/effect_log.h"
#include "value/kinds/function.h"
#include "value/tracer.h"

namespace stator {

/// The name of the setting of `torch._dynamo.config` that is stored in this ContextVar; empty if it is none.
std::string name_of_dynamo_setting(PyObject* variable);

/// The value that a patch of the program has given to the setting in this ContextVar; null if there is no patch.
Value* patched_setting(Tracer& tracer, PyObject* variable);

/// A call of `__enter__` or `__exit__` of what `torch._dynamo.config.patch` returns; nothing for other functions, and
/// for patches of settings that Stator does not change in the middle of a trace.
std::optional<Outcome> call_of_config_patch(Tracer& tracer, const FunctionValue* function, const Arguments& arguments);

/// For each effect whether the plan leaves it out: a patch that is entered and left with no other in between does
/// nothing.
std::vector<bool> balanced_patches(std::span<const Effect> effects);

/// Traces on with another value of a setting; nothing stands for the value where the trace began. Settings that have no
/// meaning in the middle of a trace are ignored. The trace room implements it.
void change_setting(Tracer& tracer, std::string_view name, std::optional<bool> is_on);

}  // namespace stator
