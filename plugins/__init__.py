"""The built-in plugins. They are found by their entry points and import only the public API, as a stranger's would."""
