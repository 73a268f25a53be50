"""The pictures of the documentation, each drawn from what it shows: `make pictures`."""
