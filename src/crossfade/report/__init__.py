"""The page people look at: one self-contained HTML file, made from plain data."""
