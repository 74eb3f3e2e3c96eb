"""This machine as a board: a runner process tries candidates on the measuring core."""
