"""Write reference_fits.json: the classical data sets as statsmodels fits them.

Run from the project's root, with the data in ../shared/data or $CROSSFADE_DATA:

    python -m tests.glm.make_reference_fits
"""

from __future__ import annotations

import json
import os
from pathlib import Path

HERE = Path(__file__).parent
DATA = Path(os.environ.get("CROSSFADE_DATA", HERE.parents[2] / "shared" / "data")) / "glm"

#: name: (file, family, link, formula, exposure column)
FITS = {
    "beetles, logit": ("beetles.csv", "binomial", "logit", "~ log10_dose", None),
    "beetles, probit": ("beetles.csv", "binomial", "probit", "~ log10_dose", None),
    "beetles, cloglog": ("beetles.csv", "binomial", "cloglog", "~ log10_dose", None),
    "budworm": ("budworm.csv", "binomial", "logit", "~ C(sex) * log2_dose", None),
    "UCB, dept": ("ucb_admissions.csv", "binomial", "logit", "~ C(dept)", None),
    "UCB, both": ("ucb_admissions.csv", "binomial", "logit", "~ C(dept) + C(gender)", None),
    "menarche": ("menarche.csv", "binomial", "logit", "~ age", None),
    "warpbreaks": ("warpbreaks.csv", "poisson", "log", "~ C(wool) * C(tension)", None),
    "warpbreaks, sqrt": ("warpbreaks.csv", "poisson", "sqrt", "~ C(wool) + C(tension)", None),
    "warpbreaks, identity": (
        "warpbreaks.csv",
        "poisson",
        "identity",
        "~ C(wool) + C(tension)",
        None,
    ),
    "quine": ("quine.csv", "poisson", "log", "~ C(eth) + C(sex) + C(age) + C(lrn)", None),
    "crabs": ("horseshoe_crabs.csv", "poisson", "log", "~ width + C(color)", None),
    "insurance": (
        "insurance.csv",
        "poisson",
        "log",
        "~ C(district) + C(group) + C(age)",
        "holders",
    ),
    "ships": ("ships.csv", "poisson", "log", "~ C(type) + C(year) + C(period)", "service"),
}


def table(file: str, exposure: str | None):
    """Return the rows that are fitted: ships' rows without service are not."""
    import pandas as pd

    frame = pd.read_csv(DATA / file)
    return frame if exposure is None else frame[frame[exposure] > 0].reset_index(drop=True)


def columns(formula: str, frame):
    """Return the model matrix, constant included."""
    import formulaic

    matrix = formulaic.Formula(formula.lstrip("~ ")).get_model_matrix(frame, context={})
    return matrix.astype(float)


def main() -> None:
    """Fit all and write the file."""
    import statsmodels
    import statsmodels.api as sm

    links = {
        "logit": sm.families.links.Logit,
        "probit": sm.families.links.Probit,
        "cloglog": sm.families.links.CLogLog,
        "log": sm.families.links.Log,
        "identity": sm.families.links.Identity,
        "sqrt": sm.families.links.Sqrt,
    }
    results = {
        "made_by": f"statsmodels {statsmodels.__version__}, tests/glm/make_reference_fits.py"
    }
    for name, (file, family, link, formula, exposure) in FITS.items():
        frame = table(file, exposure)
        y = frame["target"].to_numpy(dtype=float)
        if family == "binomial":
            y = frame[["target", "trials"]].assign(trials=frame["trials"] - y).to_numpy(dtype=float)
        kind = sm.families.Binomial if family == "binomial" else sm.families.Poisson
        given = {} if exposure is None else {"exposure": frame[exposure].to_numpy(dtype=float)}
        matrix = columns(formula, frame)
        model = sm.GLM(y, matrix.to_numpy(), family=kind(links[link]()), **given)
        fit = model.fit(tol=1e-14, maxiter=500, tol_criterion="params")
        results[name] = {
            "terms": list(matrix.columns),
            "estimates": fit.params.tolist(),
            "standard_errors": fit.bse.tolist(),
            "deviance": fit.deviance,
            "log_likelihood": fit.llf,
            "df_residual": int(fit.df_resid),
        }
    (HERE / "reference_fits.json").write_text(
        json.dumps(results, indent=1) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
