"""scikit-learn estimators with a tradeoff between generative and discriminative fits."""

from __future__ import annotations

from crossfade.classifiers.entropic_naive_bayes import EntropicNaiveBayes
from crossfade.classifiers.gaussian_discriminant import GaussianDiscriminant
from crossfade.classifiers.naive_bayes import NaiveBayes

__all__ = ["EntropicNaiveBayes", "GaussianDiscriminant", "NaiveBayes"]
