/// Generators that existed before the trace: of a loop or a context that the program has entered before a graph break,
/// or in another function.
#include <algorithm>

#include "base/text.h"
#include "bytecode/assigned_slots.h"
#include "cpython/generators.h"
#include "cpython/iterators.h"
#include "trace/interpreter.h"

namespace stator {

namespace {

/// As the program would read a variable of a generator.
std::string text_of_variable(const Source& generator, PyObject* name) {
    return print(generator) + ".gi_frame.f_locals[" + short_repr(name) + "]";
}

/// Each `yield` is a position, for which its caller is captured once more. A generator with more of them than this goes
/// on in entries of its own.
constexpr std::ptrdiff_t kMostYields = 4;

bool has_many_yields(const bytecode::Code& code) {
    return std::ranges::count(code.instructions(), bytecode::Op::YieldValue, &bytecode::Instruction::op) > kMostYields;
}

}  // namespace

void follow_outside(Tracer& tracer, GeneratorValue* generator) {
    static_cast<Interpreter&>(tracer).follow_outside(generator);
}

void Interpreter::follow_outside(GeneratorValue* generator) {
    if (generator->outside == nullptr || generator->is_followed) return;
    realize(generator);
    const std::optional<cpython::GeneratorPlace> place = cpython::place_of_generator(generator->outside);
    Ref<> state =
        place && generator->source->access != Access::Pinned ? cpython::generator_state(generator->outside) : Ref<>();
    if (!state)
        break_graph(BreakKind::UnknownObject,
                    "a generator that was created before the call is advanced, which runs or handles an exception");
    PyObject* parts = keep(std::move(state));
    Source* whole = provenance_.child(generator->source, Access::Upcoming, nullptr, cpython::kState, parts);
    auto value_of = [&](int index) {
        Source* part = part_of_state(whole, index);
        return outside(part, part->object);
    };
    on_undo([generator] {
        generator->is_followed = generator->started = generator->finished = false;
        generator->function = nullptr;
        generator->frame = nullptr;
    });
    // What is refused is refused at every position: that is guarded last.
    if (!place->has_finished) {
        generator->function = cast<FunctionValue>(value_of(1));
        STATOR_CHECK(generator->function != nullptr, "the function of a generator");
        expect_followed(generator->function);
    }
    // The bytes tell also which slots hold anything.
    realize(value_of(0));
    generator->is_followed = true;
    generator->started = place->has_started;
    generator->finished = place->has_finished;
    if (generator->finished) return;
    generator->frame = read_frame(generator, *place, whole);
    effect_writer_.log({PlanOp::FillGenerator, {generator}});
    lifetimes_.watch_generator(generator);
}

void Interpreter::expect_followed(FunctionValue* function) {
    realize(function);
    expect_inlined(function);
    expect_no_communication(function, {});
    if (has_many_yields(bytecode::decode(function->code)))
        break_graph(BreakKind::UnknownObject,
                    "a generator that was created before the call is advanced, which yields in many places");
    if (is_of_transforms(function))
        break_graph(BreakKind::UnsupportedTensor, "a generator of a function transform is advanced");
}

Source* Interpreter::part_of_state(Source* state, int index) {
    return provenance_.child(state, Access::Item, nullptr, index, PyTuple_GET_ITEM(state->object, index));
}

BytecodeFrame* Interpreter::read_frame(GeneratorValue* generator, const cpython::GeneratorPlace& place, Source* state) {
    constexpr std::size_t kBeforeSlots = 2;
    PyObject* flags = PyTuple_GET_ITEM(state->object, 0);
    const char* is_held =
        PyBytes_AS_STRING(flags) + PyBytes_GET_SIZE(flags) - static_cast<Py_ssize_t>(place.slots + place.stack);
    BytecodeFrame* frame = new_frame(generator->function);
    frame->generator = generator;
    frame->at = frame->code->index_at(place.next);
    const std::vector<bool> assigned = bytecode::assigned_slots(*frame->code);
    for (std::size_t i = 0; i < place.slots + place.stack; ++i) {
        const bool is_slot = i < place.slots;
        Value* held = is_slot ? nullptr : stack_.null;
        if (is_held[i] == '1') {
            Source* source = part_of_state(state, static_cast<int>(i + kBeforeSlots));
            if (is_slot)
                source->label =
                    label_of(text_of_variable(*generator->source, frame->code->slot_name(static_cast<int>(i))));
            source->varies = !is_slot || assigned[i];
            held = outside(source, source->object);
        }
        if (is_slot)
            frame->slots[i] = held;
        else
            frame->push(held);
    }
    return frame;
}

}  // namespace stator
