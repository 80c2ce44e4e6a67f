#include "guard/guard.h"

#include "base/check.h"
#include "base/text.h"
#include "guard/state.h"
#include "torch/wrappers.h"

namespace stator {

namespace {

std::string code_name(PyObject* function_or_code) {
    PyObject* code = PyFunction_Check(function_or_code) ? PyFunction_GET_CODE(function_or_code) : function_or_code;
    return std::string(utf8(reinterpret_cast<PyCodeObject*>(code)->co_qualname));
}

}  // namespace

std::string guard_text(GuardKind kind, const std::string& source, PyObject* expected, std::int64_t number,
                       const std::string& other, const torch_room::TensorCheck* tensor) {
    switch (kind) {
        case GuardKind::Type:
            return "type of " + source + " is " + type_name(reinterpret_cast<PyTypeObject*>(expected));
        case GuardKind::Identity:
            return source + " is the same " + type_name(Py_TYPE(expected));
        case GuardKind::Constant:
            return source + " is " + short_repr(expected);
        case GuardKind::Function:
            return source + " is a function with the code of " + code_name(expected);
        case GuardKind::Length:
            return source + " has " + std::to_string(number) + (number == 1 ? " item" : " items");
        case GuardKind::Present:
            return source + " exists";
        case GuardKind::HasNoKey:
            return source + " has no key " + short_repr(expected);
        case GuardKind::Keys:
            return source + (number == kByIdentity ? " has the very keys " : " has the keys ") + short_repr(expected);
        case GuardKind::Elements: {
            Ref<> elements = Ref<>::steal(PySequence_Tuple(expected));
            if (!elements) PyErr_Clear();
            return source + (number == kByIdentity ? " has the very elements " : " has the elements ") +
                   short_repr(elements);
        }
        case GuardKind::Absent:
            return source + " does not exist";
        case GuardKind::Tensor:
            return source + " is " + torch_room::print(*tensor);
        case GuardKind::Autograd:
            return source + " is " + print_autograd_state(number);
        case GuardKind::Offset:
            return source + " has storage offset " + std::to_string(number) + " of its memory";
        case GuardKind::Subclass:
            if (number == torch_room::kFlattened) return source + " flattens to " + short_repr(expected);
            return source + (number == 1 ? " is" : " is not") + " a subclass of " + short_repr(expected);
        case GuardKind::Same:
            return source + " is " + other;
        case GuardKind::Different:
            return source + " is not " + other;
        case GuardKind::Expression:
            return source;
    }
    return "?";
}

std::int64_t pack(torch_room::AutogradState state) {
    return (state.is_leaf ? 1 : 0) | (state.is_loose_view ? 2 : 0) | (state.refuses_writes ? 4 : 0) |
           (state.is_given_up ? 8 : 0);
}

std::string print_autograd_state(std::int64_t packed) {
    return std::string((packed & 1) != 0 ? "a leaf" : "no leaf") +
           ((packed & 2) != 0 ? ", a view of several or made without gradients" : "") +
           ((packed & 4) != 0 ? ", not to be written to" : "") + ((packed & 8) != 0 ? ", given up by autograd" : "");
}

std::string print(const Guard& guard) {
    if (guard.kind == GuardKind::Expression) return print(*guard.expression);
    torch_room::TensorCheck tensor;
    if (guard.kind == GuardKind::Tensor) tensor = torch_room::make_check(guard.expected, guard.dynamic);
    return guard_text(guard.kind, print(*guard.source), guard.expected, guard.number,
                      guard.other == nullptr ? "" : print(*guard.other), &tensor);
}

}  // namespace stator
