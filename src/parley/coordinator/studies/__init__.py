"""Operations on a study, mostly functions of one transaction. Routes and tests call them."""
