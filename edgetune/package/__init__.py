"""The package room: a partitioned program with C kernels, weights and a memory plan becomes a folder of plain C.

What enters is plain data: the Program, one KernelSource per kernel, packed constants, the MemoryPlan, the Target,
golden vectors and the provenance of every kernel. What leaves is the folder, and what can be said of a folder
later: its sizes, whether it still computes the right thing, how fast it is, and why each kernel is the one it is.
This room knows neither TVM nor how a kernel was found; its C text lives in the templates, the decisions are made
here.
"""
