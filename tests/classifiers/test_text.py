"""Columns of free text: recognised, cut into words, one more factor beside numbers."""

from __future__ import annotations

import json
import re
import time

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from numpy.testing import assert_allclose
from scipy.special import log_softmax
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.naive_bayes import MultinomialNB

from crossfade import GaussianDiscriminant, NaiveBayes, Text, cli, compare, explain, learning_curve
from crossfade.densities import Multinomial
from crossfade.errors import DataError, NotADensityError
from crossfade.evaluation.evaluation import Evaluator
from crossfade.io import load_model, save_model
from crossfade.pools.boosting import Boosting
from crossfade.table import Schema
from crossfade.table.documents import word_counts
from crossfade.table.preparation import Indicators, WithWords
from crossfade.tradeoff import choosing, selection
from crossfade.tradeoff.scoring import Scorer

GOOD = ["a joy to read", "great fun for all!", "I love this great book", "a great story, well told"]
BAD = ["dull and far too long", "no fun at all", "I hate this long book", "a story badly told"]
ENDS = ["", " indeed", " again", " today", " 😀", " really, really", " سعيد جدا", " for me"]


def reviews(n: int = 64, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    ends = [ENDS[i] for i in rng.integers(0, len(ENDS), n)]
    texts = [
        (GOOD if label else BAD)[rng.integers(4)] + end for label, end in zip(y, ends, strict=True)
    ]
    texts = [f"{text} {i}" for i, text in enumerate(texts)]  # all differ
    frame = {"review": texts, "stars": rng.normal(size=n) + y, "town": rng.choice(["A", "B"], n)}
    return pd.DataFrame(frame | {"id": [f"u{i:04d}" for i in range(n)]}), y


@pytest.mark.parametrize("gaps", [["stars"], ["town"], ["stars", "town", "review"]])
def test_the_pool_says_of_missing_cells_beside_text_what_its_members_say(monkeypatch, gaps):
    X, y = reviews(96)
    rng, pools = np.random.default_rng(2), []
    X["size"], X["colour"] = rng.normal(size=96), rng.choice(["r", "g", "b"], 96)
    for name in gaps:
        X.loc[rng.random(96) < 0.3, name] = None
    polish = choosing.polish

    def noted(chosen):
        pools.append(polish(chosen))
        return pools[-1]

    monkeypatch.setattr(choosing, "polish", noted)
    model = NaiveBayes().fit(X, y)
    (pool,) = pools
    log_prior = np.log(np.bincount(y) / len(y))
    scores = log_prior + np.zeros((len(y), 1))
    for member, weight in zip(pool.members, pool.weights, strict=True):
        at = member.objective
        own = at.parameters(member.point.solution.theta)
        scorer = Scorer(at.density, own, at.density.log_partition(own.natural))
        scores += pool.scale * weight * (scorer.all_rows(at.rows.X, joint=False) - log_prior)
    assert len({member.objective.density.n_factors for member in pool.members}) > 1
    assert_allclose(model.predict_log_proba(X), log_softmax(scores, axis=1), atol=1e-6)
    found = explain(model, X)
    total = found.baseline + found.contributions.sum(axis=1)
    assert_allclose(np.diff(total), np.diff(model.predict_log_proba(X)), atol=1e-6)


def test_kinds_of_columns_of_words():
    X, _ = reviews()
    schema = Schema.learn(X)
    assert schema.kinds == ("text", "continuous", "categorical", "identifier")
    assert Schema.learn(X[:4]).kinds[0] == "categorical"  # too few cells to tell
    assert Schema.learn(pd.concat([X] * 3)).kinds[0] == "categorical"  # most cells repeat
    assert Schema.learn(X, {"town": "text"}).kinds[2] == "text"
    assert {"great", "!", "😀", "سعيد", "great fun"} <= set(schema.categories[0])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("don't_x, 2nd!", ["don", "'", "t_x", ",", "2nd", "!"]),
        ("这部电影OK, 很好", [*"这部电影", "OK", ",", *"很好"]),
        ("コーヒーは好き", [*"コーヒーは好き"]),
        ("สวัสดี", [*"สวัสดี"]),
        ("한국어 좋아요", ["한국어", "좋아요"]),
        ("हिन्दी अच्छी है।", ["हिन्दी", "अच्छी", "है", "।"]),
        ("cafe\u0301 e\u0301té", ["cafe\u0301", "e\u0301té"]),
        ("كِتَاب جميل", ["كِتَاب", "جميل"]),
        ("می\u200cخواهم", ["می\u200cخواهم"]),
        ("👍🏽 ❤", ["👍", "🏽", "❤"]),
    ],
)
def test_words_of_other_scripts_are_those_that_readers_see(text, words):
    found, _ = Text(ngram_range=(1, 1)).learn([text], "")
    assert found == tuple(sorted({word.lower() for word in words}))


#: Texts that are told apart by few words, whatever follows them.
SPEAKERS = {
    "Chinese": ("这部电影很好看", "这部电影很难看", ""),
    "Japanese": ("とても面白い映画", "つまらない映画だった", ""),
    "Thai": ("หนังเรื่องนี้ดีมาก", "หนังเรื่องนี้แย่มาก", ""),
    "Arabic": ("فيلم رائع جدا", "فيلم سيئ جدا", " "),
    "two words": ("great phone", "bad phone", " "),
    "hashtags": ("#great #phone", "#bad #phone", " "),
}


@pytest.mark.parametrize(("good", "bad", "space"), SPEAKERS.values(), ids=list(SPEAKERS))
def test_texts_without_spaces_and_of_two_words_are_read(good, bad, space):
    y = np.arange(60) % 2
    X = pd.DataFrame({"said": [f"{(bad, good)[k]}{space}{i * i}" for i, k in enumerate(y)]})
    assert Schema.learn(X).kinds == ("text",)
    assert (NaiveBayes().fit(X[:40], y[:40]).predict(X[40:]) == y[40:]).all()


@pytest.mark.parametrize(
    "cells",
    [
        lambda i: f"INV {i:05d}",
        lambda i: f"{i * 7919} kg",
        lambda i: f"user{i}",
        lambda i: f"{i:032x}",
        lambda i: f"京A{i:05d}",
    ],
)
def test_names_of_rows_that_share_a_word_are_no_text(cells):
    X = pd.DataFrame({"id": [cells(i) for i in range(60)]})
    assert Schema.learn(X).kinds == ("identifier",)


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, lambda X: X.to_numpy(object)])
def test_words_alone_are_textbook_naive_bayes_and_logistic_regression(library):
    X, y = reviews()
    text = Text(ngram_range=(1, 1), min_df=2, token_pattern=r"\w+")
    table = library(X[["review"]])
    counts = CountVectorizer(token_pattern=r"\w+", min_df=2, binary=True).fit_transform(X.review)
    for tradeoff, rival in ((1, MultinomialNB()), (0, LogisticRegression(tol=1e-12))):
        model = NaiveBayes(text, tradeoff=tradeoff).fit(table, y)
        expected = rival.fit(counts, y).predict_proba(counts)
        assert_allclose(model.predict_proba(table), expected, atol=1e-6)


def test_a_column_of_text_is_one_more_factor():
    X, y = reviews()
    whole = NaiveBayes(tradeoff=1, shared_variance=True).fit(X, y)
    alone = [NaiveBayes(tradeoff=1, shared_variance=True).fit(X[[name]], y) for name in X.columns]
    prior = np.log(np.bincount(y) / len(y))
    each = zip(alone, X.columns, strict=True)
    joint = prior + sum(model.predict_log_proba(X[[name]]) - prior for model, name in each)
    joint -= np.logaddexp.reduce(joint, axis=1, keepdims=True)
    assert_allclose(whole.predict_log_proba(X), joint, atol=1e-10)
    assert whole.density_report_[3]["density"] == "none"
    assert "a value of its own, or a date or time: left out" in whole.density_report_[3]["reason"]


def test_identifiers_say_nothing():
    X, y = reviews()
    other = X.assign(id=X.id[::-1].to_numpy())
    for tradeoff in (1, 0.5, 0):
        model = NaiveBayes(tradeoff=tradeoff).fit(X, y)
        assert_allclose(model.predict_proba(X), model.predict_proba(other), rtol=1e-12)


def test_tf_idf_is_that_of_scikit_learn():
    X, y = reviews()
    counts = CountVectorizer(binary=True).fit_transform(X.review)
    S = word_counts(counts)
    density = Multinomial(tf_idf=True).informed(S, None).begin(S)
    expected = TfidfTransformer().fit_transform(counts).toarray()
    expected *= np.sqrt((counts > 0).sum() / len(y))
    assert_allclose(density.sufficient_statistics(S), expected, rtol=1e-12)
    as_they_are = Multinomial(tf_idf=True).informed(0.5 * S, None).begin(S)
    assert_allclose(as_they_are.sufficient_statistics(0.5 * S), 0.5 * S.toarray())


@pytest.mark.parametrize("tradeoff", [1, 0.5, 0, "auto"])
def test_explanations_name_the_words_and_sum_to_the_log_odds(tradeoff):
    X, y = reviews()
    model = NaiveBayes(tradeoff=tradeoff).fit(X, y)
    explanation = explain(model, X[:5])
    baseline, columns = explanation.log_odds(1)
    assert_allclose(baseline + columns.sum(axis=1), model.decision_function(X[:5]), atol=1e-8)
    for row in range(5):
        words = explanation.word_log_odds("review", row, 1)
        assert_allclose(sum(value for _, value in words), columns[row, 0], atol=1e-8)
        assert set(dict(words)) <= set(model.schema_.categories[0])


def test_explanations_of_sparse_tables_are_by_column():
    X, y = reviews()
    counts = CountVectorizer().fit_transform(X.review)
    model = NaiveBayes(tradeoff=0.5).fit(counts, y)
    baseline, columns = explain(model, counts[:4]).log_odds(1)
    assert columns.shape == (4, counts.shape[1])
    assert_allclose(baseline + columns.sum(axis=1), model.decision_function(counts[:4]), atol=1e-8)
    assert ((columns != 0) <= (counts[:4].toarray() > 0)).all()


@pytest.mark.parametrize("tradeoff", [1, 0.5, "auto"])
def test_model_files_keep_the_vocabulary(tmp_path, tradeoff):
    X, y = reviews()
    model = NaiveBayes({"review": Text(min_df=2)}, tradeoff=tradeoff).fit(X, y)
    about = save_model(model, tmp_path / "m.skops")
    again = load_model(tmp_path / "m.skops")
    assert_allclose(again.estimator.predict_proba(X), model.predict_proba(X), rtol=1e-12)
    assert about["columns"][0]["kind"] == "text"
    assert json.loads(json.dumps(about))["columns"][0]["categories"] == list(
        model.schema_.categories[0]
    )


def test_cells_that_nobody_expects():
    X, y = reviews()
    model = NaiveBayes(tradeoff=0.5).fit(X[["review"]], y)
    odd = ["", None, "never seen", "😀", "سعيد جدا", "great " * 1_000_000, "\u200b\n\t", "NULL"]
    found = model.predict_proba(pd.DataFrame({"review": pd.Series(odd, dtype=object)}))
    assert np.isfinite(found).all()
    for nothing in (0, 1, 2, 6, 7):
        assert_allclose(found[nothing], model.class_prior_, rtol=1e-6)
    once = model.predict_proba(pd.DataFrame({"review": ["great great"]}))
    assert_allclose(found[5], once[0], rtol=1e-6)  # which words occur counts, not how often
    gaps = X[["review"]].copy()
    gaps.loc[::3, "review"] = None
    empty = gaps.fillna("")
    for table in (gaps, empty):
        fitted = NaiveBayes(tradeoff=0.5).fit(table, y)
        assert_allclose(fitted.predict_proba(empty), fitted.predict_proba(gaps), rtol=1e-9)


REFUSED = [
    (lambda X, y: NaiveBayes({"stars": "text"}).fit(X, y), "'stars': expected text, got numbers"),
    (lambda X, y: NaiveBayes({"review": Text(min_df=99)}).fit(X, y), "lower min_df"),
    (lambda X, y: NaiveBayes({"review": Text(analyzer="?")}).fit(X, y), "CountVectorizer, got T"),
    (lambda X, y: NaiveBayes({"review": Text(token_pattern="(")}).fit(X, y), "ctorizer, got T"),
    (lambda X, y: GaussianDiscriminant().fit(X, y), "'review': expected numbers or categories"),
    (lambda X, y: NaiveBayes(tradeoff=1).fit(X, y).predict(X.assign(review=1.0)), "expected text"),
]


@pytest.mark.parametrize(("do", "message"), REFUSED)
def test_what_cannot_be_is_refused_with_a_remedy(do, message):
    with pytest.raises(DataError, match=message):
        do(*reviews())


def test_what_has_no_density_says_so():
    X, y = reviews()
    model = NaiveBayes(tradeoff=1).fit(X, y)
    assert np.isfinite(model.score_samples(X)).all()
    with pytest.raises(NotADensityError, match="a document's length is not modelled"):
        model.sample(3)
    for tradeoff in (0, "auto"):
        model = NaiveBayes(tradeoff=tradeoff).fit(X[["review"]], y)
        assert_allclose(model.class_prior_, np.bincount(y) / len(y))
        with pytest.raises(NotADensityError, match=r"no density of documents|no density of the"):
            model.score_samples(X[["review"]])


@pytest.mark.parametrize("tradeoff", [1, 0.5, 0, "auto"])
def test_the_linear_view_has_the_posterior(tradeoff):
    X, y = reviews()
    counts = CountVectorizer().fit_transform(X.review)
    for table in (X, counts):
        model = NaiveBayes(tradeoff=tradeoff, shared_variance=True).fit(table, y)
        linear = model.sufficient_statistics(table) @ model.coef_[0] + model.intercept_[0]
        assert_allclose(linear, model.decision_function(table), atol=1e-8)


def test_streams_of_hashed_words_are_fitted_exactly():
    X, y = reviews()
    hashing = HashingVectorizer(n_features=64, alternate_sign=False, norm=None)
    model = NaiveBayes(tradeoff=1)
    for start in range(0, len(y), 16):
        rows = slice(start, start + 16)
        model.partial_fit(hashing.transform(X.review[rows]), y[rows], classes=[0, 1])
    counts = hashing.transform(X.review)
    expected = MultinomialNB().fit(counts, y).predict_proba(counts)
    assert_allclose(model.predict_proba(counts), expected, rtol=1e-11)


@pytest.mark.slow
def test_compare_and_learning_curves_take_text_and_sparse_tables():
    X, y = reviews()
    counts = CountVectorizer().fit_transform(X.review)
    models = ["nb:generative", "logistic", "majority"]
    for table in (X, counts):
        result = compare(table, y, n_splits=2, models=models, evidence=False)
        for name in ("naive Bayes generative", "logistic regression"):
            assert result[name].scores["error"].mean() <= 0.2
    curve = learning_curve(counts, y, models={"nb": NaiveBayes(tradeoff=1)}, n_splits=2)
    assert curve.summary()["nb"][-1].mean <= 0.2


def test_the_commands_take_a_file_of_reviews(tmp_path, capsys):
    X, y = reviews()
    X.assign(label=np.where(y, "good", "bad")).to_csv(tmp_path / "reviews.csv", index=False)
    model = tmp_path / "m.skops"
    fit = ["fit", tmp_path / "reviews.csv", "--target", "label", "--out", model]
    for command in (
        [*fit, "--model", "naive-bayes", "--tradeoff", "0.5"],
        ["predict", model, tmp_path / "reviews.csv"],
        ["explain", model, tmp_path / "reviews.csv", "--row", "2"],
    ):
        with pytest.raises(SystemExit) as ended:
            cli.main([str(one) for one in command])
        assert not ended.value.code
    told = capsys.readouterr().out
    assert "prediction,P(bad),P(good)" in told
    # What words add, the last line those that are not shown, sums to what their column adds.
    shown = told[told.index("\nreview ") :].partition("more)")
    column, *words = map(float, re.findall(r"[+-]\d+\.\d{3}", shown[0] + shown[2].splitlines()[0]))
    assert len(words) == 9
    assert sum(words) == pytest.approx(column, abs=5e-3)
    words = set(CountVectorizer(token_pattern=r"\w+").fit([X.review[1]]).vocabulary_)
    shown = {
        line.split()[0] for line in told.splitlines() if line.startswith("  ") and line.split()
    }
    assert words & shown


def test_words_that_say_nothing_do_not_drown_a_number_that_does():
    rng = np.random.default_rng(0)
    y = np.tile([0, 1], 200)
    words = np.array([f"w{j}" for j in range(300)])
    table = pd.DataFrame(
        {"note": [" ".join(one) for one in words[rng.integers(0, 300, (400, 20))]]}
    )
    table["size"] = y + 0.7 * rng.normal(size=400)
    train, test = slice(0, 200), slice(200, 400)

    def loss(columns, tradeoff):
        model = NaiveBayes(tradeoff=tradeoff).fit(table[columns][train], y[train])
        return log_loss(y[test], model.predict_proba(table[columns][test]))

    alone = loss(["size"], "auto")
    assert loss(["note", "size"], "auto") < alone + 0.03
    assert loss(["note", "size"], 1) > alone + 0.3


@pytest.mark.parametrize("interactions", ["auto", 2, [(0, 1)]])
@pytest.mark.parametrize("of", ["sparse", "text"])
def test_interactions_of_words_are_refused_with_the_remedy(interactions, of):
    y = np.arange(40) % 2
    X = scipy.sparse.csr_array(np.random.default_rng(0).poisson(0.5, (40, 6)).astype(float))
    if of == "text":
        X = pd.DataFrame({"said": [f"the word {i} is it" for i in range(40)], "n": y + 0.5})
    with pytest.raises(DataError, match="expected a table of numbers and categories, got one with"):
        NaiveBayes(interactions=interactions).fit(X, y)


@pytest.mark.parametrize(
    "model", [NaiveBayes(tradeoff=0.5), WithWords(drop_first=True), Indicators(), Boosting()]
)
def test_a_fit_cuts_cells_into_words_once(model, monkeypatch):
    cut = []
    build = CountVectorizer.build_analyzer

    def counting(self):
        analyse = build(self)
        return lambda cell: (cut.append(cell), analyse(cell))[1]

    monkeypatch.setattr(CountVectorizer, "build_analyzer", counting)
    cells = [f"the {i} word is {i % 3}" for i in range(20)]
    y = np.arange(20) % 2
    X = pd.DataFrame({"said": [*cells[:19], None], "n": y + np.arange(20) / 9})
    (getattr(model, "fit_transform", None) or model.fit)(X, y)
    assert sorted(cut) == sorted(cells[:19])


HOSTILE = {
    "every second document is empty": lambda texts, y: ["" if i % 4 < 2 else t for i, t in texts],
    "a class without words": lambda texts, y: [t if y[i] else "" for i, t in texts],
    "a word of a million letters": lambda texts, y: [t + "x" * 10**6 * (i == 3) for i, t in texts],
    "punctuation alone": lambda texts, y: ["!! ? ." if y[i] else "... - ." for i, _ in texts],
    "control characters": lambda texts, y: [f"\x00{t}\x1f\r\n\u2028\ufeff" for i, t in texts],
    "half a character": lambda texts, y: [t + "\ud83d" * (i % 3) for i, t in texts],
    "letters on letters": lambda texts, y: ["e\u0301" * 9 + f" {t} \u202e" for i, t in texts],
    "numbers as text": lambda texts, y: [f"{i} {i % 7} {y[i]}" for i, _ in texts],
    "missing of every kind": lambda texts, y: [(None, np.nan, t, pd.NA)[i % 4] for i, t in texts],
}


@pytest.mark.parametrize("tradeoff", [1, 0.5, 0, "auto"])
@pytest.mark.parametrize("case", HOSTILE)
def test_documents_that_nobody_expects(case, tradeoff):
    X, y = reviews()
    cells = pd.Series(HOSTILE[case](list(enumerate(X.review)), y), dtype=object)
    table = pd.DataFrame({"review": cells})
    model = NaiveBayes({"review": "text"}, tradeoff=tradeoff).fit(table, y)
    posterior = model.predict_proba(table)
    assert np.isfinite(posterior).all()
    assert_allclose(posterior.sum(axis=1), 1.0, rtol=1e-12)
    # What a document says is its words alone, whatever stands beside it.
    order = np.random.default_rng(0).permutation(len(y))
    again = model.predict_proba(table.iloc[order].reset_index(drop=True))
    assert_allclose(again, posterior[order], rtol=1e-12)
    assert_allclose(
        NaiveBayes({"review": "text"}, tradeoff=tradeoff)
        .fit(table.iloc[order].reset_index(drop=True), y[order])
        .predict_proba(table),
        posterior,
        atol=1e-5,
    )


@pytest.mark.parametrize("tradeoff", [1, 0.5, 0, "auto"])
def test_words_that_all_documents_have_say_nothing(tradeoff):
    _, y = reviews()
    y = np.where(np.arange(len(y)) % 4, 0, 1)
    table = pd.DataFrame({"review": ["the very same words"] * len(y)})
    model = NaiveBayes({"review": "text"}, tradeoff=tradeoff).fit(table, y)
    assert_allclose(model.predict_proba(table)[0], [0.75, 0.25], atol=0.03)


@pytest.mark.parametrize("cells", [[None] * 8, [""] * 8, [" \n"] * 8])
def test_a_column_without_any_word_is_refused(cells):
    table = pd.DataFrame({"review": pd.Series(cells, dtype=object), "n": np.arange(8.0)})
    with pytest.raises(DataError, match="'review': expected"):
        NaiveBayes({"review": "text"}).fit(table, [0, 1] * 4)


def test_characters_and_parts_of_words_need_no_pattern():
    X, y = reviews()
    for analyzer in ("char", "char_wb"):
        text = Text(analyzer=analyzer, ngram_range=(2, 3))
        found = NaiveBayes({"review": text}, tradeoff=1).fit(X[["review"]], y)
        counter = CountVectorizer(analyzer=analyzer, ngram_range=(2, 3), binary=True)
        counts = counter.fit_transform(X.review)
        rival = MultinomialNB().fit(counts, y)
        assert_allclose(found.predict_proba(X[["review"]]), rival.predict_proba(counts), rtol=1e-10)


@pytest.mark.parametrize(
    "columns",
    [["review", "answer"], pytest.param(["review", "stars", "town", "id"], marks=pytest.mark.slow)],
)
def test_the_pool_is_the_weighted_product_of_its_members_whatever_they_look_at(
    columns, monkeypatch
):
    X, y = reviews()
    X = X.assign(answer=X.review[::-1].to_numpy())[columns]
    scores, out_of_fold = [], selection.out_of_fold

    def once(*rows, **options):
        scores[:] = scores or [out_of_fold(*rows, **options)]
        return scores[0]

    monkeypatch.setattr(selection, "out_of_fold", once)  # the same rows each time
    size = len(NaiveBayes().fit(X, y).tradeoff_path_["weight"])

    def posteriors(weights):
        monkeypatch.setattr(selection, "pool_or_one", lambda *_, **__: np.array(weights))
        return NaiveBayes().fit(X, y).predict_log_proba(X)

    log_prior = np.log(np.bincount(y) / len(y))
    each = [posteriors(np.eye(size)[g]) - log_prior for g in range(size)]
    rng = np.random.default_rng(0)
    for dropped in (0, 2, size - 2):  # the first members look at all columns
        weights = np.where(np.arange(size) < dropped, 0.0, rng.uniform(0.1, 0.4, size))
        joint = log_prior + np.tensordot(weights, each, axes=1)
        joint -= np.logaddexp.reduce(joint, axis=1, keepdims=True)
        assert_allclose(posteriors(weights), joint, atol=1e-6)


def test_models_on_the_same_rows_share_what_cells_are_cut_into(monkeypatch):
    X, y = reviews(96)
    models = {
        "one": NaiveBayes(tradeoff=1),
        "zero": NaiveBayes(tradeoff=0),
        "others": NaiveBayes({"review": Text(ngram_range=(1, 1))}, tradeoff=0),
    }
    cut, vectorizer = [], Text._vectorizer

    def noted(text, vocabulary=None):
        cut.append(text)
        time.sleep(0.05)
        return vectorizer(text, vocabulary)

    monkeypatch.setattr(Text, "_vectorizer", noted)
    train, test = np.arange(64), np.arange(64, 96)
    evaluator = Evaluator(X, y, np.unique(y), y)
    found = evaluator.evaluate(models, train, test)
    assert len(cut) == 4  # rows of fit and of test, by two ways of cutting
    evaluator.fit("one", models["one"], train)
    assert len(cut) == 4
    evaluator.fit("one", models["one"], train[:-1])
    assert len(cut) == 5  # other rows, other words
    for name, model in models.items():
        own = model.fit(X.iloc[train], y[train]).predict_proba(X.iloc[test])
        assert_allclose(found[name].posterior, own, rtol=1e-14)
        assert found[name].seconds > 0.05  # each is told what it would take by itself
    assert len(cut) == 11  # nothing is kept for fits elsewhere
