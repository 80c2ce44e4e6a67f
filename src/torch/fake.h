/// FakeTensors made directly from metadata.
///
/// PyTorch's own way from a real tensor to a fake one (`FakeTensorConverter`) takes 100 us or more: it describes the
/// tensor in Python, makes a meta tensor through the dispatcher and checks the result. What comes out is a tensor of
/// the meta device whose class is `FakeTensor`, whose backend keys are those of the pretended device, whose `device` is
/// asked from Python, and whose `__dict__` holds the mode, the device and a handful of empty memos. That is made here
/// in one go. The contents of the `__dict__` are copied from a tensor that `FakeTensor`'s own constructor made, so that
/// attributes a version of PyTorch adds are there too.
#pragma once

#include "base/ref.h"
#include "torch/meta.h"

namespace stator::torch_room {

/// A new `FakeTensorMode` without symbolic shapes, as backends expect one in their tracing context.
Ref<> new_fake_mode();

/// The mode that shape inference uses in this thread, made when first asked for. Making the first mode of a process
/// imports torch._dynamo's configuration, which takes most of a second.
Borrowed<> fake_mode_of_thread();

/// A FakeTensor with exactly this metadata, in some microseconds. A parameter stays a parameter (`_is_param`); a tensor
/// that requires grad without being a leaf gets a `grad_fn` that raises when it is run. Throws `PythonError` where
/// there is no such FakeTensor: layouts other than strided, subclasses, functorch wrappers.
Ref<> make_fake(Borrowed<> fake_mode, const TensorMeta& meta);

/// Metadata of a FakeTensor as of the tensor it stands for: its pretended device, `torch.Tensor` or `Parameter` as
/// its class.
TensorMeta read_fake_meta(Borrowed<> fake);
bool is_fake(Borrowed<> object);

}  // namespace stator::torch_room
