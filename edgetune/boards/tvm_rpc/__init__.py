"""Boards behind TVM's own RPC server and tracker, for farms that have them; the second transport (`--rpc tvm`).

A candidate's library enters, the one that any transport takes, and timings leave. TVM's calls have no deadline, so they
are made in a worker process (`worker`), which may be killed; `tvm` itself is never imported here, only its runtime
library. Nothing here knows tasks or search.
"""
