"""Rearranging converters: operators that move, overwrite, reinterpret or sample elements, as tensor expressions."""

from __future__ import annotations

from typing import Any

from onnx import helper
from tvm import relax, te, tirx, topi
from tvm.relax.frontend.onnx import onnx_frontend as tvm_onnx

from edgetune.graph.kernels import ROWS_AT


class BitCast(tvm_onnx.OnnxOpConverter):
    """The same bits as another type of the same width."""

    @classmethod
    def _impl_v1(cls, bb: relax.BlockBuilder, inputs: Any, attr: dict[str, Any], params: Any) -> relax.Expr:
        dtype = helper.tensor_dtype_to_np_dtype(attr["to"]).name
        source = str(inputs[0].ty.dtype)
        if source == "bool" or dtype == "bool":
            return relax.op.astype(inputs[0], dtype)

        def bit_cast(x: te.Tensor) -> te.Tensor:
            return te.compute(x.shape, lambda *i: tirx.reinterpret(dtype, x(*i)), name="bits")

        return bb.emit_te(bit_cast, inputs[0])


class ReverseSequence(tvm_onnx.OnnxOpConverter):
    """Reverses the first `sequence_lens[b]` elements of each row b."""

    @classmethod
    def _impl_v10(cls, bb: relax.BlockBuilder, inputs: Any, attr: dict[str, Any], params: Any) -> relax.Expr:
        time, batch = attr.get("time_axis", 0), attr.get("batch_axis", 1)

        def reverse_sequence(x: te.Tensor, lengths: te.Tensor) -> te.Tensor:
            def element(*i: Any) -> Any:
                # A length is data: one beyond the axis must not become an index outside of x.
                length = tirx.min(lengths(i[batch]), x.shape[time].astype(str(lengths.dtype)))
                source = tirx.if_then_else(i[time] < length, length - 1 - i[time], i[time])
                return x(*(source if a == time else v for a, v in enumerate(i)))

            return te.compute(x.shape, element, name="reversed")

        return bb.emit_te(reverse_sequence, inputs[0], inputs[1])


class TensorScatter(tvm_onnx.OnnxOpConverter):
    """A cache with `update` written at `write_indices` of each batch along an axis, linear or circular."""

    @classmethod
    def _impl_v24(cls, bb: relax.BlockBuilder, inputs: Any, attr: dict[str, Any], params: Any) -> relax.Expr:
        rank = len(inputs[0].ty.shape)
        axis = attr.get("axis", -2) % rank
        circular = attr.get("mode", b"linear").decode() == "circular"

        def tensor_scatter(past: te.Tensor, update: te.Tensor, *starts: te.Tensor) -> te.Tensor:
            extent, count = past.shape[axis], update.shape[axis]

            def element(*i: Any) -> Any:
                start = starts[0](i[0]) if starts else tirx.const(0, "int64")
                offset = i[axis].astype("int64") - start
                if circular:
                    offset = tirx.floormod(offset, extent.astype("int64"))
                inside = tirx.all(offset >= 0, offset < count.astype("int64"))
                fresh = update(*(offset if a == axis else v for a, v in enumerate(i)))
                return tirx.if_then_else(inside, fresh, past(*i))

            return te.compute(past.shape, element, name="written")

        starts = [] if inputs[2] is None else [inputs[2]]
        call = bb.call_te(tensor_scatter, inputs[0], inputs[1], *starts)
        bb.update_func(call.args[0], bb.get()[call.args[0]].with_attr(ROWS_AT, [axis, int(circular)]))
        return bb.emit(call)


class DeformConv(tvm_onnx.OnnxOpConverter):
    """2-D convolution that samples at learned offsets, bilinearly, optionally weighted by a mask."""

    @classmethod
    def _impl_v19(cls, bb: relax.BlockBuilder, inputs: Any, attr: dict[str, Any], params: Any) -> relax.Expr:
        given = [x for x in (inputs[3], inputs[4]) if x is not None]
        has_bias, has_mask = inputs[3] is not None, inputs[4] is not None
        strides, dilations = attr.get("strides", (1, 1)), attr.get("dilations", (1, 1))
        pads, groups, offset_groups = attr.get("pads", (0, 0, 0, 0)), attr.get("group", 1), attr.get("offset_group", 1)

        def deform_conv(x: te.Tensor, weights: te.Tensor, offset: te.Tensor, *rest: te.Tensor) -> te.Tensor:
            bias = rest[0] if has_bias else None
            mask = rest[-1] if has_mask else None
            _, channels, height, width = (int(e) for e in x.shape)
            outputs, per_group, kh, kw = (int(e) for e in weights.shape)
            per_offset = channels // offset_groups
            dtype = str(x.dtype)

            def sample(n: Any, c: Any, y: Any, xx: Any, p: Any, q: Any) -> Any:
                tap = p * kw + q
                group = c // per_offset
                dy = offset(n, group * 2 * kh * kw + 2 * tap, y, xx)
                dx = offset(n, group * 2 * kh * kw + 2 * tap + 1, y, xx)
                row = (y * strides[0] - pads[0] + p * dilations[0]).astype(dtype) + dy
                column = (xx * strides[1] - pads[1] + q * dilations[1]).astype(dtype) + dx
                top, left = tirx.floor(row), tirx.floor(column)
                total: Any = tirx.const(0, dtype)
                for down in (0, 1):
                    for right in (0, 1):
                        r, s = top.astype("int32") + down, left.astype("int32") + right
                        weight = (row - top if down else 1 - (row - top)) * (
                            column - left if right else 1 - (column - left)
                        )
                        inside = tirx.all(r >= 0, r < height, s >= 0, s < width)
                        total = total + tirx.if_then_else(inside, x(n, c, r, s) * weight, tirx.const(0, dtype))
                return total if mask is None else total * mask(n, group * kh * kw + tap, y, xx)

            batch, _, rows, columns = offset.shape
            sampled = te.compute((batch, channels, rows, columns, kh, kw), sample, name="sampled")
            c, p, q = te.reduce_axis((0, per_group), "c"), te.reduce_axis((0, kh), "p"), te.reduce_axis((0, kw), "q")
            result = te.compute(
                (batch, outputs, rows, columns),
                lambda n, o, y, xx: te.sum(
                    sampled(n, o // (outputs // groups) * per_group + c, y, xx, p, q) * weights(o, c, p, q),
                    axis=[c, p, q],
                ),
                name="deformable",
            )
            return result if bias is None else topi.add(result, topi.reshape(bias, (1, outputs, 1, 1)))

        return bb.emit_te(deform_conv, inputs[0], inputs[1], inputs[2], *given)
