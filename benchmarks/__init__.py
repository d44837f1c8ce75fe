"""Measurements of speed, each side by side with what it is compared with: only their ratio means anything."""
