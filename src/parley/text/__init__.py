"""Text for people: numbers, statuses and messages, in the words of an audience or in a language."""
