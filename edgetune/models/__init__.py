"""Importers: a model file (ONNX) or a Python tensor expression enters, a Relax module with static shapes leaves.

Also what a model must answer: reference outputs for given inputs. Knows nothing of boards, search or the emitted C.
"""
