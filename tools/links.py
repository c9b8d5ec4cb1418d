"""Check every external link of the pages once: `make links`. Not a test, since it needs the internet."""

import re
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from urllib.error import HTTPError, URLError

from tests.test_documentation import PAGES

OWN = ("127.0.0.1", "localhost", "example")  # this machine, or examples


def addresses():
    found = {
        (address, page.name)
        for page in PAGES
        for address in re.findall(r"https?://[^\s)`\"'>\]]+", page.read_text("utf-8"))
        if not any(own in address for own in OWN)
    }
    return sorted(found)


def asked(entry):
    """What is wrong with a link; empty if nothing is."""
    request = urllib.request.Request(entry[0], headers={"User-Agent": "Mozilla/5.0"})
    try:
        with urllib.request.urlopen(request, timeout=20):
            return None
    except (HTTPError, URLError, TimeoutError, ValueError) as error:
        return str(error)


def main():
    every = addresses()
    with ThreadPoolExecutor() as pool:
        wrong = [(*entry, words) for entry, words in zip(every, pool.map(asked, every), strict=True) if words]
    for address, page, words in wrong:
        print(f"{page}: {address}: {words}")
    print(f"{len(every)} addresses, {len(wrong)} that did not answer")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
