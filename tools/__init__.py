"""Tools that build and check the project."""
