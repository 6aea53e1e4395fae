"""The commands of the command line, one a file, each with a ``register(app)``."""
