# Write r_fits.json: the classical data sets as R fits them.
#
# Run from the project's root, with the data in ../shared/data or $CROSSFADE_DATA:
#
#     Rscript tests/glm/make_r_fits.R
#
# Needs the packages jsonlite, MASS (profile intervals) and sandwich (robust covariances). The fits
# are those of make_reference_fits.py, by the same names.

suppressPackageStartupMessages({
  library(jsonlite)
  library(MASS)
  library(sandwich)
})

data <- file.path(Sys.getenv("CROSSFADE_DATA", "../shared/data"), "glm")
table_of <- function(file) read.csv(file.path(data, file), stringsAsFactors = TRUE)

as_factors <- function(frame, columns) {
  for (column in columns) frame[[column]] <- factor(frame[[column]])
  frame
}

beetles <- table_of("beetles.csv")
budworm <- table_of("budworm.csv")
ucb <- table_of("ucb_admissions.csv")
menarche <- table_of("menarche.csv")
breaks <- table_of("warpbreaks.csv")
quine <- table_of("quine.csv")
crabs <- as_factors(table_of("horseshoe_crabs.csv"), "color")
insurance <- as_factors(table_of("insurance.csv"), "district")
# The order of the levels is that of their names' code points, as the other tests have it.
for (column in c("group", "age")) {
  levels <- sort(unique(as.character(insurance[[column]])), method = "radix")
  insurance[[column]] <- factor(as.character(insurance[[column]]), levels = levels)
}
ships <- subset(as_factors(table_of("ships.csv"), c("year", "period")), service > 0)

share <- cbind(target, trials - target) ~ .
rigour <- glm.control(epsilon = 1e-13, maxit = 200)
fit <- function(formula, family, frame) glm(formula, family, frame, control = rigour)

binomial_fit <- function(right, frame, link = "logit") {
  fit(update(share, as.formula(paste("~", right))), binomial(link), frame)
}

fits <- list(
  "beetles, logit" = binomial_fit("log10_dose", beetles),
  "beetles, probit" = binomial_fit("log10_dose", beetles, "probit"),
  "beetles, cloglog" = binomial_fit("log10_dose", beetles, "cloglog"),
  "budworm" = binomial_fit("sex * log2_dose", budworm),
  "UCB, dept" = binomial_fit("dept", ucb),
  "UCB, both" = binomial_fit("dept + gender", ucb),
  "menarche" = binomial_fit("age", menarche),
  "warpbreaks" = fit(target ~ wool * tension, poisson(), breaks),
  "warpbreaks, sqrt" = fit(target ~ wool + tension, poisson("sqrt"), breaks),
  "warpbreaks, identity" = fit(target ~ wool + tension, poisson("identity"), breaks),
  "quine" = fit(target ~ eth + sex + age + lrn, poisson(), quine),
  "crabs" = fit(target ~ width + color, poisson(), crabs),
  "insurance" = fit(target ~ district + group + age + offset(log(holders)), poisson(), insurance),
  "ships" = fit(target ~ type + year + period + offset(log(service)), poisson(), ships)
)

results <- lapply(fits, function(one) {
  largest <- function(values) unname(sort(values, decreasing = TRUE)[1:3])
  list(
    terms = names(coef(one)),
    estimates = unname(coef(one)),
    standard_errors = unname(sqrt(diag(vcov(one)))),
    deviance = deviance(one),
    null_deviance = one$null.deviance,
    log_likelihood = as.numeric(logLik(one)),
    aic = AIC(one),
    bic = BIC(one),
    df_residual = df.residual(one),
    hc0 = unname(sqrt(diag(vcovHC(one, type = "HC0")))),
    hc1 = unname(sqrt(diag(vcovHC(one, type = "HC1")))),
    deviance_residuals = largest(residuals(one, "deviance")),
    pearson_residuals = largest(residuals(one, "pearson")),
    leverages = largest(hatvalues(one)),
    cooks_distances = largest(cooks.distance(one))
  )
})

# Profile intervals: MASS interpolates the profile by splines, which is right to some four digits.
for (name in c("beetles, logit", "budworm", "menarche", "crabs", "quine")) {
  results[[name]]$profile_intervals <- unname(suppressMessages(confint(fits[[name]])))
}

quasi <- summary(fit(target ~ eth + sex + age + lrn, quasipoisson(), quine))
results[["quine"]]$dispersion <- quasi$dispersion
results[["quine"]]$quasi_standard_errors <- unname(quasi$coefficients[, "Std. Error"])

made_by <- paste0(R.version.string, ", tests/glm/make_r_fits.R")
writeLines(
  toJSON(c(list(made_by = made_by), results), digits = NA, auto_unbox = TRUE, pretty = 1),
  "tests/glm/r_fits.json"
)
