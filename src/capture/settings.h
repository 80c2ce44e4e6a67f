/// `stator.config`, as the engine reads it.
#pragma once

#include <string>

namespace stator {

// `otherwise` if there is no such setting. They never raise.
long setting(const char* name, long otherwise);
std::string text_setting(const char* name);
/// A switch of `torch._dynamo.config`, by name and the environment variable that sets it from the start. Does not
/// import that module.
bool dynamo_switch(const char* name, const char* variable);

}  // namespace stator
