"""Programs of Muster against real ones. A package, so that a folder in it can be one."""
