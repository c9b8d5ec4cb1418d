# A live study: the HTTP API of its coordinator.

parley_status <- function(study = NULL, server = parley_server(), token = parley_token()) {
  if (is.null(study)) {
    return(frame(pages(function(after) ask("studies", list(after = after), server, token))))
  }
  status <- ask(c("studies", study), list(), server, token)
  states <- list(reported = status$reported, awaited = status$missing, frozen = status$frozen)
  rows <- lapply(status$agent_names, function(agent) {
    row <- list(
      study = status$id, stage = status$stage, phase = status$phase, samples = status$samples, end = status$end,
      agent = agent, state = "not asked"
    )
    for (state in names(states)) {
      for (entry in states[[state]]) {
        if (identical(entry$agent, agent)) {
          row$state <- state
          row <- c(row, entry[setdiff(names(entry), c("agent", "phase"))])
        }
      }
    }
    row
  })
  frame(rows)
}

parley_estimates <- function(study, phase = NULL, server = parley_server(), token = parley_token()) {
  rows <- list()
  first <- 0
  repeat {
    found <- ask(c("studies", study, "findings"), list(phase = phase, first = first), server, token)
    for (agent in found$agents) {
      for (arm in agent$arms) {
        rows[[length(rows) + 1]] <- c(
          list(study = found$study, phase = found$phase, level = found$level), agent[c("agent", "end", "leader")], arm
        )
      }
    }
    first <- first + length(found$agents)
    if (!length(found$agents) || first >= found$agent_count) {
      return(frame(rows))
    }
  }
}

# All studies of a list that is answered in parts.
pages <- function(ask_after) {
  found <- list()
  after <- NULL
  repeat {
    answer <- ask_after(after)
    found <- c(found, answer$studies)
    after <- answer[["next"]]
    if (is.null(after)) {
      return(found)
    }
  }
}

parley_server <- function() Sys.getenv("PARLEY_SERVER", "http://127.0.0.1:8642")

# As the command does: PARLEY_TOKEN_FILE names a file, PARLEY_TOKEN is the token itself.
parley_token <- function() {
  file <- Sys.getenv("PARLEY_TOKEN_FILE")
  token <- if (nzchar(file)) trimws(paste(readLines(file, warn = FALSE), collapse = "")) else Sys.getenv("PARLEY_TOKEN")
  if (!nzchar(token)) {
    stop("token: found none; allowed: a token in a file (PARLEY_TOKEN_FILE), or in PARLEY_TOKEN", call. = FALSE)
  }
  token
}

ask <- function(path, query, server, token) {
  parts <- vapply(path, utils::URLencode, "", reserved = TRUE)
  query <- query[!vapply(query, is.null, TRUE)]
  values <- vapply(query, function(value) utils::URLencode(format(value, scientific = FALSE), reserved = TRUE), "")
  address <- paste0(sub("/+$", "", server), "/v1/", paste(parts, collapse = "/"))
  if (length(query)) {
    address <- paste0(address, "?", paste(names(query), values, sep = "=", collapse = "&"))
  }
  handle <- curl::new_handle(followlocation = FALSE)
  curl::handle_setheaders(handle, Authorization = paste("Bearer", token))
  answer <- tryCatch(
    curl::curl_fetch_memory(address, handle),
    error = function(error) stop(server, " does not answer: ", conditionMessage(error), call. = FALSE)
  )
  text <- rawToChar(answer$content)
  Encoding(text) <- "UTF-8"
  found <- tryCatch(jsonlite::fromJSON(text, simplifyVector = FALSE), error = function(error) NULL)
  if (answer$status_code >= 300 || is.null(found)) {
    known <- is.list(found) && !is.null(found$title)
    words <- if (known) paste0(found$title, ": ", found$detail) else "the answer is not a coordinator's"
    stop(if (known) words else paste0(words, ": HTTP ", answer$status_code), call. = FALSE)
  }
  found
}
