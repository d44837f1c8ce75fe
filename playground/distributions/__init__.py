"""Distributions that hold plugins: which are installed, and installing and removing them with pip.

Nothing here imports a plugin. What a distribution provides is asked of a child process (`inventory`), so that a plugin
that is broken, slow or worse can always be removed.
"""
