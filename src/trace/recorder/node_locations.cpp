#include "trace/recorder/node_locations.h"

#include "torch/known.h"

namespace stator {

const graph::Location* NodeLocations::current() {
    // A waiting frame stays at its line, and so do all frames below it: only frames above one that has the location of
    // its line need a new one.
    const std::vector<Activation*>& frames = stack_.frames;
    std::size_t first = frames.size();
    const graph::Location* outer = nullptr;
    while (first > 0) {
        if (!frames[first - 1]->is_task) {
            auto& frame = static_cast<BytecodeFrame&>(*frames[first - 1]);
            if (frame.location != nullptr && frame.location->line == frame.line()) {
                outer = frame.location;
                break;
            }
            if (frame.location != nullptr) {
                outer = frame.location->caller;
                --first;
                break;
            }
        }
        --first;
    }
    for (; first < frames.size(); ++first) {
        if (frames[first]->is_task) continue;
        auto& frame = static_cast<BytecodeFrame&>(*frames[first]);
        if (frame.location != nullptr && frame.location->line == frame.line()) continue;
        PyCodeObject* code = graph_.arena().keep(Ref<PyCodeObject>::share(frame.function->code));
        frame.location = graph_.arena().make<graph::Location>(code, frame.line(), outer);
        outer = frame.location;
    }
    return outer;
}

const graph::ModulePath* NodeLocations::modules() const {
    const BytecodeFrame* frame = stack_.innermost();
    return frame == nullptr ? nullptr : frame->modules;
}

const graph::ModulePath* NodeLocations::modules_for(FunctionValue* function, const Arguments& arguments) {
    const graph::ModulePath* around = modules();
    if (function->outside == nullptr || function->outside != torch_room::known().module_call) return around;
    Value* module = arguments.positional.empty() ? nullptr : arguments.positional[0];
    if (module == nullptr || module->source == nullptr) return around;
    int earlier = module_calls_[module->source]++;
    tracer_.on_undo([this, source = module->source] { --module_calls_[source]; });
    PyTypeObject* type = graph_.arena().keep(Ref<PyTypeObject>::share(module->type()));
    return graph_.arena().make<graph::ModulePath>(path_text(*module->source, *graph_.texts()), type, around,
                                                  module->object(), earlier);
}

}  // namespace stator
