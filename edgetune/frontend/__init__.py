"""Model formats: a model file or a tensor expression enters, a program with static shapes leaves.

Also computes reference outputs for given inputs. Does not depend on boards, the search or the emitted C.
"""
