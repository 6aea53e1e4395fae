"""What a class looks like: p(x | y), one exponential family per file, one small interface."""

from __future__ import annotations

from crossfade.densities.base import Bound, Density, reference_rows
from crossfade.densities.bernoulli import Bernoulli
from crossfade.densities.binary_words import BinaryWords
from crossfade.densities.categorical import Categorical
from crossfade.densities.constant import Constant
from crossfade.densities.gaussian import Gaussian
from crossfade.densities.johnson_su import JohnsonSU
from crossfade.densities.multivariate import MultivariateGaussian
from crossfade.densities.poisson import Poisson
from crossfade.densities.product import Product
from crossfade.densities.univariate import Univariate
from crossfade.densities.words import Multinomial

__all__ = [
    "DENSITIES",
    "Bernoulli",
    "BinaryWords",
    "Bound",
    "Categorical",
    "Constant",
    "Density",
    "Gaussian",
    "JohnsonSU",
    "Multinomial",
    "MultivariateGaussian",
    "Poisson",
    "Product",
    "Univariate",
    "reference_rows",
]

#: Densities of single columns by the name a user writes; each may be made with the pseudo-count
#: ``alpha`` alone, but for Gaussians and categories, of which more must be known.
DENSITIES: dict[str, type[Density]] = {
    "bernoulli": Bernoulli,
    "categorical": Categorical,
    "gaussian": Gaussian,
    "poisson": Poisson,
}
