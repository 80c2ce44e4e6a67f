#include "value/builtins/registry.h"

#include "value/builtins/library.h"
#include "value/builtins/numpy.h"
#include "value/builtins/regular_expressions.h"
#include "value/higher_order/higher_order.h"

namespace stator {

void register_all(Handlers& handlers) {
    register_sequences(handlers);
    register_dicts(handlers);
    register_sets(handlers);
    register_deques(handlers);
    register_protocols(handlers);
    register_iteration(handlers);
    register_itertools(handlers);
    register_groups(handlers);
    register_ordering(handlers);
    register_pickling(handlers);
    register_numbers(handlers);
    register_numpy(handlers);
    register_random(handlers);
    register_text(handlers);
    register_regular_expressions(handlers);
    register_operators(handlers);
    register_getters(handlers);
    register_copying(handlers);
    register_inspect(handlers);
    register_caches(handlers);
    register_named_tuples(handlers);
    register_class_statements(handlers);
    register_made_descriptors(handlers);
    register_context_variables(handlers);
    register_config_patches(handlers);
    register_questions(handlers);
    register_warnings(handlers);
    register_objects(handlers);
    register_heaps(handlers);
    register_output(handlers);
    register_locks(handlers);
    register_generators(handlers);
    register_coroutines(handlers);
    register_classes(handlers);
    register_weak(handlers);
    register_descriptors(handlers);
    register_frozen_objects(handlers);
    register_torch(handlers);
    register_arrays(handlers);
    register_torch_functions(handlers);
    register_profiling(handlers);
    register_optimizing(handlers);
    register_tensor_hooks(handlers);
    register_saved_tensors(handlers);
    register_leaves(handlers);
    register_autograd_functions(handlers);
    register_recurrent(handlers);
    register_checkpoints(handlers);
    register_lazy_modules(handlers);
    register_higher_order(handlers);
}

}  // namespace stator
