"""`python -m parley` is `parley`."""

from parley.cli.main import run

if __name__ == "__main__":
    run()
