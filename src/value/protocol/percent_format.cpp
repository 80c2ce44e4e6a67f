#include "value/protocol/percent_format.h"

#include <string_view>
#include <vector>

#include "base/python_error.h"
#include "base/text.h"
#include "value/kinds/sequence.h"
#include "value/protocol/text.h"

namespace stator {

namespace {

/// One `%...` of a format, by the letter at its end; `stars` counts the widths taken from the values.
struct Field {
    std::size_t letter;
    int stars = 0;
    bool by_name = false;
};

std::vector<Field> fields_of(std::string_view format) {
    std::vector<Field> fields;
    for (std::size_t i = 0; i < format.size(); ++i) {
        if (format[i] != '%') continue;
        Field field{i + 1};
        std::size_t& at = field.letter;
        if (at < format.size() && format[at] == '(') {
            field.by_name = true;
            while (at < format.size() && format[at] != ')') ++at;
            ++at;
        }
        for (; at < format.size() && std::string_view("#0- +.*123456789hlL").find(format[at]) != std::string_view::npos;
             ++at)
            if (format[at] == '*') ++field.stars;
        if (at >= format.size()) break;
        i = at;
        if (format[at] != '%') fields.push_back(field);
    }
    return fields;
}

/// The text of values that need `__str__` or `__repr__` is computed first, and passed as a str for `%s`.
Task format_with(Tracer& tracer, Value* format, Value* values) {
    std::string text(utf8(format->object()));
    bool is_tuple = values->kind == Kind::Tuple;
    std::vector<Value*> arguments{values};
    if (is_tuple) arguments = static_cast<TupleValue*>(values)->all(tracer);
    std::size_t next = 0;
    std::vector<Field> fields = fields_of(text);
    for (std::size_t i = 0; i < fields.size(); ++i) {
        next += static_cast<std::size_t>(fields[i].stars);
        if (fields[i].by_name || next >= arguments.size()) break;
        Value*& argument = arguments[next++];
        tracer.realize(argument);
        Ref<> known = argument->as_constant(tracer);
        if (known) continue;
        char& letter = text[fields[i].letter];
        if (letter == 's')
            argument = co_await str_of(tracer, argument);
        else if (letter == 'r')
            argument = co_await repr_of(tracer, argument);
        else
            break;
        letter = 's';
    }
    Ref<> all = make_tuple(tracer, arguments)->as_constant(tracer);
    if (!all) tracer.break_graph(BreakKind::UnknownObject, "a string is formatted with a value that is not a constant");
    Ref<> pattern = checked(PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size())));
    Ref<> answer = Ref<>::steal(PyUnicode_Format(pattern.get(), all.get()));
    if (!answer) tracer.raise_from_python();
    co_return tracer.fresh(std::move(answer));
}

}  // namespace

bool is_percent_format(Tracer& tracer, Value* left, Value* right) {
    if (left->kind != Kind::Constant || !PyUnicode_CheckExact(left->object())) return false;
    Ref<> known = right->as_constant(tracer);
    return !known;
}

Outcome percent_format(Tracer& tracer, Value* format, Value* values) {
    if (values->kind == Kind::Dict)
        tracer.break_graph(BreakKind::UnknownObject,
                           "a string is formatted with a dict whose values are not constants");
    return tracer.start(format_with(tracer, format, values));
}

}  // namespace stator
