"""Packages: a program with C kernels, weights and a memory plan becomes a folder of plain C.

The input is plain data: the Program, one KernelSource per kernel, packed constants, the MemoryPlan, the Target,
golden vectors and the provenance of every kernel. The output is the folder and, later, facts about a
folder: its sizes, and why each kernel was chosen.
This package depends neither on TVM nor on how a kernel was found. The templates hold its C text; the decisions are
made here.
"""
