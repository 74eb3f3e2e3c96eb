"""What of an ONNX model nothing checks while it is read: text is UTF-8, a tensor holds what its shape and type say.

Protobuf gives bytes in the place of text that is none, and the checker of ONNX does not count the values of tensors.
What computes with a model would end in exceptions of its own.
"""

from __future__ import annotations

from math import prod

import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from onnx import TensorProto, helper

from edgetune.errors import ModelError
from edgetune.models.external_data import element_bits, tensors

_COMPLEX = (TensorProto.COMPLEX64, TensorProto.COMPLEX128)
_BYTE = 8
_SHARED_BITS = (2, 4)  # of values that share an entry where they are no raw bytes


def require_text(message: Message, where: str) -> None:
    """Raises ModelError when some text in `message`, or in what it is made of, is none; `where` names the model."""
    for field, value in message.ListFields():
        if field.type == FieldDescriptor.TYPE_STRING:
            for text in value if field.is_repeated else (value,):
                if not isinstance(text, str):
                    shown = ascii(text.decode(errors="replace"))[:60]
                    raise ModelError(
                        f"{where} holds text that is not UTF-8 ({field.name} {shown} of a {message.DESCRIPTOR.name}); "
                        "export the model again"
                    )
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            for part in value if field.is_repeated else (value,):
                require_text(part, where)


def require_values(proto: onnx.ModelProto, where: str) -> None:
    """Raises ModelError when a tensor with its data in the file has another number of values than its shape says."""
    for tensor in tensors(proto):
        if tensor.data_location != TensorProto.EXTERNAL and not _is_whole(tensor):
            named = f"tensor {tensor.name!r}" if tensor.name else "an unnamed tensor"
            raise ModelError(
                f"{named} of {where} has other data than its shape and type say, or a type that ONNX lacks; "
                "export the model again"
            )


def _is_whole(tensor: TensorProto) -> bool:
    if any(extent < 0 for extent in tensor.dims):
        return False
    count = prod(tensor.dims)
    if tensor.data_type == TensorProto.STRING:
        return bool(len(tensor.string_data) == count)
    bits = element_bits(tensor.data_type)
    if bits is None:
        return False
    nbytes = -(-count * bits // _BYTE)
    if tensor.HasField("raw_data"):
        return bool(len(tensor.raw_data) == nbytes)
    entries = len(getattr(tensor, helper.tensor_dtype_to_field(tensor.data_type)))
    if bits in _SHARED_BITS:
        return bool(entries == nbytes)
    return bool(entries == count * (2 if tensor.data_type in _COMPLEX else 1))
