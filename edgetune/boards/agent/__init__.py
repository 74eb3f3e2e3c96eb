"""The agent: a C program on the board that tries candidates, and our side of the frames it speaks.

Files and requests enter, results and readings leave. What a board sends is taken for hostile: sizes are bounded,
values checked. Nothing here knows how the board is reached: that is a `Reach`.
"""
