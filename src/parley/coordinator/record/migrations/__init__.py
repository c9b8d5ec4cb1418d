"""Steps from one schema to the next (Alembic). Each stands for itself: it does not import the tables of today."""
