"""Operations on a study, each a function of one transaction. Routes and tests call these."""
