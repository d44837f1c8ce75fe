"""Writing plugins: a template of a distribution for each kind of component."""
