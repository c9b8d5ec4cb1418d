"""Coordinators as forks (`forks.py`): orders are {"db", "port", "kill_at", "inline"}.

`inline` false: every step is taken outside of the lock, as those of large studies are.
"""

from tests.chaos.forks import loop
from tests.chaos.mutants import apply_chosen

from parley.coordinator.http import server
from parley.coordinator.record import killpoints
from parley.coordinator.settings import Settings
from parley.coordinator.studies import phases
from parley.service.assembly import create_service


def serve(order):
    killpoints.arm(order["kill_at"])
    if not order["inline"]:
        phases.INLINE_CELLS = 0
    settings = Settings(
        db=order["db"], port=order["port"], rate=1e6, burst=10**6, log_level="error", statement_timeout=10.0
    )
    server.serve(settings, create_service, lambda _: None)


if __name__ == "__main__":
    apply_chosen()
    loop(serve)
