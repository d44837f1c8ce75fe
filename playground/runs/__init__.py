"""Runs: executing an experiment, and the record of it on disk."""
