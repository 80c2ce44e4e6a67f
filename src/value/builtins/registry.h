/// The files of handlers. Each registers its models in the table; `register_all` calls them once.
#pragma once

#include "value/builtins/builtin.h"

namespace stator {

void register_sequences(Handlers& handlers);
void register_dicts(Handlers& handlers);
void register_sets(Handlers& handlers);
void register_deques(Handlers& handlers);
void register_protocols(Handlers& handlers);
void register_iteration(Handlers& handlers);
void register_itertools(Handlers& handlers);
void register_groups(Handlers& handlers);
void register_ordering(Handlers& handlers);
void register_pickling(Handlers& handlers);
void register_numbers(Handlers& handlers);
void register_random(Handlers& handlers);
void register_text(Handlers& handlers);
void register_operators(Handlers& handlers);
void register_getters(Handlers& handlers);
void register_copying(Handlers& handlers);
void register_inspect(Handlers& handlers);
void register_caches(Handlers& handlers);

void register_objects(Handlers& handlers);
void register_heaps(Handlers& handlers);
void register_output(Handlers& handlers);
void register_locks(Handlers& handlers);
void register_generators(Handlers& handlers);
void register_coroutines(Handlers& handlers);
void register_classes(Handlers& handlers);
void register_weak(Handlers& handlers);
void register_descriptors(Handlers& handlers);
void register_frozen_objects(Handlers& handlers);
void register_torch(Handlers& handlers);
void register_arrays(Handlers& handlers);
void register_torch_functions(Handlers& handlers);
void register_function_modes(Handlers& handlers);
void register_autocast_calls(Handlers& handlers);
void register_profiling(Handlers& handlers);
void register_optimizing(Handlers& handlers);
void register_tensor_hooks(Handlers& handlers);
void register_saved_tensors(Handlers& handlers);
void register_leaves(Handlers& handlers);
void register_autograd_functions(Handlers& handlers);
void register_recurrent(Handlers& handlers);
void register_checkpoints(Handlers& handlers);
void register_lazy_modules(Handlers& handlers);

void register_all(Handlers& handlers);

}  // namespace stator
