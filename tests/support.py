"""What several tests share: the paper's instance, random instances, and hypothesis strategies for them."""

from __future__ import annotations

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import strategies as st

from parley.problem import Instance
from parley.study import Study, parse_study
from parley.testing.conformance import random_instance, random_weights

__all__ = ["awaited", "code_of_page", "first_quick", "instances", "paper_study", "random_instance", "random_weights"]


def code_of_page(page: str, containing: str) -> str:
    """The one code block of a page of the repository that contains these words: what its readers copy."""
    text = (Path(__file__).parents[1] / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```(?:\{code-cell\}|python)\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    (found,) = [block for block in blocks if containing in block]
    return found


def paper_study(alpha: float = 0.5, **changes: object) -> Study:
    document: dict[str, object] = {
        "arms": 6,
        "agents": 3,
        "weights": {"kind": "personalized", "alpha": alpha},
        "noise": {"kind": "gaussian", "scale": 1.0},
        "truth": {"generate": "paper"},
    }
    return parse_study(document | changes)


@st.composite
def instances(draw: st.DrawFn, max_arms: int = 6, max_agents: int = 5, top: int | None = None) -> Instance:
    arms = draw(st.integers(2, max_arms))
    return random_instance(
        draw(st.integers(0, 2**32 - 1)),
        arms=arms,
        agents=draw(st.integers(1, max_agents)),
        top=top if top is not None else draw(st.integers(1, arms - 1)),
        min_gap=1e-3,
    )


def awaited(coroutine):
    """Its value, from a loop of its own: a browser of another test may hold this thread's."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()


def first_quick(*cases, quick=1):
    """Cases of a test: the first are quick, the others ask the same of more and run with the simulations."""
    later = [case if isinstance(case, tuple) else (case,) for case in cases[quick:]]
    return [*cases[:quick], *(pytest.param(*case, marks=pytest.mark.simulations) for case in later)]
