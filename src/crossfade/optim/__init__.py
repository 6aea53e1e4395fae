"""Solvers: what they minimise, they know by its value, gradient and curvature only."""
