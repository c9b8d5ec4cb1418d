"""Pages in the reader's language: chosen or asked for by the browser, and with no English left over."""

import re
import shutil
from gettext import NullTranslations

import pytest
from tests.coordinator.support import House
from tests.dashboard.site import MEANS, OF_NO_STUDY, TABS, TWO
from tests.dashboard.test_audiences import Spoken
from tests.dashboard.walks import ENDINGS, HEAD, STORY, STUDIES, Readers, Walk, message
from tools.catalogs import VALUE

from parley.coordinator.access.tokens import prepare
from parley.coordinator.record import open_storage
from parley.dashboard.session import LANGUAGE_NAMES
from parley.hooks import edges
from parley.policies import POLICIES
from parley.protocol import EVENTS
from parley.protocol.report_checks import REASONS
from parley.settings import SETTINGS
from parley.text import translation
from parley.text.translation import AUDIENCES, LANGUAGES, reading

# What stays as it is: names of studies, sites, arms, outcomes and people, and the reasons that they gave;
NAMES = (
    *re.findall(r"[A-Za-z]+", HEAD), *("bleeding", "alive", "pain"),
    *("Two sites", "two", "running", "trial", "story", "guarded"),
    *("administrator:office", "office", "auditor", "analyst", "viewer", "coordinator", "bootstrap", "A. Person"),
    *("look", "looked", "enough", "as agreed", "closed", "seen", "reviewed the results", *REASONS),
)  # fmt: skip
# names of the product: of policies, of kinds of records, of pages of edges, of keys of the study file, of formats;
LINKS = [link.title for edge in edges() if (brought := edge.pages()) is not None for link in brought.links]
OWN = (*POLICIES, *EVENTS, *LINKS, "Parley", "JSON", "CSV", "TOML", "alpha", "rho", "UTC")
# names of operations, kinds of messages and of records of the server's log, hashes and ids, names that a picture cuts;
# and what Babel writes: dates, and how long ago something was.
GIVEN = re.compile(
    r"(token|webhook|preview|guarded)-\w+(-\w+)*|\b[0-9a-f]{4,}\b…?|\d+ \w+\.? \d{4}, \d\d:\d\d(:\d\d| UTC)|"
    r"vor \d+ \w+|[a-z]+\.[a-z_]+|[a-z]+_\w+|agent:\S+|\w+…|"
    + "|".join(rf"\b{re.escape(name)}\b" for name in sorted((*NAMES, *OWN), key=len, reverse=True))
)

# What a report has of a study as it is stated: keys, and the model of its rewards.
STATED = re.compile(
    r"(kind|scale|guess|mean|low|high|method) (\w+|[\d.]+)(?=[, ])|\[\w+\.csv\]|\\[<>]|"
    + "|".join(rf"^\| {re.escape(row.place)} (?=\|)" for row in SETTINGS.values()),
    re.MULTILINE,
)


class Marked(NullTranslations):
    """A language in which every message is its English in brackets, but for its values."""

    def gettext(self, message):
        return f"⟦{VALUE.sub(lambda found: f'⟧{found[0]}⟦', message)}⟧"

    def ngettext(self, one, many, count):
        return self.gettext(one if count == 1 else many)


class Unmarked(Spoken):
    """What a page says but for what it says is English: `lang="en"`."""

    def __init__(self, page):
        self.english = []
        super().__init__(page)

    def handle_starttag(self, tag, attributes):
        if self.english or (tag != "html" and dict(attributes).get("lang") == "en"):
            if tag not in ("input", "br"):
                self.english.append(tag)
            return
        super().handle_starttag(tag, attributes)

    def handle_endtag(self, tag):
        if self.english:
            self.english.pop()
            return
        super().handle_endtag(tag)

    def handle_data(self, data):
        if not self.english:
            super().handle_data(data)


@pytest.fixture
def marked(monkeypatch):
    monkeypatch.setattr(translation, "_words", lambda _audience, _language: translation._Words(Marked(), "de"))


def left_over(page):
    """What a page says that is in no message."""
    page = re.sub("placeholder='[^']*'", "", page.partition('<nav class="languages"')[0])  # a study file: TOML
    return unsaid(" | ".join(Unmarked(page).said))


def outside(text):
    """A text without its messages; the values within them stay."""
    while re.search(r"⟦[^⟦⟧]*⟧", text):
        text = re.sub(r"⟦[^⟦⟧]*⟧", " ", text)
    return text


def unsaid(text):
    """Words of a text that are in no message, and no names."""
    pieces = outside(text).split("|")
    return [word.strip() for piece in pieces for word in re.findall(r"[A-Za-z]{3,}.*", GIVEN.sub("", piece))]


def left_over_in_report(text):
    """What a report as Markdown says that is in no message; settings are there by their keys, with their values."""
    return unsaid(re.sub(r"^    .*$", "", STATED.sub("", text), flags=re.MULTILINE).replace("\n", "|"))


@pytest.fixture(scope="module")
def house(prepared_sqlite, tmp_path_factory):
    database = str(shutil.copy(prepared_sqlite, tmp_path_factory.mktemp("languages") / "parley.db"))
    token = prepare(database, at="2026-01-01T00:00:00.000Z", name="office")[2]
    storage = open_storage(database)
    made = House(storage, admin=token)
    made.readers = Readers(made)
    yield made
    made.readers.close()
    made.close()
    storage.close()


def assert_translated(house, walk, roles):
    """Every page of a study, for some roles, says nothing but messages and names."""
    found = set()
    for role in roles:
        browser = house.readers.browsers[role]
        addresses = (*OF_NO_STUDY, *house.readers.addresses(walk.status))
        for address in (one for one in addresses if not one.endswith(("/report", "/dossier"))):  # tested in their files
            answer = browser.get(address)
            if answer.headers["content-type"].startswith("text/html"):
                found |= {(role, address, words) for words in left_over(answer.text)}
    report = house.readers.browsers["administrator"].get(f"/studies/{walk.id}/report.md").text
    assert report.startswith("# ")
    found |= {("administrator", "report.md", words) for words in left_over_in_report(report)}
    assert not found, (walk.done, sorted(found)[:40])


@pytest.mark.usefixtures("marked")
def test_no_english_is_left_over_where_nobody_is_signed_in(here):
    with here.browser(False) as browser:
        assert left_over(browser.get("/sign-in").text) == []
        assert left_over(browser.post("/sign-in", data={"token": "nobody"}).text) == []
    with here.browser() as browser:
        assert left_over(browser.get("/").text) == []
        here.create(TWO, "two")
        for path in ("/", "/?search=nothing+like+it", "/studies/none"):
            assert left_over(browser.get(path).text) == [], path
        page = browser.get("/tokens").text
        assert left_over(page.replace("</h1>", " forgotten</h1>", 1)) == ["forgotten"], "the test finds it"


@pytest.mark.usefixtures("marked")
def test_no_english_is_left_over_of_a_study_in_its_second_phase(here):
    study = here.create(TWO, "running")
    here.phase(study, MEANS)
    with here.browser() as browser:
        for path in (*OF_NO_STUDY, *(f"/studies/{study}{tab}" for tab in TABS)):
            assert left_over(browser.get(path).text) == [], path


@pytest.mark.simulations
@pytest.mark.usefixtures("marked")
def test_no_english_is_left_over_of_a_study_to_which_much_happened(house):
    walk = Walk(house, message("rates", "trial"), seed=5, study_id="story")
    assert_translated(house, walk, ("administrator",))
    for act in STORY[:4]:
        walk.step(act)
    assert_translated(house, walk, ("viewer",))
    for act in STORY[4:]:
        walk.step(act)
    assert_translated(house, walk, ("administrator",))


@pytest.mark.simulations
@pytest.mark.usefixtures("marked")
@pytest.mark.parametrize("kind", STUDIES)
def test_no_english_is_left_over_whatever_happened(house, kind):
    for seed, how in enumerate(ENDINGS):
        walk = Walk(house, message(kind, AUDIENCES[seed]), seed, f"guarded-{kind.replace(' ', '-')}-{seed}")
        for step in range(25):
            walk.step()
            if step % 8 == 7:
                assert_translated(house, walk, ("administrator",))
        walk.end(how)
        assert_translated(house, walk, ("administrator", "viewer"))


@pytest.mark.parametrize(("language", "word"), [("de", "Studien"), ("fr", "Études"), ("es", "Estudios")])
def test_the_browser_asks_for_a_language_and_the_reader_may_choose_another(here, language, word):
    with here.browser() as browser:
        page = browser.get("/", headers={"Accept-Language": f"{language}-XX, en;q=0.5"}).text
        assert f'<html lang="{language}">' in page
        assert f"<h1>{word}</h1>" in page
        assert "<h1>Studies</h1>" in browser.get("/").text
        assert f"<h1>{word}</h1>" in browser.get(f"/?language={language}").text
        assert f"<h1>{word}</h1>" in browser.get("/").text  # kept
        assert "<h1>Studies</h1>" in browser.get("/?language=en").text
        assert "<h1>Studies</h1>" in browser.get("/?language=xx").text


def test_numbers_and_times_are_written_as_the_language_does():
    from parley.dashboard.render import ago, clock
    from parley.text.formatting import number

    assert set(LANGUAGE_NAMES) == set(LANGUAGES)
    with reading("bandit", "de"):
        assert number(1234567) == "1.234.567"
        assert clock("2026-01-03T08:09:10.123Z") == "3 Januar 2026, 08:09 UTC"
        assert ago("2020-01-03T08:09:10.123Z").startswith("vor ")
