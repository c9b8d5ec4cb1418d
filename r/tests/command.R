# Against the command, where there is one: the same numbers as its JSON, and the same words where it refuses.
library(parley)

if (nzchar(Sys.which(Sys.getenv("PARLEY_COMMAND", "parley")))) {
  refused <- function(expression) tryCatch(expression, error = conditionMessage)
  study <- system.file("extdata", "protocol.toml", package = "parley")

  stopifnot(
    grepl("^truth: found a study without a \\[truth\\] section; allowed: ", refused(parley_simulate(study))),
    grepl("^study file: found no file at nowhere.toml", refused(parley_plan("nowhere.toml"))),
    grepl("^No such option '--gpa'", refused(parley_plan(study, gpa = 1))),
    identical(refused(parley_plan(study, 1)), "options of the command have names, such as seed = 1"),
    grepl("found no budgets", refused(parley_budgets(data.frame())))
  )

  true <- tempfile(fileext = ".toml")
  means <- "\n[noise]\nscale = 1.0\n\n[truth]\nmeans = [[0, 0, 0], [0.1, 0.4, 0.2], [0.9, 0.3, 0.7], [1, 1, 1]]\n"
  writeLines(c(readLines(study), means), true)
  found <- parley_simulate(true, c("evidence", "uniform"), replications = 100, seed = 7)
  again <- parley_simulate(true, "uniform", replications = 100, seed = 7)
  stopifnot(
    identical(found$policy, c("evidence", "uniform")),
    identical(found$replications, c(100L, 100L)),
    found$cost_mean[1] < found$cost_mean[2],
    identical(found$cost_mean[2], again$cost_mean),
    !identical(again$cost_mean, parley_simulate(true, "uniform", replications = 100, seed = 8)$cost_mean)
  )

  exact <- tempfile(fileext = ".toml")
  writeLines(grep("^tolerance", readLines(true), invert = TRUE, value = TRUE), exact)
  bounds <- parley_bounds(exact)
  cells <- parley_bounds(exact, allocation = TRUE)
  stopifnot(
    identical(bounds$bound, c("bai", "bai_relaxed", "regret", "regret_relaxed", "time")),
    all(bounds$gap < 1e-9), all(bounds$proven <= bounds$value),
    nrow(cells) == 5 * 4 * 3, identical(unique(cells$agent), c("Paris", "Lille", "Lyon")),
    isTRUE(all.equal(sum(cells$allocation[cells$bound == "bai"]), bounds$value[1])),
    attr(bounds, "lower_bound") > 0,
    grepl("^truth: found a study without a \\[truth\\] section", refused(parley_bounds(study)))
  )

  options(parley.command = "no-such-command")
  stopifnot(grepl("the command 'no-such-command' is not there", refused(parley_plan(study))))
}
