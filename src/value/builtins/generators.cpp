/// Methods of generators, most of which coroutines have too.
#include "value/builtins/generators.h"

#include "base/names.h"
#include "base/text.h"
#include "cpython/generators.h"
#include "value/builtins/registry.h"
#include "value/kinds/class.h"
#include "value/kinds/exception.h"
#include "value/kinds/generator.h"
#include "value/kinds/undoable.h"
#include "value/protocol/operations.h"
#include "value/tracer.h"

namespace stator {

namespace {

GeneratorValue* generator_of(Tracer& tracer, const Arguments& arguments) {
    auto* generator = cast<GeneratorValue>(arguments.positional.at(0));
    if (generator == nullptr)
        tracer.break_graph(BreakKind::UnknownObject,
                           "a generator or coroutine that was created before the call is advanced");
    return generator;
}

Task generator_step(Tracer& tracer, GeneratorValue* generator, Value* sent) {
    follow_outside(tracer, generator);
    bool was_finished = generator->finished;
    Value* item = co_await Continued{tracer.push_generator(generator, sent), {Continuation::Kind::Send}};
    if (item != tracer.exhausted()) co_return item;
    std::vector<Value*> parts;
    if (!was_finished && generator->returned != nullptr && generator->returned->object() != Py_None)
        parts.push_back(generator->returned);
    throw Raised{make_exception(tracer, reinterpret_cast<PyTypeObject*>(PyExc_StopIteration), std::move(parts))};
}

void expect_only_self(Tracer& tracer, const Arguments& arguments) {
    if (arguments.count() > 1)
        tracer.break_graph(BreakKind::UnknownFunction,
                           "a method of a generator is called with arguments that Stator has no model of");
}

Outcome generator_next(Tracer& tracer, const Arguments& arguments) {
    expect_only_self(tracer, arguments);
    return tracer.start(generator_step(tracer, generator_of(tracer, arguments), tracer.none()));
}

Task normalized(Tracer& tracer, Value* exception, Value* message, Value* traceback) {
    tracer.realize(exception);
    if (message != nullptr) tracer.realize(message);
    // Such an object is no argument of the class.
    const bool is_outside =
        message != nullptr && message->kind != Kind::Exception && PyExceptionClass_Check(message->type());
    if (is_outside)
        tracer.break_graph(BreakKind::UnknownObject,
                           "an exception object that existed before the call is thrown into a generator");
    // A class and an instance of it: the instance is raised.
    if (auto* type = cast<ClassValue>(exception); type != nullptr && message != nullptr &&
                                                  message->kind == Kind::Exception &&
                                                  PyType_IsSubtype(message->type(), type->held))
        exception = message;
    if (auto* type = cast<ClassValue>(exception); type != nullptr && PyExceptionClass_Check(type->object())) {
        Arguments arguments;
        if (message != nullptr && message->object() != Py_None) arguments.positional.push_back(message);
        exception = co_await operations::call(tracer, type, arguments);
    }
    if (exception->kind != Kind::Exception && PyExceptionClass_Check(exception->type()))
        tracer.break_graph(BreakKind::UnknownObject,
                           "an exception object that existed before the call is thrown into a generator");
    if (exception->kind != Kind::Exception)
        tracer.raise(PyExc_TypeError, "exceptions must be classes or instances deriving from BaseException, not " +
                                          std::string(exception->type()->tp_name));
    if (traceback != nullptr && traceback->object() != Py_None)
        exception->set_kept_attribute(tracer, interned("__traceback__"), traceback);
    co_return exception;
}

Task throw_into(Tracer& tracer, GeneratorValue* generator, std::vector<Value*> given) {
    Value* exception = co_await exception_to_throw(tracer, given[1], given[2], given[3]);
    Value* item = co_await Continued{tracer.throw_into_generator(generator, exception), {Continuation::Kind::Send}};
    if (item != tracer.exhausted()) co_return item;
    std::vector<Value*> parts;
    if (generator->returned != nullptr && generator->returned->object() != Py_None)
        parts.push_back(generator->returned);
    throw Raised{make_exception(tracer, reinterpret_cast<PyTypeObject*>(PyExc_StopIteration), std::move(parts))};
}

Task close_generator(Tracer& tracer, GeneratorValue* generator) {
    Value* exception = make_exception(tracer, reinterpret_cast<PyTypeObject*>(PyExc_GeneratorExit), {});
    try {
        Value* item = co_await tracer.throw_into_generator(generator, exception);
        if (item == tracer.exhausted())
            co_return cpython::kCloseGivesResult && generator->returned != nullptr ? generator->returned
                                                                                   : tracer.none();
    } catch (const Raised& raised) {
        PyTypeObject* type = raised.exception->type();
        if (!PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(PyExc_GeneratorExit)) &&
            !PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(PyExc_StopIteration)))
            throw;
        co_return tracer.none();
    }
    tracer.raise(PyExc_RuntimeError, generator->noun() + std::string(" ignored GeneratorExit"));
}

}  // namespace

Outcome generator_send(Tracer& tracer, const Arguments& arguments) {
    auto bound = bind_builtin(tracer, "send", arguments, {"self", "value"}, 2, 2);
    return tracer.start(generator_step(tracer, generator_of(tracer, arguments), bound[1]));
}

Outcome exception_to_throw(Tracer& tracer, Value* exception, Value* message, Value* traceback) {
    return tracer.start(normalized(tracer, exception, message, traceback));
}

Outcome generator_throw(Tracer& tracer, const Arguments& arguments) {
    auto bound = bind_builtin(tracer, "throw", arguments, {"self", "typ", "val", "tb"}, 2, 4);
    return tracer.start(throw_into(tracer, generator_of(tracer, arguments), std::move(bound)));
}

Outcome generator_close(Tracer& tracer, const Arguments& arguments) {
    expect_only_self(tracer, arguments);
    GeneratorValue* generator = generator_of(tracer, arguments);
    follow_outside(tracer, generator);
    if (generator->started && !generator->finished) return tracer.start(close_generator(tracer, generator));
    set_undoably(tracer, generator->finished, true);
    return tracer.none();
}

namespace {

Outcome generator_iter(Tracer& tracer, const Arguments& arguments) {
    expect_only_self(tracer, arguments);
    return generator_of(tracer, arguments);
}

}  // namespace

void register_generators(Handlers& handlers) {
    handlers.add_method(&PyGen_Type, "__iter__", generator_iter);
    handlers.add_method(&PyGen_Type, "send", generator_send);
    handlers.add_method(&PyGen_Type, "__next__", generator_next);
    handlers.add_method(&PyGen_Type, "close", generator_close);
    handlers.add_method(&PyGen_Type, "throw", generator_throw);
}

}  // namespace stator
