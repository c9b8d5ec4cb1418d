# Against a live coordinator, where PARLEY_SERVER names one and there is a token.
library(parley)

refused <- function(expression) tryCatch(expression, error = conditionMessage)
if (!nzchar(Sys.getenv("PARLEY_SERVER"))) {
  Sys.unsetenv(c("PARLEY_TOKEN", "PARLEY_TOKEN_FILE"))
  stopifnot(grepl("^token: found none", refused(parley_status())))
  stopifnot(grepl("http://127.0.0.1:9 does not answer", refused(parley_status(server = "http://127.0.0.1:9", token = "x"))))
} else {
  studies <- parley_status()
  stopifnot(is.data.frame(studies), all(c("id", "stage", "phase", "samples") %in% names(studies)))
  for (study in studies$id) {
    agents <- parley_status(study)
    found <- parley_estimates(study)
    stopifnot(
      identical(nrow(agents), studies$agents[studies$id == study]),
      all(agents$state %in% c("reported", "awaited", "frozen", "not asked")),
      identical(nrow(found), nrow(agents) * studies$arms[studies$id == study]),
      is.numeric(found$mean_estimate)
    )
  }
  stopifnot(
    identical(refused(parley_status("no such study")), refused(parley_estimates("no such study"))),
    grepl("^There is nothing at this address: ", refused(parley_status("no such study"))),
    grepl("^The token is unknown or revoked: ", refused(parley_status(token = "parley_x_y")))
  )
}
