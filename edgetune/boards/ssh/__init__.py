"""SSH room: the address of a board enters, processes on the board, files there and forwarded ports leave.

Knows paramiko, OpenSSH's files and POSIX shells; knows neither the agent's protocol nor what is measured.
"""

import logging

# Paramiko logs lost links with tracebacks. Our own errors have all that the user needs,
# so these tracebacks must not reach the terminal through logging's handler of last resort.
logging.getLogger("paramiko").addHandler(logging.NullHandler())
logging.getLogger("paramiko").propagate = False
