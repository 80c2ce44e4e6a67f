#include "value/compiling.h"

#include <utility>

#include "value/tracer.h"

namespace stator {

namespace {

thread_local bool was_told = false;

}  // namespace

Value* answer_compiling(Tracer& tracer) {
    was_told = true;
    return tracer.boolean(true);
}

bool took_compiling_answer() {
    return std::exchange(was_told, false);
}

OuterTraceAside::OuterTraceAside() : was_told_(took_compiling_answer()) {}

OuterTraceAside::~OuterTraceAside() {
    was_told = was_told_;
}

}  // namespace stator
