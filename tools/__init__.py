"""What builds and checks the project."""
