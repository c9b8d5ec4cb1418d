"""Run with a copy of the product that has one more page, `arms`; `test_page.py` makes the copy."""

import sys
from pathlib import Path

from tests.dashboard.site import OF_A_STUDY, site

import parley


def main(folder):
    """It is there for who is signed in, with the headers and the frame of every page."""
    with site(folder) as here, here.browser() as browser, here.browser(False) as stranger:
        here.create()
        shown = browser.get("/studies/two/arms")
        assert shown.status_code == 200, shown.text
        assert '<ul id="arms"><li>a</li><li>b</li><li>c</li></ul>' in shown.text
        assert '<a href="/studies/two/arms" aria-current="page">Arms</a>' in shown.text
        assert '<a href="/studies/two/arms">Arms</a>' in browser.get("/studies/two").text
        assert OF_A_STUDY.count("/arms") == 1, "tests of every page know it from the registry"
        assert "default-src" in shown.headers["content-security-policy"]
        assert str(stranger.get("/studies/two/arms").url).startswith(f"{here.address}/sign-in")
        assert browser.get("/studies/nowhere/arms").status_code == 404


if __name__ == "__main__":
    assert Path(parley.__file__).is_relative_to(sys.argv[1]), "the copy, not the product"
    main(Path(sys.argv[1]).resolve())
