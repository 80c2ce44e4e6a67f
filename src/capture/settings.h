/// `stator.config` and the settings of PyTorch, as the engine reads them.
#pragma once

#include <string>

#include "base/ref.h"

namespace stator {

// `otherwise` if there is no such setting. They never raise.
long setting(const char* name, long otherwise);
std::string text_setting(const char* name);
/// A module of settings of PyTorch; null if nothing has imported it.
PyObject* module_of_settings(const char* name);
/// One of its settings, read without running Python code. Empty if there is no such setting.
Ref<> setting_of(PyObject* settings, const char* name);

/// The recompile limit and others that Stator and torch._dynamo both have: the value of `stator.config` unless it is
/// `otherwise`, its default, then that of `torch._dynamo.config`.
long shared_setting(const char* name, long otherwise);
/// A number of `torch._dynamo.config`; `otherwise` if nothing has imported that module.
long dynamo_number(const char* name, long otherwise);
/// A switch of `torch._dynamo.config`, by name and the environment variable that sets it from the start, or "". Does
/// not import that module.
bool dynamo_switch(const char* name, const char* variable);

}  // namespace stator
