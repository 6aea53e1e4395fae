from __future__ import annotations

import io
import json
import os
import pickle
import re
import zipfile
from itertools import cycle
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import skops.io
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from crossfade import EntropicNaiveBayes, GaussianDiscriminant, NaiveBayes
from crossfade.errors import DataError
from crossfade.io import load_model, save_model
from crossfade.table.preparation import Preparation
from tests.densities.cases import Exponential
from tests.io.tables import mixed_table, numbers

MODELS = {
    "naive Bayes generative": lambda: NaiveBayes(tradeoff=1),
    "naive Bayes auto": lambda: NaiveBayes(),
    "naive Bayes discriminative": lambda: NaiveBayes(tradeoff=0, shared_variance=True),
    "naive Bayes by name": lambda: NaiveBayes({"age": "gaussian"}, tradeoff=0.5),
    "weights of classes": lambda: NaiveBayes(tradeoff=1, class_weight={"no": 2.0, "yes": 1.0}),
    "costs": lambda: NaiveBayes(tradeoff=1, selection=np.array([[0.0, 5.0], [1.0, 0.0]])),
    "prior": lambda: NaiveBayes(tradeoff=0.5, class_prior=[0.3, 0.7]),
}
GAUSSIANS = ["shared", "full", "diagonal", "shared_diagonal", "spherical", "shared_spherical"]


def saved_and_loaded(model, tmp_path, **options):
    path = tmp_path / "model.skops"
    save_model(model, path, **options)
    assert os.listdir(tmp_path) == ["model.skops"]
    return load_model(path, trusted=options.get("trusted", ()))


@pytest.mark.filterwarnings("ignore::crossfade.errors.TradeoffWarning")
@pytest.mark.parametrize("name", MODELS)
def test_a_model_from_its_file_is_the_same_model(name, tmp_path):
    table, y = mixed_table()
    model = MODELS[name]().fit(table, y)
    saved = saved_and_loaded(model, tmp_path)
    np.testing.assert_array_equal(saved.estimator.predict_proba(table), model.predict_proba(table))
    np.testing.assert_array_equal(saved.estimator.predict(table), model.predict(table))
    np.testing.assert_array_equal(saved.estimator.coef_, model.coef_)
    assert saved.schema == model.schema_
    drawn, labels = saved.estimator.sample(3, random_state=0)
    assert drawn.equals(model.sample(3, random_state=0)[0])
    assert list(labels) == list(model.sample(3, random_state=0)[1])


@pytest.mark.parametrize("covariance", GAUSSIANS)
@pytest.mark.parametrize(
    "options", [{"tradeoff": 0.5}, {"tradeoff": 1, "components": 2, "n_init": 1}]
)
def test_gaussians_from_their_files(covariance, options, tmp_path):
    X, y = numbers()
    model = GaussianDiscriminant(covariance, **options).fit(X, y)
    saved = saved_and_loaded(model, tmp_path)
    np.testing.assert_array_equal(saved.estimator.predict_proba(X), model.predict_proba(X))


def test_a_pipeline_from_its_file(tmp_path):
    table, y = mixed_table()
    model = make_pipeline(Preparation(drop_first=True), GaussianDiscriminant(tradeoff=0.5))
    model.fit(table, y)
    saved = saved_and_loaded(model, tmp_path)
    np.testing.assert_array_equal(saved.estimator.predict_proba(table), model.predict_proba(table))
    assert saved.schema.names == tuple(table.columns)


def test_a_loaded_generative_fit_goes_on_learning(tmp_path):
    table, y = mixed_table()
    model = NaiveBayes(tradeoff=1).partial_fit(table[:100], y[:100])
    again = saved_and_loaded(model, tmp_path).estimator
    again.partial_fit(table[100:], y[100:])
    np.testing.assert_allclose(
        again.predict_proba(table),
        NaiveBayes(tradeoff=1).partial_fit(table[:100], y[:100]).partial_fit(table[100:], y[100:])
        .predict_proba(table),
        rtol=1e-12,
    )  # fmt: skip


def test_the_description_can_be_read_by_anything(tmp_path):
    table, y = mixed_table()
    path = tmp_path / "model.skops"
    save_model(
        NaiveBayes(tradeoff=1).fit(table, y),
        path,
        model="mine",
        target="bought",
        missing_values=["999"],
        training={"rows": 200},
    )
    about = json.loads(zipfile.ZipFile(path).read("crossfade.json"))
    assert about == load_model(path).about
    assert {key: about[key] for key in ("model", "target", "classes", "training")} == {
        "model": "mine",
        "target": "bought",
        "classes": ["no", "yes"],
        "training": {"rows": 200},
    }
    assert about["missing_values"] == ["999"]
    assert about["columns"] == [
        {"name": "age", "kind": "continuous"},
        {"name": "visits", "kind": "count"},
        {"name": "member", "kind": "boolean"},
        {"name": "town", "kind": "categorical", "categories": ["Bern", "Oslo", "Rome"]},
    ]


def test_a_type_of_ones_own_must_be_named(tmp_path):
    X, y = numbers()
    X = np.abs(X) + 0.1
    model = NaiveBayes(Exponential(), tradeoff=1).fit(X, y)
    name = f"{Exponential.__module__}.Exponential"
    with pytest.raises(DataError, match=f"expected only types .* got {name}; nothing was loaded"):
        save_model(model, tmp_path / "own.skops")
    assert not os.listdir(tmp_path)


def test_classifiers_of_columns_must_be_named(tmp_path):
    X, y = numbers()
    model = EntropicNaiveBayes(GaussianNB()).fit(X, y)
    with pytest.raises(DataError, match=r"got sklearn\.naive_bayes\.GaussianNB"):
        save_model(model, tmp_path / "own.skops")
    trusted = ["sklearn.naive_bayes.GaussianNB"]
    saved = saved_and_loaded(model, tmp_path, trusted=trusted)
    np.testing.assert_array_equal(saved.estimator.predict_proba(X), model.predict_proba(X))
    with pytest.raises(DataError, match="expected only types"):
        load_model(tmp_path / "model.skops")


# -- hostile files ---------------------------------------------------------------------------------


def archive(path: Path, change) -> Path:
    """Write a good model whose parts went through `change`, a function of name and content.

    Its description says nothing of what the file should hold, as one who forges a file can have it.
    """
    X, y = numbers()
    save_model(NaiveBayes(tradeoff=1).fit(X, y), path)
    with zipfile.ZipFile(path) as old:
        parts = {name: old.read(name) for name in old.namelist()}
    parts["crossfade.json"] = without_digest(parts["crossfade.json"])
    with zipfile.ZipFile(path, "w") as new:
        for name, content in parts.items():
            new.writestr(name, change(name, content))
    return path


def without_digest(about: bytes) -> bytes:
    content = json.loads(about)
    del content["sha256"]
    return json.dumps(content).encode()


class Exploit:
    def __reduce__(self):
        return (os.mkdir, ("exploited",))


@pytest.mark.parametrize("kind", ["pickle", "text", "empty", "zip", "skops"])
def test_other_files_are_refused_and_nothing_is_run(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "model.skops"
    if kind == "zip":
        zipfile.ZipFile(path, "w").close()
    elif kind == "skops":
        skops.io.dump({"a": 1}, path)
    else:
        path.write_bytes({"pickle": pickle.dumps(Exploit()), "text": b"a,b\n1,2\n"}.get(kind, b""))
    with pytest.raises(DataError, match="expected a model file that crossfade fit wrote"):
        load_model(path)
    assert os.listdir(tmp_path) == ["model.skops"]


NODE = {"__class__": "system", "__module__": "os", "__loader__": "FunctionNode"}


@pytest.mark.parametrize(
    ("node", "name"),
    [
        (NODE, "os.system"),
        (NODE | {"__loader__": "TypeNode"}, "os.system"),
        ({"__class__": "RandomState", "__module__": "numpy.random.mtrand",
          "__loader__": "RandomStateNode"}, "numpy.random.mtrand.RandomState"),
        # What skops trusts by itself is not trusted here.
        ({"__class__": "LogisticRegression", "__module__": "sklearn.linear_model._logistic",
          "__loader__": "ObjectNode"}, "sklearn.linear_model._logistic.LogisticRegression"),
        ({"__class__": "system\x1b[31m\n", "__module__": "os", "__loader__": "ObjectNode"},
         r"os.system\x1b[31m\n"),
        ({"__class__": "NaiveBayes", "__loader__": "ObjectNode"}, "None.NaiveBayes"),
    ],
)  # fmt: skip
def test_an_untrusted_type_is_refused_by_name(tmp_path, node, name):
    def change(part, content):
        if part != "schema.json":
            return content
        schema = json.loads(content)
        schema["content"]["content"]["extra"] = node
        return json.dumps(schema)

    path = archive(tmp_path / "model.skops", change)
    with pytest.raises(DataError) as caught:
        load_model(path)
    assert f"made of, got {name}; nothing was loaded" in str(caught.value)


def test_ways_of_building_that_run_something_are_refused(tmp_path):
    def change(part, content):
        if part != "schema.json":
            return content
        schema = json.loads(content)
        schema["content"]["content"]["extra"] = {
            "__class__": "dict", "__module__": "builtins",
            "__loader__": "ConstructorFromReduceNode", "content": {},
        }  # fmt: skip
        return json.dumps(schema)

    path = archive(tmp_path / "model.skops", change)
    with pytest.raises(DataError, match="got one that is built by ConstructorFromReduceNode"):
        load_model(path)


@pytest.mark.parametrize(
    ("part", "change", "message"),
    [
        ("crossfade.json", lambda a: a | {"format_version": 9}, "format 1, got 9, written by"),
        ("crossfade.json", lambda a: a | {"format": "x"}, "expected the description of a model"),
        ("crossfade.json", lambda a: [], "expected the description of a model"),
        ("crossfade.json", lambda a: {**a, "classes": None}, "got none of classes"),
        ("crossfade.json", lambda a: {k: a[k] for k in a if k != "target"}, "none of target"),
        ("crossfade.json", lambda a: {**a, "missing_values": [9]}, "got none of missing_values"),
        ("crossfade.json", lambda a: {**a, "classes": [1, 2]}, "a description that agrees"),
        ("crossfade.json", lambda a: {**a, "columns": []}, "a description that agrees"),
        ("schema.json", lambda a: a | {"content": None}, "got data that make none"),
        ("schema.json", lambda a: {}, "got data that make none"),
        ("schema.json", lambda a: a | {"protocol": "x"}, "got data that make none"),
    ],
)
def test_damaged_descriptions_are_refused(tmp_path, part, change, message):
    path = archive(
        tmp_path / "model.skops",
        lambda name, old: json.dumps(change(json.loads(old))) if name == part else old,
    )
    with pytest.raises(DataError, match=message):
        load_model(path)


def test_arrays_that_hold_pickles_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    evil = io.BytesIO()
    np.save(evil, np.array([Exploit()], dtype=object), allow_pickle=True)
    path = archive(
        tmp_path / "model.skops",
        lambda name, old: evil.getvalue() if name.endswith(".npy") else old,
    )
    with pytest.raises(DataError, match="got data that make none"):
        load_model(path)
    assert os.listdir(tmp_path) == ["model.skops"]


def written(array: np.ndarray) -> bytes:
    content = io.BytesIO()
    np.save(content, array)
    return content.getvalue()


ARRAY_CHANGES = {
    "longer": lambda a: np.concatenate([a, a]) if a.ndim else np.stack([a, a]),
    "shorter": lambda a: a[:-1] if a.ndim else a.reshape(1),
    "text": lambda a: a.astype(str),
    "other values": lambda a: ~a if a.dtype.kind == "b" else -a - 7,
    "not numbers": lambda a: np.full(a.shape, np.nan),
}


def changed_arrays(raw: bytes, *changes, unsigned: bool = False) -> list[bytes]:
    """Return the model file once for each of its arrays, with that one changed, in turn so.

    Where it is unsigned, the description says nothing of what the file should hold.
    """
    with zipfile.ZipFile(io.BytesIO(raw)) as old:
        parts = {name: old.read(name) for name in old.namelist()}
    if unsigned:
        parts["crossfade.json"] = without_digest(parts["crossfade.json"])
    files = []
    for name, change in zip(parts, cycle(changes), strict=False):
        if name.endswith(".npy"):
            other = written(change(np.load(io.BytesIO(parts[name]))))
            if other != parts[name]:
                files.append(rewritten(parts | {name: other}))
    return files


def rewritten(parts: dict[str, bytes]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as new:
        for name, part in parts.items():
            new.writestr(name, part)
    return content.getvalue()


def test_a_change_of_any_array_is_noticed(tmp_path):
    X, y = mixed_table(60)
    path = tmp_path / "model.skops"
    save_model(NaiveBayes(tradeoff=1).fit(X, y), path)
    changes = ARRAY_CHANGES["longer"], ARRAY_CHANGES["other values"]
    files = changed_arrays(path.read_bytes(), *changes)
    assert len(files) > 100
    for raw in files:
        path.write_bytes(raw)
        with pytest.raises(DataError, match=r"got another; the file is damaged or has been"):
            load_model(path)


@pytest.mark.parametrize(
    ("changes", "pipeline"),
    [
        (["shorter", "text", "not numbers", "longer"], True),
        *(
            pytest.param([change], pipeline, marks=pytest.mark.slow)
            for change, pipeline in (("shorter", False), ("text", True), ("not numbers", True))
        ),
    ],
)
def test_arrays_that_do_not_fit_are_refused_whatever_the_description_says(
    tmp_path, changes, pipeline
):
    X, y = mixed_table(60)
    model = NaiveBayes(tradeoff=1)
    if pipeline:
        model = make_pipeline(Preparation(), GaussianDiscriminant(tradeoff=1))
    path = tmp_path / "model.skops"
    save_model(model.fit(X, y), path)
    refused = 0
    others = (ARRAY_CHANGES[change] for change in changes)
    for raw in changed_arrays(path.read_bytes(), *others, unsigned=True):
        path.write_bytes(raw)
        try:
            loaded = load_model(path).estimator
        except DataError as error:
            assert "got data that make none" in str(error)  # noqa: PT017
            refused += 1
        else:
            # Not of use for posteriors; what is handed out has them.
            assert np.isfinite(loaded.predict_proba(X)).all()
    assert refused > 3


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_a_file_cut_short_is_refused(tmp_path, share):
    path = archive(tmp_path / "model.skops", lambda name, old: old)
    raw = path.read_bytes()
    path.write_bytes(raw[: int(share * len(raw))])
    with pytest.raises(DataError, match="got something else or a damaged file"):
        load_model(path)


def _kinds_of_places(raw):
    """Return some positions of every kind of bytes that a zip archive has."""
    rng = np.random.default_rng(0)
    directory = raw.index(b"PK\x01\x02")
    end = raw.index(b"PK\x05\x06")
    starts = [match.start() for match in re.finditer(rb"PK\x03\x04", raw)]
    return {
        "local headers": [start + k for start in starts[:2] for k in range(30)],
        "packed data": rng.choice(directory, size=80, replace=False).tolist(),
        "directory": [*range(directory, directory + 46), *rng.choice(range(directory, end), 30)],
        "end of the archive": range(end, len(raw)),
    }


@pytest.mark.parametrize(
    "kind", ["local headers", "packed data", "directory", "end of the archive"]
)
def test_a_flipped_bit_is_refused_by_name_or_changes_nothing(tmp_path, kind):
    X, y = numbers()
    model = NaiveBayes(tradeoff=1).fit(X, y)
    path = tmp_path / "model.skops"
    save_model(model, path)
    raw = path.read_bytes()
    refused = 0
    for number, place in enumerate(_kinds_of_places(raw)[kind]):
        changed = bytearray(raw)
        changed[place] ^= 1 << number % 8
        path.write_bytes(changed)
        try:
            saved = load_model(path)
        except DataError as error:
            refused += 1
            assert str(error).startswith(str(path))  # noqa: PT017
        else:  # a name or a date that is written twice in the archive
            np.testing.assert_array_equal(saved.estimator.predict_proba(X), model.predict_proba(X))
    assert refused > 0


def test_a_file_that_unpacks_to_far_more_than_parameters_can_is_not_unpacked(tmp_path, monkeypatch):
    path = tmp_path / "bomb.skops"
    with zipfile.ZipFile(path, "w", compression=zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("crossfade.json", "{}")
        with archive.open("schema.json", "w") as part:
            for _ in range(80):
                part.write(bytes(1 << 20))
    monkeypatch.setattr(zipfile.ZipFile, "read", lambda *a: pytest.fail("was unpacked"))
    with pytest.raises(DataError, match="expected a model file that crossfade fit wrote"):
        load_model(path)


def test_an_endless_file_is_refused_unread():
    with pytest.raises(DataError, match="expected a file, got a device"):
        load_model("/dev/zero")


def test_no_file_a_folder_and_no_model(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        load_model(tmp_path / "none.skops")
    with pytest.raises(DataError, match="got a folder"):
        load_model(tmp_path)
    own = make_pipeline(StandardScaler(), NaiveBayes(tradeoff=1)).fit(*numbers())
    with pytest.raises(DataError, match="got Pipeline; fit it first, or, where a pipeline of your"):
        save_model(own, tmp_path / "x.skops")
    for thing in (NaiveBayes(), GaussianNB().fit(*numbers()), 3):
        with pytest.raises(DataError, match="expected a fitted classifier of Crossfade's"):
            save_model(thing, tmp_path / "x.skops")


def test_a_file_that_was_there_is_left_when_writing_fails(tmp_path, monkeypatch):
    path = tmp_path / "model.skops"
    path.write_text("before")
    monkeypatch.setattr("os.replace", lambda *names: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        save_model(NaiveBayes(tradeoff=1).fit(*numbers()), path)
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["model.skops"]


def test_hostile_names_and_labels_come_back_as_they_were(tmp_path):
    names = [
        "<script>alert(1)</script>",
        'quo"te,',
        "new\nline",
        "x" * 300,
        "😀\x1b[31m",
        "__class__",
    ]
    rng = np.random.default_rng(0)
    y = np.array(["", "a\nb"], dtype=object)[rng.integers(2, size=60)]
    table = pl.DataFrame({name: rng.choice(["", "</b>", "é"], 60) for name in names})
    model = NaiveBayes(dict.fromkeys(names, "categorical"), tradeoff=1).fit(table, y)
    saved = saved_and_loaded(model, tmp_path)
    assert [column["name"] for column in saved.about["columns"]] == names
    np.testing.assert_array_equal(saved.estimator.predict_proba(table), model.predict_proba(table))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_model_that_warned_when_fitted_can_be_loaded(tmp_path):
    x = np.linspace(-1.0, 1.0, 40)[:, None]
    separated = NaiveBayes(tradeoff=0, l2=0, shared_variance=True).fit(x, x[:, 0] > 0)
    gaps = NaiveBayes(tradeoff=0).fit(np.where(np.abs(x) < 0.1, np.nan, x), x[:, 0] > 0.3)
    assert separated._fitted.warnings
    for model in (separated, gaps):
        loaded = saved_and_loaded(model, tmp_path).estimator
        np.testing.assert_array_equal(loaded.predict_proba(x), model.predict_proba(x))
