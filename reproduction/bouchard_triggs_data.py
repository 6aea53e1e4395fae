"""Bouchard & Triggs (2004), Table 1, as printed."""

from __future__ import annotations

from typing import Final

#: Data sets with their numbers of training rows: 50 a class.
DATASETS: Final = {
    "australian": 100,
    "diabetes": 100,
    "heart": 100,
    "satimage": 300,
    "vehicle": 200,
}

DENSITIES: Final = ("LDA", "QDA", "Balls1", "Balls2")

#: λ of GEN, GDT0.75, GDT0.5, GDT0.25 and DISC.
TRADEOFFS: Final = (1.0, 0.75, 0.5, 0.25, 0.0)

_ROWS: Final = {
    "LDA": """
        0.143 0.253 0.178 0.188 0.237
        0.144 0.252 0.178 0.187 0.235
        0.144 0.249 0.179 0.186 0.235
        0.144 0.250 0.182 0.185 0.236
        0.145 0.249 0.185 0.191 0.243""",
    "QDA": """
        0.149 0.262 0.181 0.181 0.235
        0.151 0.261 0.182 0.179 0.234
        0.150 0.262 0.181 0.180 0.235
        0.151 0.262 0.182 0.181 0.234
        0.168 0.270 0.204 0.215 0.267""",
    "Balls1": """
        0.146 0.262 0.168 0.185 0.318
        0.145 0.260 0.167 0.183 0.293
        0.144 0.259 0.165 0.182 0.271
        0.144 0.257 0.169 0.181 0.254
        0.150 0.253 0.190 0.194 0.242""",
    "Balls2": """
        0.146 0.266 0.181 0.185 0.239
        0.145 0.265 0.180 0.185 0.239
        0.146 0.265 0.180 0.184 0.236
        0.146 0.268 0.181 0.183 0.232
        0.166 0.279 0.211 0.210 0.250""",
}

#: Printed value by data set, density and λ.
PUBLISHED: Final = {
    (dataset, density, tradeoff): float(cell)
    for density, block in _ROWS.items()
    for tradeoff, line in zip(TRADEOFFS, block.split("\n")[1:], strict=True)
    for dataset, cell in zip(DATASETS, line.split(), strict=True)
}
