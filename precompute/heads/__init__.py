"""Methods that choose retrieval heads.

A file or folder here that defines `CONFIG`, a frozen dataclass of settings, and `build(config)` is
a method: `lectern heads find` offers it by its name.
"""
