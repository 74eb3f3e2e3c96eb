"""One file per revision; its number is the version of the schema that it makes."""
