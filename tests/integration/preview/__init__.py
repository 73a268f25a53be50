"""A package, so that what its conftest.py starts for all of its tests ends with the last of them."""
