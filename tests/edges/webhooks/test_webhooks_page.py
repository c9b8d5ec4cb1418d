"""The page of webhooks: an administrator adds, tests and removes one, and reads why messages do not arrive."""

import re

import pytest
from tests.dashboard.site import site


@pytest.fixture(scope="module")
def allowing(tmp_path_factory):
    with site(tmp_path_factory.mktemp("site"), webhook_allow="127.0.0.1") as made:
        yield made


def send(browser, path, **fields):
    return browser.post(path, data=fields)


def test_one_is_added_tested_and_removed(allowing):
    with allowing.browser() as browser:
        url = "http://127.0.0.1:9/a?b=c"  # where nobody listens
        added = send(browser, "/webhooks", url=url, **{"study.ended": "on"}).text
        assert len(re.findall(r"whsec_[A-Za-z0-9+/]{43}=", added)) == 1
        webhook = re.search(r"wh_[0-9a-f]{8}", added)[0]
        assert "whsec_" not in browser.get("/webhooks").text
        assert "did not arrive: All connection attempts failed" in send(browser, "/webhooks/test", webhook=webhook).text
        assert "127.0.0.1" in browser.get("/log").text
        assert webhook not in send(browser, "/webhooks/remove", webhook=webhook).text


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"url": "https://evil.example/", "study.ended": "on"}, "--webhook-allow"),
        ({"url": "http://127.0.0.1/"}, "found none"),
        ({"url": "http://127.0.0.1/", "study": "nowhere", "study.ended": "on"}, "no study"),
    ],
)
def test_what_is_wrong_is_said_and_what_was_typed_stays(allowing, fields, words):
    with allowing.browser() as browser:
        answer = send(browser, "/webhooks", **fields)
        assert answer.status_code in (404, 422)
        assert words in answer.text
        assert f'value="{fields["url"]}"' in answer.text


def test_without_an_allowed_host_the_page_says_who_can_change_that(here):
    with here.browser() as browser:
        assert "parley serve --webhook-allow" in browser.get("/webhooks").text
