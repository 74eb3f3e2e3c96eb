"""The oracle of the middle end: what it makes of a corpus, frozen and compared."""
