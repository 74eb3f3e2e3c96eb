"""YAML files as checked models: every error names file, line and the nearest valid key."""
