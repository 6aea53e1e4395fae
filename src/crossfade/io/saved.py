"""Models in files: skops archives with a description that anything can read.

A file is a zip archive. ``schema.json`` and the arrays beside it are skops' format, which holds
data and names of types, never code; no pickle is read or written. ``crossfade.json`` is the
description: version, columns with their kinds and categories, classes, how the model was trained.
"""

from __future__ import annotations

import hashlib
import io
import json
import warnings
import zipfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np
import scipy.sparse
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline

from crossfade._optional import import_optional, versions
from crossfade.errors import DataError
from crossfade.files import write_whole
from crossfade.io.reading import opened
from crossfade.io.trust import TRUSTED, check_trees, check_types
from crossfade.table.schema import Schema

_FORMAT: Final = "crossfade model"
_FORMAT_VERSION: Final = 1
_ABOUT: Final = "crossfade.json"

#: Rows that a model from a file is tried on, at most.
_TRIED_ROWS: Final = 256

#: Bytes that any file may unpack to, and how many times its own size a larger one may: zeros
#: can be packed a thousandfold, parameters of a model cannot.
_FREE_BYTES: Final = 1 << 26
_MOST_PACKED: Final = 100


@dataclass(frozen=True)
class SavedModel:
    """A model from a file.

    Attributes
    ----------
    estimator : estimator
        Fitted: one of Crossfade's classifiers, or a pipeline that ends in one.
    about : dict
        The file's description: ``crossfade`` (the version that wrote it), ``created``, ``model``,
        ``target``, ``classes``, ``columns`` (name, kind, categories), ``missing_values`` and
        ``training`` (whatever the writer gave).

    Examples
    --------
    >>> import tempfile
    >>> from crossfade import NaiveBayes
    >>> from crossfade.io import load_model, save_model
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model = NaiveBayes(tradeoff=1).fit([[0.1], [0.3], [2.2], [2.4]], ["a", "a", "b", "b"])
    ...     about = save_model(model, f"{folder}/model.skops", target="kind")
    ...     saved = load_model(f"{folder}/model.skops")
    >>> saved.estimator.predict([[2.0]]), saved.about["target"], saved.schema.kinds
    (array(['b'], dtype='<U1'), 'kind', ('continuous',))
    """

    estimator: Any
    about: dict[str, Any]

    @property
    def schema(self) -> Schema:
        """Names, kinds and categories of the columns of the table that the model takes."""
        return table_schema(self.estimator)


def table_schema(estimator: Any) -> Schema:
    """Return the schema of the table that a fitted estimator, or pipeline, takes."""
    first = estimator[0] if isinstance(estimator, Pipeline) else estimator
    schema = getattr(first, "schema_", None)
    if not isinstance(schema, Schema) or not hasattr(estimator, "classes_"):
        raise DataError(
            "estimator: expected a fitted classifier of Crossfade's, which knows the table's "
            f"columns, got {type(estimator).__name__}; fit it first, or, where a pipeline of your "
            "own prepares the table, save the whole with skops.io.dump or joblib"
        )
    return schema


def save_model(
    estimator: Any,
    path: str | Path,
    *,
    model: str | None = None,
    target: str | None = None,
    missing_values: Collection[str] = (),
    training: Mapping[str, Any] | None = None,
    trusted: Collection[str] = (),
) -> dict[str, Any]:
    """Write a fitted model to a file, as a whole or not at all.

    Parameters
    ----------
    estimator : estimator
        A fitted classifier of Crossfade's, or a pipeline of a
        :class:`~crossfade.table.preparation.Preparation` and one.
    path : str or Path
        By custom ending in .skops. A file that is there is replaced.
    model : str, optional
        What to call the model; its class by default.
    target : str, optional
        Name of the column that it predicts.
    missing_values : collection of str, default=()
        Cells that mean missing in the tables it reads, besides empty ones.
    training : mapping, optional
        What a reader should know of the training; must be fit for JSON.
    trusted : collection of str, default=()
        Types besides Crossfade's own that the estimator holds (a density or a column classifier
        of yours), as ``module.Class``; loading the file will need them again.

    Returns
    -------
    dict
        The description that was written.

    Raises
    ------
    DataError
        If the estimator is not fitted, or holds a type that is not trusted.
    MissingExtraError
        If skops is not installed.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_iris
    >>> from crossfade import NaiveBayes
    >>> from crossfade.io import load_model, save_model
    >>> X, y = load_iris(return_X_y=True)
    >>> model = NaiveBayes(tradeoff=1).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     about = save_model(model, Path(folder, "iris.skops"))
    ...     again = load_model(Path(folder, "iris.skops"))
    >>> bool((again.estimator.predict(X) == model.predict(X)).all())
    True
    >>> again.about["classes"]
    [0, 1, 2]
    """
    schema = table_schema(estimator)
    about = {
        "format": _FORMAT,
        "format_version": _FORMAT_VERSION,
        **versions(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "model": model or type(estimator).__name__,
        "target": target,
        "classes": estimator.classes_.tolist(),
        "columns": [_column(schema, index) for index in range(schema.n_features)],
        "missing_values": sorted(missing_values),
        "training": dict(training or {}),
    }
    content = io.BytesIO()
    import_skops().dump(estimator, content, compression=zipfile.ZIP_DEFLATED)
    with zipfile.ZipFile(content, "a", compression=zipfile.ZIP_DEFLATED) as archive:
        check_types(json.loads(archive.read("schema.json")), "estimator", trusted)
        about["sha256"] = _digest(archive)
        archive.writestr(_ABOUT, json.dumps(about, indent=1, allow_nan=False))
    write_whole(Path(path), content.getvalue())
    return about


def _column(schema: Schema, index: int) -> dict[str, Any]:
    known = schema.categories[index]
    described = {"name": schema.names[index], "kind": schema.kinds[index]}
    return described if known is None else described | {"categories": list(known)}


def load_model(path: str | Path, *, trusted: Collection[str] = ()) -> SavedModel:
    """Read a model from a file; nothing that the file says is run.

    Parameters
    ----------
    path : str or Path
        A file from :func:`save_model` or ``crossfade fit``.
    trusted : collection of str, default=()
        Types to accept besides those that Crossfade's own models are made of, as
        ``module.Class``. Name none that you do not know.

    Returns
    -------
    SavedModel

    Raises
    ------
    DataError
        If there is no such file, it is damaged or something else, it was written by a newer
        format, or it holds a type that is not trusted: the type is named.
    MissingExtraError
        If skops is not installed.

    Examples
    --------
    >>> import tempfile
    >>> from crossfade import NaiveBayes
    >>> from crossfade.io import load_model, save_model
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model = NaiveBayes(tradeoff=1).fit([[0.1], [0.3], [2.2], [2.4]], ["a", "a", "b", "b"])
    ...     _ = save_model(model, f"{folder}/model.skops")
    ...     load_model(f"{folder}/model.skops").estimator.predict([[2.0]])
    array(['b'], dtype='<U1')
    """
    skops = import_skops()
    place = str(path)
    with opened(Path(path)) as file:
        raw = file.read()
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            size = sum(part.file_size for part in archive.infolist())
            if size > max(_FREE_BYTES, _MOST_PACKED * len(raw)):
                raise ValueError("more would be unpacked than parameters can be packed")
            about = json.loads(archive.read(_ABOUT))
            schema = json.loads(archive.read("schema.json"))
            digest = _digest(archive)
    except Exception:  # whatever zipfile, its decompressors and JSON make of damaged bytes
        raise DataError(
            f"{place}: expected a model file that crossfade fit wrote, got something else or a "
            "damaged file; pickles and joblib files are never read"
        ) from None
    _check_about(about, place)
    check_types(schema, place, trusted)
    other = DataError(
        f"{place}: expected a description that agrees with its model, got another; the file is "
        "damaged or has been changed: fit the model again"
    )
    if about.get("sha256", digest) != digest:
        raise other
    try:
        with warnings.catch_warnings():
            # The file's versions are in its description; what fails to load is reported below.
            warnings.simplefilter("ignore")
            estimator = skops.loads(raw, trusted=[*TRUSTED, *trusted])
            found = table_schema(estimator)
            columns = [_column(found, index) for index in range(found.n_features)]
            agrees = columns == about["columns"] and estimator.classes_.tolist() == about["classes"]
            if agrees:
                check_trees(estimator)
                _try_out(estimator, found)
    except Exception as error:  # whatever damaged data make of the building
        text = " ".join(str(error).split())[:200]
        raise DataError(
            f"{place}: expected a model of crossfade {about['crossfade']}, got data that make none "
            f"in this version, {version('crossfade')} ({type(error).__name__}: {text}); fit it "
            "again"
        ) from None
    if not agrees or not is_classifier(estimator):
        raise other
    return SavedModel(estimator, about)


def _digest(archive: zipfile.ZipFile) -> str:
    """Return what tells one model's data from another's: SHA-256 of all parts that are skops'."""
    digest = hashlib.sha256()
    for name in sorted({*archive.namelist()} - {_ABOUT}):
        content = archive.read(name)
        digest.update(f"{name} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def _try_out(estimator: Any, schema: Schema) -> None:
    """Raise an error where a model has no posteriors: its arrays do not fit each other."""
    sizes = [1 if known is None else len(known) for known in schema.categories]
    codes = np.zeros((min(max(sizes), _TRIED_ROWS), schema.n_features))
    for column, size in zip(codes.T, sizes, strict=True):
        # Every category once; nothing in a column of text that had no cell.
        column[:] = np.minimum(np.arange(len(codes)), size - 1) if size else np.nan
    density = getattr(estimator, "density_", None)
    if schema.sparse:
        table = scipy.sparse.csr_array(codes)
    else:
        if isinstance(estimator, Pipeline) or (density is not None and density.allows_missing):
            codes = np.vstack([codes, np.full(schema.n_features, np.nan)])
        table = np.array(schema.decode(codes), dtype=object).T
    posterior = estimator.predict_proba(table)
    expected = len(codes), len(estimator.classes_)
    if posterior.shape != expected or not np.allclose(posterior.sum(axis=1), 1.0):
        raise ValueError("its probabilities do not sum to 1")


def _check_about(about: Any, place: str) -> None:
    if not isinstance(about, dict) or about.get("format") != _FORMAT:
        raise DataError(f"{place}: expected the description of a model, got something else")
    if about.get("format_version") != _FORMAT_VERSION:
        raise DataError(
            f"{place}: expected a model file of format {_FORMAT_VERSION}, got "
            f"{about.get('format_version')!r}, written by crossfade {about.get('crossfade')}; "
            "use that version"
        )
    known: dict[str, Any] = {"crossfade": str, "model": str, "classes": list, "columns": list}
    known |= {"missing_values": list, "training": dict, "target": (str, type(None))}
    wrong = [key for key, kind in known.items() if not isinstance(about.get(key, 0), kind)]
    if not wrong and not all(isinstance(cell, str) for cell in about["missing_values"]):
        wrong = ["missing_values"]
    if wrong:
        raise DataError(
            f"{place}: expected a whole description, got none of {', '.join(wrong)}; the file is "
            "damaged: fit the model again"
        )


def import_skops() -> Any:
    """Return the module skops.io."""
    return import_optional("skops.io", "model files")
