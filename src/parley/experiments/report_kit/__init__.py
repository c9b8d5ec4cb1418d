"""How results look: themes, the shell of static pages, tables, the course of a study."""
