#include "cpython/tracing.h"

extern "C" int stator_is_monitored(PyThreadState* thread);
extern "C" int stator_is_code_monitored(PyThreadState* thread, PyCodeObject* code);

namespace stator::cpython {

bool is_being_traced(PyThreadState* thread) {
    return stator_is_monitored(thread) != 0;
}

bool is_being_traced(PyThreadState* thread, PyCodeObject* code) {
    return stator_is_monitored(thread) != 0 || stator_is_code_monitored(thread, code) != 0;
}

}  // namespace stator::cpython
