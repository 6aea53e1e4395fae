"""Choose, fit and trust a probabilistic classifier: generative, discriminative, and between.

The public names are imported when first used, so that ``import crossfade`` stays light: it loads
no compiled kernel, no data-frame library and nothing of the command line.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# A new public name is added twice: here for type checkers and editors, and in _HOMES for Python.
# A test compares the two.
if TYPE_CHECKING:
    from crossfade.classifiers.entropic_naive_bayes import EntropicNaiveBayes as EntropicNaiveBayes
    from crossfade.classifiers.explanation import Explanation as Explanation
    from crossfade.classifiers.explanation import explain as explain
    from crossfade.classifiers.gaussian_discriminant import (
        GaussianDiscriminant as GaussianDiscriminant,
    )
    from crossfade.classifiers.naive_bayes import NaiveBayes as NaiveBayes
    from crossfade.comparison.compare import compare as compare
    from crossfade.comparison.results import ComparisonResult as ComparisonResult
    from crossfade.crf.model import ConditionalRandomField as ConditionalRandomField
    from crossfade.errors import AliasedColumnsWarning as AliasedColumnsWarning
    from crossfade.errors import CellTypeError as CellTypeError
    from crossfade.errors import ClusterError as ClusterError
    from crossfade.errors import ConvergenceWarning as ConvergenceWarning
    from crossfade.errors import CountsWarning as CountsWarning
    from crossfade.errors import CrossfadeWarning as CrossfadeWarning
    from crossfade.errors import DataError as DataError
    from crossfade.errors import DomainError as DomainError
    from crossfade.errors import IgnoredRowsWarning as IgnoredRowsWarning
    from crossfade.errors import LeftOutWarning as LeftOutWarning
    from crossfade.errors import MissingExtraError as MissingExtraError
    from crossfade.errors import NotADensityError as NotADensityError
    from crossfade.errors import NumeralsWarning as NumeralsWarning
    from crossfade.errors import SeparationWarning as SeparationWarning
    from crossfade.errors import TradeoffWarning as TradeoffWarning
    from crossfade.errors import UnseenNumbersWarning as UnseenNumbersWarning
    from crossfade.evaluation.learning_curve import learning_curve as learning_curve
    from crossfade.evaluation.result import LearningCurve as LearningCurve
    from crossfade.glm.binomial_estimator import BinomialRegression as BinomialRegression
    from crossfade.glm.multinomial_estimator import MultinomialRegression as MultinomialRegression
    from crossfade.glm.poisson_estimator import PoissonRegression as PoissonRegression
    from crossfade.hmm.entropic import EntropicMarkovChain as EntropicMarkovChain
    from crossfade.hmm.model import HiddenMarkovModel as HiddenMarkovModel
    from crossfade.pools.pooled import PooledClassifier as PooledClassifier
    from crossfade.table.text import Text as Text

#: The module each public name lives in.
_HOMES = {
    "AliasedColumnsWarning": "crossfade.errors",
    "BinomialRegression": "crossfade.glm.binomial_estimator",
    "CellTypeError": "crossfade.errors",
    "ClusterError": "crossfade.errors",
    "ComparisonResult": "crossfade.comparison.results",
    "ConditionalRandomField": "crossfade.crf.model",
    "ConvergenceWarning": "crossfade.errors",
    "CountsWarning": "crossfade.errors",
    "CrossfadeWarning": "crossfade.errors",
    "DataError": "crossfade.errors",
    "DomainError": "crossfade.errors",
    "EntropicMarkovChain": "crossfade.hmm.entropic",
    "EntropicNaiveBayes": "crossfade.classifiers.entropic_naive_bayes",
    "Explanation": "crossfade.classifiers.explanation",
    "GaussianDiscriminant": "crossfade.classifiers.gaussian_discriminant",
    "HiddenMarkovModel": "crossfade.hmm.model",
    "IgnoredRowsWarning": "crossfade.errors",
    "LearningCurve": "crossfade.evaluation.result",
    "LeftOutWarning": "crossfade.errors",
    "MissingExtraError": "crossfade.errors",
    "MultinomialRegression": "crossfade.glm.multinomial_estimator",
    "NaiveBayes": "crossfade.classifiers.naive_bayes",
    "NotADensityError": "crossfade.errors",
    "NumeralsWarning": "crossfade.errors",
    "PoissonRegression": "crossfade.glm.poisson_estimator",
    "PooledClassifier": "crossfade.pools.pooled",
    "SeparationWarning": "crossfade.errors",
    "Text": "crossfade.table.text",
    "TradeoffWarning": "crossfade.errors",
    "UnseenNumbersWarning": "crossfade.errors",
    "compare": "crossfade.comparison.compare",
    "learning_curve": "crossfade.evaluation.learning_curve",
    "explain": "crossfade.classifiers.explanation",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value  # the next access finds it without coming here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
