"""Crossfade against other libraries: ratios from one run. `make bench` prints the table."""
