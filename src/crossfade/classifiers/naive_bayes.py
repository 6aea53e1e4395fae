"""Naive Bayes: columns independent given the class, from generative to logistic regression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeGuard

from numpy.typing import ArrayLike

from crossfade._checks import check_number
from crossfade._typing import Floats, Integers
from crossfade.choice import KIND_OF_DENSITY, ColumnChoice, Reason, by_evidence, by_type, report_of
from crossfade.choice.products import product_of, variants
from crossfade.classifiers.batches import BatchClassifier
from crossfade.classifiers.checks import derives_columns
from crossfade.classifiers.interaction_search import (
    Search,
    check_interactions,
    fit_with_interactions,
)
from crossfade.classifiers.interactions import Derived
from crossfade.densities import DENSITIES, BinaryWords, Density, Gaussian, Multinomial, Product
from crossfade.errors import DataError
from crossfade.table import Schema
from crossfade.table.cluster import comes_in_parts
from crossfade.table.documents import is_sparse
from crossfade.table.text import Text
from crossfade.tradeoff.grid import SHRINKAGE_ROWS, Points
from crossfade.tradeoff.labelled_rows import LabelledRows

#: Names of densities of words, and the kind of column that they take.
_OF_WORDS = {"multinomial": "words", "text": "text"}


class NaiveBayes(BatchClassifier):
    """Naive Bayes with any density per column, fitted generatively, discriminatively or between.

    Parameters
    ----------
    density : {"auto", "gaussian", "bernoulli", "categorical", "poisson"}, Density or mapping, \
default="auto"
        What a column looks like within a class: one name or density object for all columns, or a
        mapping from column name or index to name or object (the other columns stay "auto").
        "auto" goes by the columns' types: text and categories are categorical, booleans and numbers
        that are two different ones in 20 or more cells Bernoulli, small whole numbers that vary as
        counts do Poisson, all else Gaussian. Where the tradeoff is chosen, too ("auto", "best"),
        evidence decides of columns of numbers (see Notes). `density_report_` says which and why.
    tradeoff : float, "auto" or "best", default="auto"
        λ: 1 fits the joint likelihood (textbook naive Bayes), 0 the conditional likelihood
        (logistic regression on the same statistics). "auto" pools a grid of λ, penalties and
        variances by their out-of-fold losses, "best" picks one point of it.
    shared_variance : bool, default=False
        Whether a Gaussian column has one variance for all classes; the posterior is then linear.
        If not, "auto" and "best" try both, a class's own variance with two pseudo-rows of the
        shared one.
    alpha : float, default=1.0
        Pseudo-count of the discrete densities (Laplace's smoothing).
    var_smoothing : float, default=1e-9
        Added to the variances of Gaussian columns, as a fraction of the column's own.
    l2 : float, default=1.0
        Strength of the penalty on the discriminative weights of the standardised statistics:
        1/C of scikit-learn's LogisticRegression. It enters with weight 1 - λ. "auto" and "best"
        try a tenth and ten times of it, too.
    class_prior : {"empirical", "uniform"}, array (n_classes,) or mapping, default="empirical"
        Class shares where the model will be used. Other than the data's they shift the posterior.
    handle_unknown : {"ignore", "error"}, default="ignore"
        A category not seen in fit is treated as missing, or refused.
    selection : {"log_loss", "brier", "error"} or array (n_classes, n_classes), default="log_loss"
        By which out-of-fold loss "best" picks; an array holds costs[true, decided], and decisions
        then are those of least expected cost. "auto" weighs by Brier score or log-loss.
    class_weight : mapping of label to weight, "balanced" or None, default=None
        Weights of the classes' rows, times `sample_weight`.
    interactions : None, "auto", int or list of (column, column), default=None
        Columns to derive that see what two columns say together: the product of two standardised
        numbers, or two categories as one. A number takes as many as tests of held-out residuals
        put first. "auto" takes up to ten that cannot be chance, and only where they lower the
        out-of-fold log-loss by more than its standard error; it fits the model twice. With derived
        columns the model is a posterior and no density of the table.
    thresholds : None, "auto", int or mapping of column to list of float, default=None
        Columns to derive that see where single numbers change what they say. A mapping gives the
        places of steps, x > t. A number and "auto" look for steps and for hinges, max(x - t, 0) or
        max(t - x, 0), at tenths of the rows, up to three per column; they are taken in as those of
        `interactions` are (of both together "auto" takes up to ten).
    unlabelled : None, "missing" or a label, default=None
        Which rows of fit have no label: those whose label is None, NaN or NA ("missing"), or is
        this value (-1, say). None refuses missing labels. Kinds of columns and categories are
        learnt from all rows, class shares (but for a `class_prior`) from labelled ones; words
        weighed by tf-idf, as where λ is chosen, too.
    unlabelled_weight : "auto" or float, default="auto"
        What such a row counts in the joint likelihood, where a labelled one counts 1. "auto" lets
        labelled rows out of fold decide between 0 and as much as gives all of them the weight of
        all labelled rows (at most 1 each).

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    class_count_ : ndarray of shape (n_classes,)
        Summed weights.
    class_prior_ : ndarray of shape (n_classes,)
    tradeoff_ : float
        The λ of the fit, of a pool the weighted mean.
    tradeoff_path_ : dict of ndarray
        Keys tradeoff, l2, variant (0: the wider family), weight, log_loss, brier, error (out of
        fold) and objective: a point of the grid each.
    selection_ : str
        Where the out-of-fold losses came from, what was chosen, and how flat the choice was. With
        `interactions` or `thresholds` "auto" or a number also how many derived columns were taken,
        by how much they moved the out-of-fold log-loss, or why there are none.
    posterior_scale_ : float
        Sum of the pool's weights: the power of the posterior, relative to the class shares.
    density_report_ : list of dict
        Each column's name, density, why it has it, and "by" what: type, given, evidence,
        near-zero variance or one value.
    interactions_, thresholds_ : list of str
        The derived columns, where `interactions` or `thresholds` asked for some.
    interaction_tests_, threshold_tests_ : list of dict
        The ten strongest candidates: ``column``, ``statistic`` (χ² of the residuals of held-out
        rows) and ``p_value``; a threshold's is that of the best of all places, beside those above
        it of the same column.
    schema_ : Schema
        Names, kinds and categories of the columns.
    density_ : Density
        The density bound to the data.
    parameters_ : Parameters
        Natural parameters and offsets by class.
    solution_ : Solution
        Why the solver stopped, and with what gradient norm.
    coef_, intercept_ : ndarray
        The posterior as a linear function of :meth:`sufficient_statistics`.
    class_densities_ : dict of label to ClassDensity
    unlabelled_weight_, n_unlabelled_ : float, int
        What a row without a label counts (of a pool the weighted mean, 0 where they did not help),
        and how many there were; where `unlabelled` is given.
    n_passes_ : int
        How often the rows were read, where they came in parts (:func:`crossfade.io.scan`, Dask).
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Where X has names.

    Notes
    -----
    The objective is λ times the joint plus 1 - λ times the conditional log-likelihood (Bouchard &
    Triggs 2004, equation 6), concave in the natural parameters where no cell is missing.

    Densities by evidence: numerical columns of 3 to 12 different whole numbers, 20 rows each and 10
    even without the commonest, get the density that predicts best out of fold. Other continuous
    ones, up to 20,000 rows, get Johnson's S_U (a Gaussian of asinh of the standardised column, for
    which no value is too far out) unless a Gaussian predicts clearly better. Where fewer than 20
    rows differ from the commonest value, classes share one variance.

    Missing cells: the factor is left out of the product at λ > 0; the fit is then followed down the
    path from λ = 1. At λ = 0 its statistics have their mean over the rows of fit. For a tradeoff
    between 0 and 1e-4 the fit at 1e-4 then stands, with a
    :class:`~crossfade.errors.TradeoffWarning`, and `tradeoff_` says so. A pool adds up what its
    members say of a missing cell. A column without any cell changes no posterior. Where λ is
    chosen, nor does a column whose type alone decided and which had one value in all rows of fit
    (at a given λ, 0/1 columns keep their smoothed shares).

    Rows without a label add λ γ Σ log Σ_k p_k f_k(x), γ being `unlabelled_weight_`, which EM climbs
    (Nigam, McCallum, Thrun & Mitchell 2000; Lasserre, Bishop & Minka 2006). At λ = 0 they have no
    part. At a given λ a γ above 0 is taken where labelled rows out of fold are clearly better
    predicted with it; pools with and without are averaged by their pseudo-Bayes factor (Geisser &
    Eddy 1979).

    References
    ----------
    Ng, A. Y. and Jordan, M. I. (2001). On discriminative vs. generative classifiers. NIPS 14.
    Bouchard, G. and Triggs, B. (2004). The tradeoff between generative and discriminative
    classifiers. COMPSTAT.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from crossfade import NaiveBayes
    >>> X, y = load_iris(return_X_y=True)
    >>> model = NaiveBayes(tradeoff=1).fit(X, y)
    >>> model.predict_proba(X[:1]).round(3)
    array([[1., 0., 0.]])
    """

    def __init__(
        self,
        density: str | Density | Text | Mapping[Any, str | Density | Text] = "auto",
        *,
        tradeoff: float | str = "auto",
        shared_variance: bool = False,
        alpha: float = 1.0,
        var_smoothing: float = 1e-9,
        l2: float = 1.0,
        class_prior: str | ArrayLike | Mapping[Any, float] = "empirical",
        handle_unknown: Literal["ignore", "error"] = "ignore",
        selection: str | ArrayLike = "log_loss",
        class_weight: Mapping[Any, float] | str | None = None,
        interactions: str | int | Sequence[tuple[Any, Any]] | None = None,
        thresholds: str | int | Mapping[Any, Sequence[float]] | None = None,
        unlabelled: Any = None,
        unlabelled_weight: str | float = "auto",
    ) -> None:
        self.density = density
        self.tradeoff = tradeoff
        self.shared_variance = shared_variance
        self.alpha = alpha
        self.var_smoothing = var_smoothing
        self.l2 = l2
        self.class_prior = class_prior
        self.handle_unknown = handle_unknown
        self.selection = selection
        self.class_weight = class_weight
        self.interactions = interactions
        self.thresholds = thresholds
        self.unlabelled = unlabelled
        self.unlabelled_weight = unlabelled_weight

    _takes_sparse = True
    _search: Search

    @property
    def _takes_signed(self) -> bool:
        """Whether a sparse table may hold negative numbers, as a logistic regression's may."""
        return _is_auto(self.density) and (isinstance(self.tradeoff, str) or self.tradeoff == 0)

    interactions_: list[str]
    thresholds_: list[str]
    interaction_tests_: list[dict[str, Any]]
    threshold_tests_: list[dict[str, Any]]

    def _fit(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None,
        groups: ArrayLike | None,
        fold: Integers | None = None,
    ) -> Floats | None:
        derives = derives_columns(self)
        if comes_in_parts(X) and isinstance(self.density, str) and self.density in _OF_WORDS:
            raise DataError(
                "density: expected densities of numbers and categories for rows that are read in "
                f"parts, got {self.density!r}; use 'poisson' for counts, or fit a table in memory"
            )
        for name in ("interactions_", "thresholds_", "interaction_tests_", "threshold_tests_"):
            self.__dict__.pop(name, None)  # an earlier fit's
        if derives is None:
            return super()._fit(X, y, sample_weight, groups, fold)
        if comes_in_parts(X):
            raise DataError(
                f"{derives}: expected None for rows that are read in parts, got "
                f"{getattr(self, derives)!r}; leave it out, or fit to a table in memory"
            )
        return fit_with_interactions(self, super()._fit, X, y, sample_weight, groups, fold)

    def _derives(
        self, rows: LabelledRows, schema: Schema, train: Integers | None
    ) -> Sequence[Derived]:
        return self._search.derives(rows, schema, train) if derives_columns(self) else ()

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_interactions(self)
        check_number("alpha", self.alpha, 0.0, "1 is Laplace's smoothing")
        check_number("var_smoothing", self.var_smoothing, 0.0, "1e-9 is the default")
        chosen = self.density
        given = list(chosen.values()) if isinstance(chosen, Mapping) else [chosen]
        for one in given:
            known = isinstance(one, str) and (one in ("auto", *DENSITIES, *_OF_WORDS))
            if not known and not isinstance(one, (Density, Text)):
                raise DataError(
                    f"density: expected 'auto', one of "
                    f"{', '.join(map(repr, (*DENSITIES, *_OF_WORDS)))}, a "
                    f"Density or a mapping of columns to these, got {one!r}; name a density"
                )
            if getattr(one, "complement", False) and self.tradeoff != 1:
                raise DataError(
                    f"tradeoff: expected 1 with Multinomial(complement=True), got {self.tradeoff!r}"
                    "; weights of complements define no density, which other tradeoffs start from: "
                    "give tradeoff=1, or Multinomial()"
                )

    def _declared_kinds(self, X: Any) -> Mapping[Any, str] | str | None:
        chosen = self.density
        if is_sparse(X) or getattr(X, "words", None) is not None:
            return "words"
        if isinstance(chosen, Mapping):
            if "words" in map(_kind, filter(lambda one: not _is_auto(one), chosen.values())):
                raise DataError(
                    "density: expected 'multinomial' for all columns or for none, got it for some "
                    f"({chosen!r}); use 'poisson' for single columns of counts"
                )
            return {
                column: _kind(one) for column, one in chosen.items() if not _is_auto(one)
            } or None
        return None if _is_auto(chosen) else _kind(chosen)

    def _choices(
        self,
        schema: Schema,
        rows: LabelledRows | None = None,
        groups: Integers | None = None,
        like: Sequence[ColumnChoice] | None = None,
    ) -> list[ColumnChoice]:
        given: dict[int, Any] = {}
        if schema.sparse:
            signed = ColumnChoice("all columns", "linear", Reason.TYPE)
            return [signed if schema.signed else self._word_choice()]
        if isinstance(self.density, Mapping):
            chosen = self.density.items()
            given = {schema.index(column): one for column, one in chosen if not _is_auto(one)}
        elif not _is_auto(self.density):
            # Derived columns have the density of their type.
            own = self.n_features_in_ if derives_columns(self) else schema.n_features
            given = dict.fromkeys(range(own), self.density)
        choices = by_type(schema.names, schema.kinds, given)
        if rows is None or not isinstance(self.tradeoff, str):
            return choices
        some = rows.at_hand
        return by_evidence(
            choices,
            some,
            groups,
            shared_variance=self.shared_variance,
            like=like,
            standing_for=rows.n_samples,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = _is_auto(self.density) or _is_of_words(self.density)
        return tags

    def _word_choice(self) -> ColumnChoice:
        """Return the one density of a sparse table's columns."""
        chosen, columns = self.density, "all columns"
        if _is_auto(chosen):
            return ColumnChoice(columns, "multinomial", Reason.TYPE)
        if _is_of_words(chosen):
            return ColumnChoice(columns, chosen, Reason.GIVEN)
        raise DataError(
            "density: expected 'multinomial', 'bernoulli', or an object of Multinomial or "
            f"BinaryWords for a sparse table, got {chosen!r}; choose one of these, or "
            "make the table dense where that fits in memory (X.toarray(), of a data frame "
            "X.sparse.to_dense())"
        )

    def _set_choices(self, choices: Sequence[ColumnChoice]) -> None:
        self.density_report_ = report_of(choices)

    def _density(self, schema: Schema, choices: Sequence[ColumnChoice]) -> Product:
        gaussian = Gaussian(self.shared_variance, self.var_smoothing)
        return product_of(schema, choices, gaussian, self.alpha)

    def _densities(self, schema: Schema, choices: Sequence[ColumnChoice]) -> list[Density]:
        one = Gaussian(True, self.var_smoothing)
        if of_words := variants(schema):
            return [product_of(schema, choices, one, self.alpha, words) for words in of_words]
        shared = product_of(schema, choices, one, self.alpha)
        # Of few rows a class's own variance may be nothing, and its posterior then certainty.
        gaussian = Gaussian(False, self.var_smoothing, SHRINKAGE_ROWS)
        own = product_of(schema, choices, gaussian, self.alpha)
        if self.shared_variance or _own_variances(own) == _own_variances(shared):
            return [shared]
        return [own, shared]

    def _grid(self, schema: Schema) -> Sequence[Points] | None:
        return [one.points for one in variants(schema)] or None

    def _kind_remedy(self, column: Any) -> str:
        return (
            "give the column a density of its own from the first batch on, for example "
            f"density={{{column!r}: 'gaussian'}}"
        )


def _own_variances(product: Product) -> int:
    """Return how many parts have a variance of each class."""
    parts = [part for part, _ in product.parts if isinstance(part, Gaussian)]
    return sum(not part.shared_variance for part in parts)


def _is_of_words(density: Any) -> TypeGuard[Multinomial | BinaryWords | str]:
    return isinstance(density, (Multinomial, BinaryWords)) or (
        isinstance(density, str) and density in ("multinomial", "bernoulli")
    )


def _is_auto(density: Any) -> bool:
    return isinstance(density, str) and density == "auto"


def _kind(density: str | Density | Text) -> Any:
    if isinstance(density, Text):
        return density
    if isinstance(density, str):
        return _OF_WORDS.get(density) or KIND_OF_DENSITY[density]
    return density.kind
