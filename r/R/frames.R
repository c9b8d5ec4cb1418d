# Documents as data frames: a row each, and samples$mean in the column samples_mean.

frame <- function(rows, first = character(), drop = character()) {
  flats <- lapply(rows, function(row) flat(row[setdiff(names(row), drop)]))
  names <- unique(unlist(lapply(flats, names)))
  names <- c(intersect(first, names), setdiff(names, first))
  columns <- lapply(names, function(name) {
    unlist(lapply(flats, function(row) if (is.null(row[[name]])) NA else row[[name]]))
  })
  structure(columns, names = names, row.names = seq_along(rows), class = "data.frame")
}

flat <- function(value, name = NULL) {
  if (!is.list(value)) {
    return(structure(list(if (is.null(value)) NA else value), names = name))
  }
  keys <- if (is.null(names(value))) seq_along(value) else names(value)
  parts <- Map(function(part, key) flat(part, paste(c(name, key), collapse = "_")), value, keys)
  do.call(c, unname(parts))
}
