"""Boards: a built candidate and its test vectors enter, timings leave.

A board knows neither the tasks nor the search. This machine (`local`) times by itself; elsewhere a C program of ours
(`agent`) or TVM's RPC server (`tvm_rpc`) does, over a reach: `ssh`, an emulated machine (`machine`), or processes of
this one under an emulator (`process`). A `transport` says which; `transports` has those of edgetune.
"""
