"""Revisions of the tables of the records database, oldest first. A revision that was released is never changed."""
