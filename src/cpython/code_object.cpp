#include "cpython/code_object.h"

#define Py_BUILD_CORE 1
#undef _PyGC_FINALIZED
#include <internal/pycore_code.h>
#undef Py_BUILD_CORE

#include "base/check.h"
#include "base/python_error.h"

namespace stator::cpython {

std::span<const CodeUnit> code_units(PyCodeObject* code) {
    // CPython caches the bytes on the code object, so they outlive this reference.
    Ref<> bytes = checked(PyCode_GetCode(code));
    return {reinterpret_cast<const CodeUnit*>(PyBytes_AS_STRING(bytes.get())),
            static_cast<std::size_t>(PyBytes_GET_SIZE(bytes.get())) / sizeof(CodeUnit)};
}

int slot_count(PyCodeObject* code) {
    return code->co_nlocalsplus;
}
int stack_size(PyCodeObject* code) {
    return code->co_stacksize;
}

SlotKind slot_kind(PyCodeObject* code, int slot) {
    auto kind = static_cast<unsigned char>(PyBytes_AS_STRING(code->co_localspluskinds)[slot]);
    return {(kind & CO_FAST_LOCAL) != 0, (kind & CO_FAST_CELL) != 0, (kind & CO_FAST_FREE) != 0};
}

Borrowed<> slot_name(PyCodeObject* code, int slot) {
    return PyTuple_GET_ITEM(code->co_localsplusnames, slot);
}

Offset body_start(PyCodeObject* code) {
    return Offset::of_unit(code->_co_firsttraceable);
}

namespace {

/// Bytes of one of the two tables. Both end with the bytes object; a truncated table is CPython's bug, not a case.
class TableReader {
  public:
    explicit TableReader(PyObject* bytes)
        : next_(reinterpret_cast<const unsigned char*>(PyBytes_AS_STRING(bytes))),
          end_(next_ + PyBytes_GET_SIZE(bytes)) {}

    bool at_end() const { return next_ >= end_; }
    unsigned byte() { return at_end() ? 0 : *next_++; }

    /// Six bits at a time, the lowest first.
    int line_varint() {
        unsigned byte_read = byte(), value = byte_read & 63, shift = 0;
        while ((byte_read & 64) != 0) {
            byte_read = byte();
            value |= (byte_read & 63) << (shift += 6);
        }
        return static_cast<int>(value);
    }
    int line_signed_varint() {
        int value = line_varint();
        return (value & 1) != 0 ? -(value >> 1) : value >> 1;
    }
    /// Six bits at a time, the highest first.
    int exception_varint() {
        unsigned byte_read = byte(), value = byte_read & 63;
        while ((byte_read & 64) != 0) {
            byte_read = byte();
            value = value << 6 | (byte_read & 63);
        }
        return static_cast<int>(value);
    }

  private:
    const unsigned char* next_;
    const unsigned char* end_;
};

}  // namespace

std::vector<LineRange> line_table(PyCodeObject* code) {
    // CPython's Objects/locations.md describes the format: a byte with the kind and the number of code units, then the
    // line as a difference, then columns.
    enum Kind { kFirstOneLine = 10, kLastOneLine = 12, kNoColumns = 13, kLong = 14, kNone = 15 };
    std::vector<LineRange> lines;
    TableReader table(code->co_linetable);
    int line = code->co_firstlineno;
    int unit = 0;
    while (!table.at_end()) {
        unsigned first = table.byte();
        int kind = (first >> 3) & 15;
        int length = static_cast<int>(first & 7) + 1;
        bool has_line = true;
        if (kind == kNone) {
            has_line = false;
        } else if (kind == kLong) {
            line += table.line_signed_varint();
            for (int skipped = 0; skipped < 3; ++skipped) table.line_varint();
        } else if (kind == kNoColumns) {
            line += table.line_signed_varint();
        } else if (kind >= kFirstOneLine && kind <= kLastOneLine) {
            line += kind - kFirstOneLine;
            table.byte();
            table.byte();
        } else {
            table.byte();
        }
        int shown = has_line ? line : -1;
        if (!lines.empty() && lines.back().line == shown)
            lines.back().end = Offset::of_unit(unit + length);
        else
            lines.push_back({Offset::of_unit(unit), Offset::of_unit(unit + length), shown});
        unit += length;
    }
    return lines;
}

std::vector<HandlerRange> exception_table(PyCodeObject* code) {
    std::vector<HandlerRange> handlers;
    TableReader table(code->co_exceptiontable);
    while (!table.at_end()) {
        int start = table.exception_varint();
        int length = table.exception_varint();
        int target = table.exception_varint();
        int depth_and_lasti = table.exception_varint();
        handlers.push_back({Offset::of_unit(start), Offset::of_unit(start + length), Offset::of_unit(target),
                            depth_and_lasti >> 1, (depth_and_lasti & 1) != 0});
    }
    return handlers;
}

namespace {

void destroy_extra(void* pointer) {
    auto* extra = static_cast<CodeExtra*>(pointer);
    if (extra == nullptr) return;
    for (CodeExtra::Slot* slot : {&extra->entries, &extra->decoded})
        if (slot->object != nullptr && slot->destroy != nullptr) slot->destroy(slot->object);
    delete extra;
}

#if PY_VERSION_HEX >= 0x030C0000
Py_ssize_t request_index() {
    return PyUnstable_Eval_RequestCodeExtraIndex(destroy_extra);
}
int get_extra(PyObject* code, Py_ssize_t index, void** extra) {
    return PyUnstable_Code_GetExtra(code, index, extra);
}
int set_extra(PyObject* code, Py_ssize_t index, void* extra) {
    return PyUnstable_Code_SetExtra(code, index, extra);
}
#else
Py_ssize_t request_index() {
    return _PyEval_RequestCodeExtraIndex(destroy_extra);
}
int get_extra(PyObject* code, Py_ssize_t index, void** extra) {
    return _PyCode_GetExtra(code, index, extra);
}
int set_extra(PyObject* code, Py_ssize_t index, void* extra) {
    return _PyCode_SetExtra(code, index, extra);
}
#endif

Py_ssize_t extra_index() {
    static const Py_ssize_t index = request_index();
    return index;
}

}  // namespace

CodeExtra* extra_if_any(PyCodeObject* code) {
    void* extra = nullptr;
    if (get_extra(reinterpret_cast<PyObject*>(code), extra_index(), &extra) < 0) PyErr_Clear();
    return static_cast<CodeExtra*>(extra);
}

CodeExtra& extra_of(PyCodeObject* code) {
    if (CodeExtra* extra = extra_if_any(code)) [[likely]]
        return *extra;
    STATOR_CHECK(extra_index() >= 0, "no co_extra index is left: other tools have taken all of them");
    auto* extra = new CodeExtra;
    if (set_extra(reinterpret_cast<PyObject*>(code), extra_index(), extra) < 0) {
        delete extra;
        throw PythonError();
    }
    return *extra;
}

#if PY_VERSION_HEX >= 0x030D0000
Ref<> suggested_parameter(std::span<PyObject* const> parameters, PyObject* keyword) {
    Ref<> module = checked(PyImport_ImportModule("_suggestions"));
    Ref<> candidates = checked(PyList_New(0));
    for (PyObject* parameter : parameters) checked(PyList_Append(candidates.get(), parameter));
    Ref<> found = checked(PyObject_CallMethod(module.get(), "_generate_suggestions", "OO", candidates.get(), keyword));
    return found.get() == Py_None ? Ref<>() : std::move(found);
}
#else
Ref<> suggested_parameter(std::span<PyObject* const>, PyObject*) {
    return {};
}
#endif

}  // namespace stator::cpython
