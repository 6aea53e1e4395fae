"""The commands of the command line, one per file, each with a ``register(app)``."""
