"""The HTTP side of the coordinator: the application, its routes, and the checks of every request."""
