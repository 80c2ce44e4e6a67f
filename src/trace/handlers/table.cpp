#include "trace/handlers/handlers.h"

namespace stator {

const OpHandler kOpHandlers[] = {
#define OP(name, effect, operands) handlers::name,
#include "bytecode/opcodes.def"
#undef OP
};

}  // namespace stator
