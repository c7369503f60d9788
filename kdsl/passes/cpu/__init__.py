"""Passes and the plan of the CPU target."""
