"""The commands of `muster`, one a file.

Each module has `add(commands)`, which declares its options and what runs them: a function from the parsed
options to the exit code. What stops a command is a PreviewError, which `__main__` writes to standard error
and turns into exit code 2.
"""
