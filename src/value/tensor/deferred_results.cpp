#include "value/tensor/deferred_results.h"

#include <algorithm>

#include "value/deferred_graph.h"
#include "value/kinds/undoable.h"
#include "value/tensor/tensor.h"

namespace stator {

void settle_views(Tracer& tracer, std::span<TensorValue* const> results) {
    for (TensorValue* result : results) {
        if (result->view_of == nullptr) continue;
        TensorValue* base = result->view_of;
        while (base != nullptr && tracer.deferred_graphs().is_made_inside(base) &&
               std::ranges::find(results, base) == results.end())
            base = base->view_of;
        set_undoably(tracer, result->view_of, base);
        set_undoably(tracer, result->refuses_writes, true);
    }
}

}  // namespace stator
