"""Names for TVM's objects in signatures: TVM ships no types, so each of these is `Any` to a type checker.

An alias says what a function takes or returns. Most have the name of TVM's own class; `Tvm` comes first where the
package has a class of that name. A signature may also name TVM's class itself, such as `relax.Expr`: that is `Any` too.
This file does not import TVM.
"""

from __future__ import annotations

from typing import Any, TypeAlias

# Tensor functions (`tvm.tirx`, `tvm.s_tir`)
Node: TypeAlias = Any
"""A statement, an expression, or a function: any part of a tensor function."""
Stmt: TypeAlias = Any
"""`tirx.Stmt`: any statement, such as a loop, a store or a sequence."""
Expr: TypeAlias = Any
"""`ir.Expr` inside a tensor function: a value or an index."""
Var: TypeAlias = Any
"""`tirx.Var`: a scalar variable, such as that of a loop."""
IterVar: TypeAlias = Any
"""`tirx.IterVar`: an axis of a block, with its extent."""
TvmBuffer: TypeAlias = Any
"""`tirx.Buffer`: the memory of a tensor. (`graph.program.Buffer` is a tensor of the program.)"""
BufferLoad: TypeAlias = Any
"""`tirx.BufferLoad`: the read of an element, or of a vector."""
BufferStore: TypeAlias = Any
"""`tirx.BufferStore`: the write of an element, or of a vector."""
BufferRegion: TypeAlias = Any
"""`tirx.BufferRegion`: the part of a buffer that a block reads or writes."""
For: TypeAlias = Any
"""`tirx.For`: a loop."""
SBlock: TypeAlias = Any
"""`s_tir.SBlock`: a block, the unit of a schedule: its axes, what it reads and writes, its body."""
PrimFunc: TypeAlias = Any
"""`tirx.PrimFunc`: a tensor function."""
PrimType: TypeAlias = Any
"""The type of a scalar or vector, such as float32x8."""

# Schedules (`tvm.s_tir`)
Schedule: TypeAlias = Any
"""`s_tir.Schedule`: a module of tensor functions with the transformations applied so far."""
SBlockRV: TypeAlias = Any
"""`s_tir.SBlockRV`: a schedule's name for a block."""
ExprRV: TypeAlias = Any
"""`ir.Expr`: a schedule's name for a number, such as the extent of a loop."""
LoopRV: TypeAlias = Any
"""`s_tir.LoopRV`: a schedule's name for a loop."""
Trace: TypeAlias = Any
"""`s_tir.Trace`: the steps of a schedule."""

# Tensor expressions (`tvm.te`), graphs (`tvm.relax`) and modules
Tensor: TypeAlias = Any
"""`te.Tensor`: a tensor expression."""
Attrs: TypeAlias = Any
"""`ir.Attrs`: the attributes of an operator, such as strides."""
IRModule: TypeAlias = Any
"""`ir.IRModule`: functions by name."""
Pass: TypeAlias = Any
"""`ir.transform.Pass`: from a module to a module."""
TvmTarget: TypeAlias = Any
"""`tvm.target.Target`. (`edgetune.target.target.Target` is a kind of board.)"""
