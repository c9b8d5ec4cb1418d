"""Operations on a study, called by routes and tests. Most take the transaction in which they run."""
