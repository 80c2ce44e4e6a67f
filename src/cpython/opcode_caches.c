// CPython's table of inline caches, which only compiles as C.
#define Py_BUILD_CORE 1
#include <Python.h>

#define NEED_OPCODE_TABLES
#define NEED_OPCODE_METADATA
#if PY_VERSION_HEX >= 0x030D0000
#include <internal/pycore_opcode_metadata.h>
#else
#include <opcode.h>

#include <internal/pycore_opcode.h>
#endif

const uint8_t* stator_opcode_caches(void) {
    return _PyOpcode_Caches;
}
