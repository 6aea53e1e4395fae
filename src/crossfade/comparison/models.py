"""The models that a comparison fits when none are given, and how it reads their tradeoff."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline

from crossfade._checks import check_choice
from crossfade._names import near_names
from crossfade.comparison.references import REFERENCES, references
from crossfade.errors import DataError
from crossfade.pools import PooledClassifier
from crossfade.pools.members import MEMBERS
from crossfade.table.preparation import Preparation, WithWords
from crossfade.tradeoff.grid import MOST_JOINT_COLUMNS, most_searched

_VARIANTS: Final[dict[str, float | str]] = {
    "generative": 1.0,
    "discriminative": 0.0,
    "auto": "auto",
}

#: Short names of the models and references.
SHORT_NAMES: Final = {
    "nb": "naive Bayes",
    "shared": "shared Gaussian",
    "full": "full Gaussian",
    **{one.short: name for name, one in REFERENCES.items()},
}

#: What may be asked for: short names, and those that ``crossfade fit`` takes.
_ALIASES: Final = SHORT_NAMES | {
    "naive-bayes": "naive Bayes",
    "gaussian-shared": "shared Gaussian",
    "gaussian-full": "full Gaussian",
}


#: The members of the default pool.
_POOLED: Final = ("naive Bayes auto", "full Gaussian auto", "random forest", "gradient boosting")


def default_models() -> dict[str, Any]:
    """Return the models that :func:`crossfade.compare` fits by default, by name.

    Naive Bayes and Gaussian discriminants with shared and with full covariance, each at tradeoff
    1 ("generative"), 0 ("discriminative") and "auto"; and from scikit-learn a logistic regression
    with its penalty chosen by cross-validated log-loss, a random forest, histogram gradient
    boosting and the majority class. Crossfade's models and gradient boosting take the table as it
    is. The forest gets 0/1 columns for text and takes missing numbers as they are. Logistic
    regression gets a :class:`~crossfade.table.preparation.Preparation` first: 0/1 columns for
    text, the training median for missing numbers.

    Returns
    -------
    dict of str to estimator
        Unfitted estimators; change the dictionary freely and give it to ``compare(models=…)``.

    Examples
    --------
    >>> from crossfade.comparison import default_models
    >>> list(default_models())[:3]
    ['naive Bayes generative', 'naive Bayes discriminative', 'naive Bayes auto']
    """
    return own_models() | references()


def all_models() -> dict[str, Any]:
    """Return :func:`default_models` with k-nearest neighbours and a linear SVM as well."""
    return own_models() | references(everything=True)


def own_models() -> dict[str, Any]:
    """Return those of :func:`default_models` that are Crossfade's, the references left out."""
    from crossfade.classifiers import GaussianDiscriminant, NaiveBayes

    models: dict[str, Any] = {}
    for variant, tradeoff in _VARIANTS.items():
        models[f"naive Bayes {variant}"] = NaiveBayes(tradeoff=tradeoff)
    for covariance in ("shared", "full"):
        for variant, tradeoff in _VARIANTS.items():
            model = GaussianDiscriminant(covariance, tradeoff=tradeoff)
            models[f"{covariance} Gaussian {variant}"] = model
    return models


def affordable(
    models: Mapping[str, Any], kinds: Sequence[str], n_classes: int, *, sparse: bool = False
) -> tuple[dict[str, Any], str | None]:
    """Leave out default models that say nothing new of this table, cannot read it or take too long.

    Without a numeric column the Gaussian discriminants are naive Bayes; a full covariance at
    tradeoff 0 has as many weights as there are products of two numeric columns.
    """
    if "text" in kinds or sparse:
        kept = {name: one for name, one in models.items() if not name.split(" Gaussian")[1:]}
        if ("text" in kinds and set(kinds) <= {"text", "identifier"}) or sparse:
            kept.pop("gradient boosting", None)
        labels = dict.fromkeys(" ".join(name.split()[:2]) for name in models if name not in kept)
        what = "a sparse table" if sparse else "free text"
        note = f"{', '.join(labels)} left out: they do not read {what}"
        return kept, note if labels else None
    d = sum(kind in ("continuous", "count") for kind in kinds)
    if d < 2:
        gaussian = (SHORT_NAMES["shared"], SHORT_NAMES["full"])
        kept = {name: model for name, model in models.items() if not name.startswith(gaussian)}
        few = f"with {'one' if d else 'no'} numeric column"
        note = f"{' and '.join(gaussian)} left out: {few} they are naive Bayes"
        return kept, note if len(kept) < len(models) else None
    parameters, regression = n_classes * (d * (d + 3) // 2 + 1), n_classes * (d + 1)
    most = most_searched(regression)
    left = {}
    if parameters > most:
        left["full Gaussian discriminative"] = (
            f"{parameters:,} parameters for {d} numeric columns, where a logistic regression has "
            f"{regression:,} (at most {most:,} are fitted unasked)"
        )
    if d > MOST_JOINT_COLUMNS:
        reason = f"choosing among covariances of over {MOST_JOINT_COLUMNS} numeric columns is slow"
        left |= dict.fromkeys(("shared Gaussian auto", "full Gaussian auto"), reason)
    notes = [
        f"{name} left out: {why}; ask for it by name, {name.replace(' Gaussian ', ':')}"
        for name, why in left.items()
    ]
    kept = {name: model for name, model in models.items() if name not in left}
    return kept, "; ".join(notes) if len(kept) < len(models) else None


def model_notes(models: Mapping[str, Any], *, mixed: bool) -> list[str]:
    """Return what a reader must know of these estimators, whatever their names.

    Takes mixed: whether the table has text columns or missing cells.
    """
    prepared, notes = [], []
    for name, model in models.items():
        steps = [step for _, step in model.steps] if isinstance(model, Pipeline) else [model]
        # Its subclasses do other things to the columns.
        standardised = any(type(step) in (Preparation, WithWords) for step in steps)
        if standardised:
            prepared.append(name)
        last = steps[-1]
        if isinstance(last, KNeighborsClassifier):
            columns = " on standardised columns" if standardised else ""
            notes.append(
                f"{name}: k = {last.n_neighbors}{columns}; its zero probabilities count as "
                "2.2e-16 in the log-loss."
            )
        if isinstance(last, CalibratedClassifierCV):
            folds = f"{last.cv}-fold " if isinstance(last.cv, int) else ""
            curve = {"sigmoid": "a sigmoid", "isotonic": "an isotonic curve"}.get(last.method, "")
            notes.append(
                f"{name}: probabilities from {curve or last.method} fitted to {folds}out-of-fold "
                "scores."
            )
    if prepared and mixed:
        labels = {name: family.label for family in families(models) for name in family.members}
        named = list(dict.fromkeys(labels.get(name, name) for name in prepared))
        joined = " and ".join([*filter(None, [", ".join(named[:-1])]), named[-1]])
        verb = "sees" if len(prepared) == 1 else "see"
        notes.insert(
            0,
            f"{joined} {verb} text columns as 0/1 columns and missing numbers as the training "
            "median.",
        )
    return notes


def choose_models(names: Sequence[str], models: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the models that are asked for, in the line-up's order, then those imported.

    Parameters
    ----------
    names : sequence of str
        Each the beginning of a model's name, a short name (nb, shared, full, logistic, forest,
        boosting, knn, svm, majority), one of these with a variant (nb:auto) or with a λ (nb:0.5),
        "default", "all", "pool" (the default pool's members; their pool is a row of the
        comparison), or the full
        name of a class with a dot in it, which is imported: lightgbm.LGBMClassifier.
    models : mapping of str to estimator, optional
        The line-up that is chosen from; by default all models.

    Returns
    -------
    dict of str to estimator

    Raises
    ------
    DataError
        If a name fits nothing, or what is imported is no classifier.

    Examples
    --------
    >>> from crossfade.comparison import choose_models
    >>> list(choose_models(["nb:auto", "sklearn.naive_bayes.GaussianNB"]))
    ['naive Bayes auto', 'GaussianNB']
    """
    everything = dict(all_models() if models is None else models)
    chosen: set[str] = set()
    imported: dict[str, Any] = {}
    for name in names:
        wanted = " ".join(name.strip().split())
        family, colon, variant = wanted.partition(":")
        family = _ALIASES.get(family.lower(), family)
        if colon and (label := _with_number(family, variant, everything)):
            chosen.add(label)
            continue
        if "." in wanted and not colon:
            _, _, label = wanted.rpartition(".")
            taken = label in imported or label in everything
            imported[wanted if taken else label] = _imported(wanted)
            continue
        if wanted == "pool":
            chosen.update(_POOLED)
            continue
        if wanted in ("all", "default"):
            chosen.update(everything if wanted == "all" else default_models())
            continue
        wanted = family + (f" {variant}" if colon else "")
        found = [m for m in everything if wanted and m.lower().startswith(wanted.lower())]
        if not found:
            options = [*_ALIASES, *everything]
            is_family = any(one.lower().startswith(family.lower()) for one in everything)
            near = [] if colon and family and is_family else near_names(family, options)
            hint = f"did you mean {near[0]!r}? Choose" if near else "choose"
            raise DataError(
                f"models: expected names or short names of models, got {name!r}; {hint}"
                f" from {', '.join(_ALIASES)}, "
                "optionally with :generative, :discriminative, :auto or a λ from 0 to 1, or name a "
                "class that can be imported, such as sklearn.naive_bayes.GaussianNB"
            )
        chosen.update(found)
    return {name: model for name, model in everything.items() if name in chosen} | imported


def _with_number(family: str, variant: str, models: dict[str, Any]) -> str | None:
    """Return the name of a family's model with this λ, None where that is none.

    It is put into `models`, behind the others of its family, where it is not in them.
    """
    try:
        tradeoff = float(variant)
    except ValueError:
        return None
    found = [one for one in families(models) if one.label.lower().startswith(family.lower())]
    if len(found) != 1 or not family or not 0.0 <= tradeoff <= 1.0:
        return None
    known = {value: name for name, value in _VARIANTS.items()}
    label = f"{found[0].label} {known.get(tradeoff, f'λ={tradeoff:g}')}"
    if label not in models:
        items = list(models.items())
        place = max(i for i, (name, _) in enumerate(items) if name in found[0].members)
        items.insert(place + 1, (label, found[0].at(tradeoff)))
        models.clear()
        models.update(items)
    return label


def _imported(path: str) -> Any:
    """Return an estimator of the class with this full name, prepared for tables of any kind."""
    place, _, name = path.rpartition(".")
    expected = f"models: expected the full name of a classifier's class, got {path!r}"
    try:
        module = import_module(place)
    except (ImportError, ValueError) as error:
        package = place.partition(".")[0] or path
        raise DataError(
            f"{expected}, but importing {place!r} failed: {error}; "
            f"check the spelling, or install {package}"
        ) from error
    kind = getattr(module, name, None)
    if kind is None:
        near = near_names(name, dir(module))
        hint = f"did you mean '{place}.{near[0]}'?" if near else "check the spelling"
        raise DataError(f"{expected}, but {place!r} has no {name!r}; {hint}")
    try:
        model = kind() if isinstance(kind, type) else None
    except TypeError as error:
        raise DataError(
            f"{expected}, which cannot be made without arguments: {error}; give the estimator "
            "itself in Python: compare(models={…})"
        ) from error
    methods = ("fit", "predict", "get_params")
    if not all(hasattr(model, method) for method in methods) or not is_classifier(model):
        raise DataError(
            f"{expected}, which is no classifier; name a class with fit, predict and "
            "predict_proba, such as sklearn.naive_bayes.GaussianNB"
        )
    # Our own take tables as they are; of others that is not known.
    own = kind.__module__.partition(".")[0] == __name__.partition(".")[0]
    return model if own else make_pipeline(WithWords(), model)


def choose_model(name: str, tradeoff: float | str | None = None) -> tuple[str, Any]:
    """Return one of Crossfade's own models, unfitted, with its name.

    A pool, too: "pool", the default one, or "pool:nb,forest", one of these members.
    """
    models = own_models()
    kind, colon, members = name.partition(":")
    if kind.strip().lower() == "pool" and tradeoff is None:
        return "pool", PooledClassifier(_member_names(members) if colon else "default")
    found = choose_models([name])
    if not families(found):
        raise DataError(
            f"model: expected one of Crossfade's own models, got {name!r}, which is scikit-learn's "
            "and only a reference; choose from naive-bayes, gaussian-shared, gaussian-full, pool"
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
        family = next(family for family in families(models | found) if label in family.members)
        label, model = family.label, family.at(tradeoff)
    return label.partition(" λ=")[0], model


def _member_names(text: str) -> list[str]:
    """Return the names of members as the pool has them."""
    short = {long: name for name, long in _ALIASES.items() if name in MEMBERS}
    given = [name.strip() for name in text.split(",")]
    names = [short.get(_ALIASES.get(name.lower(), name), name) for name in given]
    for name in names:
        check_choice("members of the pool", name, MEMBERS, "for example pool:nb,forest")
    return names


@dataclass(frozen=True)
class ModelFamily:
    """Models of a comparison that differ in `parameter`, their tradeoff; `model` is one of them.

    `label`: What the names of the members have in common, else the first member's name; of one
    member, its name without the word for its tradeoff.
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


def families(models: Mapping[str, Any]) -> list[ModelFamily]:
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
        result.append(ModelFamily(_common_words(members), tuple(members), parameter, model))
    return result


def _signature(model: Any, parameter: str) -> str:
    """Return text that is equal for models that differ in this parameter only."""
    neutral = clone(model).set_params(**{parameter: 0.5})
    parts = [
        # Nested estimators stand with their own parameters; their class says the rest.
        f"{name}={type(value).__qualname__ if hasattr(value, 'get_params') else _described(value)}"
        for name, value in sorted(neutral.get_params(deep=True).items())
    ]
    return f"{type(model).__qualname__}({', '.join(parts)})"


def _described(value: Any) -> str:
    """Return text that is equal for equal values, also for objects that show as where they lie."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key!r}: {_described(one)}' for key, one in value.items())}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_described, value))}]"
    if repr(value) == object.__repr__(value) and hasattr(value, "__dict__"):
        return f"{type(value).__qualname__}({_described(vars(value))})"
    return repr(value)


def _common_words(names: Sequence[str]) -> str:
    """Return the words with which all names begin; the first name where there are none."""
    if len(names) == 1:
        family, _, last = names[0].rpartition(" ")
        return family if family and (last in _VARIANTS or "λ=" in last) else names[0]
    common = []
    for words in zip(*(name.split() for name in names), strict=False):
        if len(set(words)) > 1:
            break
        common.append(words[0])
    return " ".join(common) or names[0]
