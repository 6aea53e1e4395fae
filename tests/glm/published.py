"""Published coefficient tables, digit by digit as they are printed, with their sources.

All are outputs of R's ``summary(glm(...))`` as printed in public pages, but the first beetle table
(glmlab's manual). A number is text, so that the digits printed are known.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Published:
    """One table.

    Attributes
    ----------
    file : str
        Below the folder ``glm`` of the data.
    formula, family, link : str
    rows : dict of term to (estimate, standard error)
        None where it was not printed.
    deviance, df, null_deviance, null_df, aic : str or None
    source : str
    """

    file: str
    family: str
    link: str
    formula: str
    rows: dict[str, tuple[str, str | None]]
    deviance: str
    df: int
    source: str
    null_deviance: str | None = None
    aic: str | None = None


BEETLES = "cbind(target, trials - target) ~ log10_dose"
UCB = "cbind(target, trials - target) ~ C(gender) + C(dept)"
BREAKS = "target ~ C(wool, Treatment('A')) + C(tension, Treatment('L'))"
CHEMISTS = "target ~ C(fem, Treatment('Men')) + C(mar, Treatment('Single')) + kid5 + phd + ment"
INSURANCE = (
    "target ~ C(district) + C(group, Poly(scores=[1, 2, 3, 4])) "
    "+ C(age, Poly(scores=[1, 2, 3, 4])) + offset(log(holders))"
)

TABLES = {
    "beetles, logit": Published(
        "beetles.csv",
        "binomial",
        "logit",
        BEETLES,
        # Its standard errors (5.180701, 2.912134) stop a step early: R prints 5.181 and 2.912.
        {"Intercept": ("-60.717455", "5.181"), "log10_dose": ("34.270326", "2.912")},
        "11.232231",
        6,
        "glmlab manual (P. Dunn), agreeing with Dobson (1990); standard errors from R",
        "284.20",
        "41.43",
    ),
    "beetles, probit": Published(
        "beetles.csv",
        "binomial",
        "probit",
        BEETLES,
        {"Intercept": ("-34.935", "2.648"), "log10_dose": ("19.728", "1.487")},
        "10.12",
        6,
        "R summary(glm) of Dobson's beetles, printed in public course notes",
        "284.20",
        "40.318",
    ),
    "beetles, cloglog": Published(
        "beetles.csv",
        "binomial",
        "cloglog",
        BEETLES,
        {"Intercept": ("-39.572", "3.240"), "log10_dose": ("22.041", "1.799")},
        "3.4464",
        6,
        "R summary(glm) of Dobson's beetles, printed in public course notes",
        "284.2024",
        "33.644",
    ),
    "UCB admissions": Published(
        "ucb_admissions.csv",
        "binomial",
        "logit",
        UCB,
        {
            "Intercept": ("0.68192", "0.09911"),
            "C(gender)[T.Male]": ("-0.09987", "0.08085"),
            "C(dept)[T.B]": ("-0.04340", "0.10984"),
            "C(dept)[T.C]": ("-1.26260", "0.10663"),
            "C(dept)[T.D]": ("-1.29461", "0.10582"),
            "C(dept)[T.E]": ("-1.73931", "0.12611"),
            "C(dept)[T.F]": ("-3.30648", "0.16998"),
        },
        "20.204",
        5,
        "R summary(glm) of UCBAdmissions, printed in notes on McElreath's Statistical Rethinking",
        "877.056",
        "103.14",
    ),
    "warpbreaks": Published(
        "warpbreaks.csv",
        "poisson",
        "log",
        BREAKS,
        {
            "Intercept": ("3.69196", "0.04541"),
            "C(wool, Treatment('A'))[T.B]": ("-0.20599", "0.05157"),
            "C(tension, Treatment('L'))[T.M]": ("-0.32132", "0.06027"),
            "C(tension, Treatment('L'))[T.H]": ("-0.51849", "0.06396"),
        },
        "210.39",
        50,
        "R summary(glm) of warpbreaks, printed in several public pages",
        "297.37",
        "493.06",
    ),
    "horseshoe crabs": Published(
        "horseshoe_crabs.csv",
        "poisson",
        "log",
        "target ~ width",
        {"Intercept": ("-3.30476", "0.54224"), "width": ("0.16405", "0.01997")},
        "567.88",
        171,
        "R summary(glm), Agresti section 4.3; Penn State STAT 504, lesson 9.2",
        "632.79",
        "927.18",
    ),
    "insurance with exposure": Published(
        "insurance.csv",
        "poisson",
        "log",
        INSURANCE,
        {
            "Intercept": ("-1.810508", None),
            "C(district)[T.2]": ("0.025868", None),
            "C(district)[T.3]": ("0.038524", None),
            "C(district)[T.4]": ("0.234205", None),
            "group.L": ("0.429708", None),
            "group.Q": ("0.004632", None),
            "group.C": ("-0.029294", None),
            "age.L": ("-0.394432", None),
            "age.Q": ("-0.000355", None),
            "age.C": ("-0.016737", None),
        },
        "51.42",
        54,
        "the example of R's ?MASS::Insurance, printed in the package's online reference",
        "236.3",
        "388.7",
    ),
    "bio chemists": Published(
        "bio_chemists.csv",
        "poisson",
        "log",
        CHEMISTS,
        {
            "Intercept": ("0.305", "0.103"),
            "C(fem, Treatment('Men'))[T.Women]": ("-0.225", "0.0546"),
            "C(mar, Treatment('Single'))[T.Married]": ("0.155", "0.0614"),
            "kid5": ("-0.185", "0.0401"),
            "phd": ("0.0128", "0.0264"),
            "ment": ("0.0255", "0.00201"),
        },
        "1634",
        909,
        "Tidy Modeling with R, chapter 21",
        "1817",
        "3314",
    ),
    "Dobson's trial": Published(
        "dobson_rct.csv",
        "poisson",
        "log",
        "target ~ C(outcome) + C(treatment)",
        {
            "Intercept": ("3.045", "0.1709"),
            "C(outcome)[T.2]": ("-0.4543", "0.2022"),
            "C(outcome)[T.3]": ("-0.2930", "0.1927"),
            "C(treatment)[T.2]": ("0.0000", "0.2000"),
            "C(treatment)[T.3]": ("0.0000", "0.2000"),
        },
        "5.1291",
        4,
        "the example of R's ?glm (Dobson 1990, p. 93)",
        "10.5814",
        "56.76",
    ),
}
