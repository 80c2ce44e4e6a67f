/// Function transforms: `torch.vmap`, `torch.func.grad`, ...
#pragma once

namespace stator {

class Handlers;
class Tracer;

void register_function_transforms(Handlers& handlers);

/// Breaks the graph at something that is not captured inside of a transform.
void expect_no_transform(Tracer& tracer, const char* what);

}  // namespace stator
