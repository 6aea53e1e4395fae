"""The models that a comparison fits when none are given, and how it reads their tradeoff."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.dummy import DummyClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from crossfade.errors import DataError
from crossfade.table.preparation import Preparation

__all__ = [
    "MODEL_NOTES",
    "SHORT_NAMES",
    "Family",
    "choose_model",
    "choose_models",
    "default_models",
    "families",
    "own_models",
    "without_dear",
]

_VARIANTS: Final[dict[str, float | str]] = {
    "generative": 1.0,
    "discriminative": 0.0,
    "auto": "auto",
}

#: Parameters up to which a Gaussian with full covariance is fitted by Newton's method, and cells
#: (parameters times training rows) from which a fit without it takes minutes.
_EASY_PARAMETERS: Final = 1_500
_DEAR_CELLS: Final = 20_000_000

#: What a reader of the default table must know about its models.
MODEL_NOTES: Final = {
    "shared Gaussian": "Gaussian models and references see text columns as 0/1 columns and missing "
    "numbers as the training median; naive Bayes takes columns as they are.",
    "linear SVM": "linear SVM: probabilities from a sigmoid fitted to 3-fold out-of-fold scores.",
    "k-nearest neighbours": "k-nearest neighbours: k = 5 on standardised columns; its zero "
    "probabilities count as 2.2e-16 in the log-loss.",
}

#: Short names of the default models and references.
SHORT_NAMES: Final = {
    "nb": "naive Bayes",
    "shared": "shared Gaussian",
    "full": "full Gaussian",
    "knn": "k-nearest neighbours",
    "svm": "linear SVM",
    "majority": "majority class",
}

#: What may be asked for: short names, and those that ``crossfade fit`` takes.
_ALIASES: Final = SHORT_NAMES | {
    "naive-bayes": "naive Bayes",
    "gaussian-shared": "shared Gaussian",
    "gaussian-full": "full Gaussian",
}


def default_models() -> dict[str, Any]:
    """Return the models that :func:`crossfade.compare` fits by default, by name.

    Naive Bayes and Gaussian discriminants with shared and with full covariance, each at tradeoff
    1 ("generative"), 0 ("discriminative") and "auto"; and from scikit-learn k-nearest neighbours,
    a linear SVM and the majority class. Naive Bayes takes the table as it is. All others but the
    majority class get a :class:`~crossfade.table.preparation.Preparation` first: 0/1 columns
    for text, the training median for missing numbers.

    Returns
    -------
    dict of str to estimator
        Unfitted estimators; change the dictionary freely and give it to ``compare(models=…)``.
    """
    from crossfade.classifiers import GaussianDiscriminant, NaiveBayes

    models: dict[str, Any] = {}
    for variant, tradeoff in _VARIANTS.items():
        models[f"naive Bayes {variant}"] = NaiveBayes(tradeoff=tradeoff)
    for covariance in ("shared", "full"):
        for variant, tradeoff in _VARIANTS.items():
            discriminant = GaussianDiscriminant(covariance, tradeoff=tradeoff)
            models[f"{covariance} Gaussian {variant}"] = make_pipeline(
                Preparation(drop_first=True), discriminant
            )
    return models | reference_models()


def own_models() -> dict[str, Any]:
    """Return those of :func:`default_models` that are Crossfade's, the references left out."""
    references = reference_models()
    return {n: model for n, model in default_models().items() if n not in references}


def without_dear(
    models: Mapping[str, Any], X: Any, n_train: int, n_classes: int
) -> tuple[dict[str, Any], str | None]:
    """Leave out the default models whose single fit would take minutes on this table.

    Those are the Gaussians with full covariance at a tradeoff other than 1, whose weights are as
    many as there are products of two columns.

    Shapes: X (n_rows, n_columns).
    """
    label = "full Gaussian"
    dear = [
        name
        for name in models
        if name in (f"{label} {v}" for v, tradeoff in _VARIANTS.items() if tradeoff != 1.0)
    ]
    if not dear:
        return dict(models), None
    d = Preparation(drop_first=True).fit(X).source_columns_.size
    parameters = n_classes * (d * (d + 3) // 2 + 1)
    if parameters <= _EASY_PARAMETERS or parameters * n_train <= _DEAR_CELLS:
        return dict(models), None
    note = (
        f"{' and '.join(dear)} left out: {parameters:,} parameters ({d} columns, text as 0/1 "
        f"columns) on {n_train:,} rows would take minutes a fit; ask for them by name: full"
    )
    return {name: model for name, model in models.items() if name not in dear}, note


def reference_models() -> dict[str, Any]:
    """Return the outside references from scikit-learn, by name."""
    return {
        "k-nearest neighbours": make_pipeline(Preparation(), KNeighborsClassifier()),
        "linear SVM": make_pipeline(
            Preparation(),
            # One SVM on all training rows; only its sigmoid comes from the folds.
            CalibratedClassifierCV(LinearSVC(random_state=0), cv=3, ensemble=False),
        ),
        "majority class": DummyClassifier(strategy="prior"),
    }


def choose_models(names: Sequence[str], models: Mapping[str, Any]) -> dict[str, Any]:
    """Return the models whose name starts with one of the given names, in the mapping's order."""
    chosen: set[str] = set()
    for name in names:
        wanted = " ".join(name.strip().split())
        family, colon, variant = wanted.partition(":")
        wanted = _ALIASES.get(family.lower(), family) + (f" {variant}" if colon else "")
        found = [m for m in models if wanted and m.lower().startswith(wanted.lower())]
        if not found:
            options = [*_ALIASES, *models]
            near = get_close_matches(name, options, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}? Choose" if near else "choose"
            raise DataError(
                f"models: expected names or short names of models, got {name!r}; {hint}"
                f" from {', '.join(_ALIASES)}, "
                "optionally with :generative, :discriminative or :auto"
            )
        chosen.update(found)
    return {name: model for name, model in models.items() if name in chosen}


def choose_model(name: str, tradeoff: float | str | None = None) -> tuple[str, Any]:
    """Return one of Crossfade's own models, unfitted, with its name."""
    models = own_models()
    found = choose_models([name], default_models())
    if not found.keys() & models.keys():
        raise DataError(
            f"model: expected one of Crossfade's own models, got {name!r}, which is scikit-learn's "
            "and only a reference; choose from naive-bayes, gaussian-shared, gaussian-full"
        )
    if len(found) > 1:
        found = {n: model for n, model in found.items() if n.endswith(" auto")}
    if len(found) != 1:
        raise DataError(
            f"model: expected the name of one model, got {name!r}, which fits {', '.join(found)}; "
            "say which"
        )
    ((label, model),) = found.items()
    if tradeoff is not None:
        family = next(family for family in families(models) if label in family.members)
        label, model = family.label, family.at(tradeoff)
    return label, model


@dataclass(frozen=True)
class Family:
    """Models of a comparison that differ in their tradeoff only.

    Attributes
    ----------
    label : str
        What the names of the members have in common, else the first member's name.
    members : tuple of str
        Names of the members that are compared.
    parameter : str
        Name of the tradeoff among the estimator's parameters, for ``set_params``.
    model : estimator
        One of them, unfitted.
    """

    label: str
    members: tuple[str, ...]
    parameter: str
    model: Any

    def at(self, tradeoff: float | str) -> Any:
        """Return an unfitted member with this tradeoff."""
        return clone(self.model).set_params(**{self.parameter: tradeoff})


def tradeoff_parameter(model: Any) -> str | None:
    """Return the name of the model's tradeoff parameter (nested ones too), None without one."""
    names = model.get_params(deep=True) if hasattr(model, "get_params") else {}
    found = [name for name in names if name == "tradeoff" or name.endswith("__tradeoff")]
    return min(found, key=len) if found else None


def families(models: Mapping[str, Any]) -> list[Family]:
    """Group models that differ in their tradeoff only."""
    groups: dict[str, list[str]] = {}
    for name, model in models.items():
        parameter = tradeoff_parameter(model)
        if parameter is not None:
            groups.setdefault(_signature(model, parameter), []).append(name)
    result = []
    for members in groups.values():
        model = models[members[0]]
        parameter = tradeoff_parameter(model)
        assert parameter is not None  # it is why the model is in a group
        result.append(Family(_common_words(members), tuple(members), parameter, model))
    return result


def _signature(model: Any, parameter: str) -> str:
    """Return text that is equal for models that differ in this parameter only."""
    neutral = clone(model).set_params(**{parameter: 0.5})
    parts = [
        # Nested estimators stand with their own parameters; their class says the rest.
        f"{name}={type(value).__qualname__ if hasattr(value, 'get_params') else repr(value)}"
        for name, value in sorted(neutral.get_params(deep=True).items())
    ]
    return f"{type(model).__qualname__}({', '.join(parts)})"


def _common_words(names: Sequence[str]) -> str:
    """Return the words with which all names begin; the first name where there are none."""
    if len(names) == 1:
        return names[0]
    common = []
    for words in zip(*(name.split() for name in names), strict=False):
        if len(set(words)) > 1:
            break
        common.append(words[0])
    return " ".join(common) or names[0]
