"""Run the command line: `python -m parley` does the same as `parley`."""

from parley.cli.main import run

if __name__ == "__main__":
    run()
