"""How the coordinator is asked: the application, its routes, and what every request passes before it is answered."""
