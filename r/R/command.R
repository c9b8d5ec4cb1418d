# Plans and simulations: `parley ... --json`, and its numbers as they are.

parley_plan <- function(study, ...) {
  document <- plan_document(study, list(...))
  if (is.null(document$power)) {
    frame(document$scenarios, first = c("scenario", "studies"), drop = "alone")
  } else {
    frame(document$power$truths, first = c("scenario", "gap", "max_samples", "power", "standard_error"))
  }
}

parley_operating_characteristics <- function(study, ...) {
  truths <- plan_document(study, list(..., operating = TRUE))$operating
  first <- c("scenario", "gap", "studies", "power", "power_error", "wrong", "wrong_error")
  found <- frame(truths, first = first, drop = "budgets")
  budgets <- lapply(truths, function(truth) {
    lapply(truth$budgets, function(budget) c(budget, truth["gap"]))
  })
  attr(found, "budgets") <- frame(do.call(c, budgets), first = append(first, "max_samples", after = 2))
  found
}

parley_budgets <- function(characteristics) {
  found <- attr(characteristics, "budgets")
  if (is.null(found)) {
    stop("characteristics: found no budgets; allowed: what parley_operating_characteristics() returned", call. = FALSE)
  }
  found
}

parley_simulate <- function(study, policy = NULL, ...) {
  kept <- c(
    "study", "policy", "replications", "seed", "delta", "cost", "rounds", "error_rate", "unfinished", "ends",
    "guarantee"
  )
  rows <- lapply(if (is.null(policy)) list(NULL) else policy, function(name) {
    document <- run_parley(c("simulate", study), list(policy = name, ...))
    document[intersect(kept, names(document))]
  })
  frame(rows)
}

parley_bounds <- function(study, ..., allocation = FALSE) {
  document <- run_parley(c("bounds", study), list(...))
  # What has a value and a proof is a bound; null where arms tie, and infinite.
  bounds <- document[vapply(document, function(part) is.list(part) && all(c("value", "gap") %in% names(part)), TRUE)]
  rows <- lapply(names(bounds), function(name) {
    bound <- bounds[[name]]
    row <- list(bound = name, value = bound$value, gap = bound$gap, proven = bound$value * (1 - bound$gap))
    if (!allocation) {
      return(list(row))
    }
    cells <- expand.grid(agent = seq_along(document$agents), arm = seq_along(document$arms))
    Map(function(arm, agent) {
      drawn <- list(arm = document$arms[[arm]], agent = document$agents[[agent]])
      c(row["bound"], drawn, allocation = bound$allocation[[arm]][[agent]])
    }, cells$arm, cells$agent)
  })
  found <- frame(do.call(c, rows))
  attr(found, "lower_bound") <- document$lower_bound
  found
}

# `parley plan` writes a page beside its answer: into a temporary file, unless `output` names one.
plan_document <- function(study, options) {
  if (is.null(options$output)) {
    options$output <- tempfile("parley-plan-", fileext = ".html")
    on.exit(unlink(options$output))
  }
  run_parley(c("plan", study), options)
}

run_parley <- function(words, options = list()) {
  command <- getOption("parley.command", Sys.getenv("PARLEY_COMMAND", "parley"))
  if (!nzchar(Sys.which(command[1]))) {
    stop(
      "the command '", command[1], "' is not there: install the Python package parley, or name the command with ",
      "options(parley.command = ...) or the environment variable PARLEY_COMMAND",
      call. = FALSE
    )
  }
  files <- c(tempfile("parley-"), tempfile("parley-"))
  on.exit(unlink(files))
  arguments <- c(command[-1], words, option_words(options), "--json")
  status <- system2(command[1], shQuote(arguments), stdout = files[1], stderr = files[2])
  errors <- paste(readLines(files[2], warn = FALSE, encoding = "UTF-8"), collapse = "\n")
  if (status != 0) {
    words <- sub("^(.*\n)?Error: ", "", errors)
    stop(if (nzchar(words)) words else paste("parley ended with status", status), call. = FALSE)
  }
  if (nzchar(errors)) {
    warning(sub("^Warning: ", "", errors), call. = FALSE)
  }
  text <- paste(readLines(files[1], warn = FALSE, encoding = "UTF-8"), collapse = "\n")
  jsonlite::fromJSON(text, simplifyVector = FALSE)
}

# list(gap = c(0.25, 0.2), operating = TRUE) is --gap 0.25 --gap 0.2 --operating
option_words <- function(options) {
  if (length(options) && (is.null(names(options)) || !all(nzchar(names(options))))) {
    stop("options of the command have names, such as seed = 1", call. = FALSE)
  }
  words <- character()
  for (name in names(options)) {
    option <- paste0("--", gsub("_", "-", name, fixed = TRUE))
    value <- options[[name]]
    if (isTRUE(value)) {
      words <- c(words, option)
    } else if (!is.null(value) && !isFALSE(value)) {
      # Not 1e+05, which is no whole number to the command.
      text <- if (is.numeric(value)) vapply(value, format, "", digits = 15, scientific = FALSE) else as.character(value)
      words <- c(words, rbind(option, text))
    }
  }
  words
}
