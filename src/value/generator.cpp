#include "value/generator.h"

#include "base/text.h"
#include "value/attributes.h"
#include "value/tracer.h"

namespace stator {

Outcome GeneratorValue::get_attribute(Tracer& tracer, Borrowed<> name) {
    return generic_get_attribute(tracer, this, name);
}

Outcome GeneratorValue::next(Tracer& tracer) {
    return tracer.push_generator(this, tracer.none());
}

std::string GeneratorValue::print() const {
    return "generator " + std::string(utf8(name));
}

}  // namespace stator
