#include "base/check.h"

namespace stator {

void fail_check(const char* file, int line, const char* condition, const std::string& message) {
    std::string where(file);
    if (auto src = where.rfind("src/"); src != std::string::npos) where = where.substr(src);
    throw InternalError(message + " [" + condition + " at " + where + ":" + std::to_string(line) + "]");
}

}  // namespace stator
