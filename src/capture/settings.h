/// `stator.config`, as the engine reads it.
#pragma once

#include <string>

namespace stator {

// `otherwise` if there is no such setting. They never raise.
long setting(const char* name, long otherwise);
std::string text_setting(const char* name);

}  // namespace stator
