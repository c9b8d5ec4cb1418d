"""A whole study on a phone by the page alone, in German and in French: enrolment to the end, with every way to mend."""

import io
import os
import re
import time
from pathlib import Path

import openpyxl
import pytest
from playwright.sync_api import expect
from tests.browser.live import Server
from tests.browser.test_accessible import Axe, _serious
from tests.browser.ward import Ward
from tests.site.states import left_over

PHONE = {"width": 390, "height": 844}
STUDY = """\
name = "{title}"
audience = "trial"
arms = ["Aqua", "Zylo"]
agents = ["Lyon"]
largest_gap = 2.0
max_rounds = 2

[noise]
kind = "bounded"
low = 0.0
high = 1.0

[covariate]
name = "{age}"
range = [18, 100]

[sites]
contact = "Dr. Weber"
question = "{asks}"
eligibility = ["{eligible}"]
grace_hours = 24

[[outcomes]]
name = "{bleeding}"
question = "{bled}"
kind = "binary"
role = "secondary"
better = "lower"

[[outcomes]]
name = "{pain}"
question = "{hurts}"
kind = "bounded"
low = 0
high = 10
role = "secondary"
better = "lower"
"""
GERMAN = {
    "title": "Wunden", "age": "Alter", "asks": "Heilung nach 14 Tagen?", "eligible": "Über 18?",
    "bleeding": "Blutung", "bled": "Hat es geblutet?", "pain": "Schmerz", "hurts": "Schmerz heute?",
    "assign": "Zuteilen", "unknown": re.compile("Zuteilen; Alter"), "mistake": "Irrtümlich zugeteilt",
    "why": "Warum es ein Irrtum war", "who": "Ihr Name", "void": "Zuteilung von {key} für ungültig erklären",
    "voided": "Die Zuteilung von p-3 ist ungültig.", "save": "Speichern", "yes": "Ja", "upload": "Tabelle hochladen",
    "check": "Prüfen", "enter": "Alles eintragen", "person": "Teilnehmer", "reward": "Ergebnis",
    "of": "Ergebnis von p-1",
    "send": "Jetzt senden", "find": "Suchen", "key": "Nach Kennung suchen",
    "correct": "Berichtigen", "wrong": "Was falsch war", "hand over": "Berichtigung von p-1 senden",
    "kept": "Die Berichtigung von p-1 ist festgehalten.", "waits": "Die Berichtigung ist noch nicht bestätigt.",
    "accepted": "Die Berichtigung wurde angenommen.", "end": "Die Studie ist beendet",
}  # fmt: skip
FRENCH = {
    "title": "Plaies", "age": "Âge", "asks": "Guérison après 14 jours ?", "eligible": "Plus de 18 ans ?",
    "bleeding": "Saignement", "bled": "A-t-il saigné ?", "pain": "Douleur", "hurts": "Douleur du jour ?",
    "assign": "Attribuer", "unknown": re.compile("Attribuer ; Âge"), "mistake": "Attribué par erreur",
    "why": "Pourquoi c’était une erreur", "who": "Votre nom", "void": "Annuler l’attribution de {key}",
    "voided": "L’attribution de p-3 est annulée.", "save": "Enregistrer", "yes": "Oui", "upload": "Envoyer un tableau",
    "check": "Vérifier", "enter": "Tout saisir", "person": "participant", "reward": "résultat",
    "of": "Résultat de p-1",
    "send": "Envoyer maintenant", "find": "Chercher", "key": "Chercher par identifiant",
    "correct": "Corriger", "wrong": "Ce qui était faux", "hand over": "Envoyer la correction de p-1",
    "kept": "La correction de p-1 est enregistrée.", "waits": "La correction n’est pas encore confirmée.",
    "accepted": "La correction a été acceptée.", "end": "L’étude est terminée",
}  # fmt: skip


class Nurse:
    """Somebody with a phone and the page; every page that she sees is read for what is wrong with it."""

    def __init__(self, window, ward, language, words):
        self.page, self.ward, self.language, self.words = window.page, ward, language, words
        own = ("title", "age", "asks", "eligible", "bled", "hurts", "bleeding", "pain")
        self.names = (*(words[name] for name in own), "Aqua", "Zylo", "Lyon", "Weber", "Dr.", "Kim", "Vwq", ward.study)
        self.seen = 0

    def look(self, name=""):
        page = self.page
        assert not (found := left_over(page.content(), self.language, "trial", self.names)), (name, found)
        assert page.evaluate("document.scrollingElement.scrollWidth") <= PHONE["width"], name
        if name:
            assert _serious(Axe(), page) == [], name
            if folder := os.environ.get("PARLEY_BEDSIDE"):
                self.seen += 1
                page.screenshot(path=Path(folder) / f"{self.language}-{self.seen:02}-{name}.png", full_page=True)

    def assign(self, key, age):
        page, words = self.page, self.words
        page.locator("#assign-key").fill(key)
        page.get_by_label(words["eligible"]).check()
        if age is None:
            page.get_by_role("button", name=words["unknown"]).click()
        else:
            page.locator("#assign-covariate").fill(age)
            page.get_by_role("button", name=words["assign"], exact=True).click()
        expect(page.locator(".given .eyebrow")).to_contain_text(key)
        self.look()

    def find(self, key):
        self.page.get_by_label(self.words["key"]).fill(key)
        self.page.get_by_role("button", name=self.words["find"], exact=True).click()
        expect(self.page.locator("details.person").first).to_contain_text(key)

    def upload(self, keys):
        """All outcomes of some people, from a workbook, after a look at what it will do."""
        page, words = self.page, self.words
        book = openpyxl.Workbook()
        book.active.append([words["person"], words["reward"], words["bleeding"], words["pain"]])
        for number, key in enumerate(keys):
            book.active.append([key, 0.25, number % 2, 4.5])
        file = io.BytesIO()
        book.save(file)
        page.get_by_text(words["upload"]).click()
        page.locator("#file").set_input_files(
            {"name": "a.xlsx", "mimeType": "application/zip", "buffer": file.getvalue()}
        )
        page.get_by_role("button", name=words["check"], exact=True).click()
        expect(page.locator("#preview-title")).to_be_visible()

    def fill(self, number):
        """Whom the phase still needs, with keys from a number on; returns these."""
        keys = []
        while self.ward.status()["to_assign"]:
            keys.append(f"p-{number + len(keys)}")
            self.assign(keys[-1], str(40 + len(keys)))
        return keys

    def arm(self, key):
        return self.ward.post("/v1/assignments", participant=key).json()["arm"]

    def until(self, words):
        """Load the page again until it says so."""
        end = time.monotonic() + 120
        while words not in self.page.locator("main").inner_text():
            assert time.monotonic() < end, self.page.locator("main").inner_text()
            time.sleep(0.5)
            self.page.goto("/")


@pytest.fixture(scope="module")
def coordinator(tmp_path_factory):
    made = Server(tmp_path_factory.mktemp("coordinator"))
    yield made
    made.stop()


def enrolment(nurse):
    """One with the covariate, one without, one by mistake; then all whom the phase still needs. Returns their keys."""
    page, words = nurse.page, nurse.words
    page.goto("/")
    nurse.look("start")
    nurse.assign("p-1", "63,5")
    nurse.look("assigned")
    nurse.assign("p-2", None)
    nurse.assign("p-3", "40")
    page.locator("details.person", has_text="p-3").get_by_text(words["mistake"]).click()
    form = page.locator("details.void[open]")
    form.get_by_label(words["why"]).fill("Vwq")
    form.get_by_label(words["who"]).fill("Kim")
    nurse.look("void")
    form.get_by_role("button", name=words["void"].format(key="p-3")).click()
    expect(page.get_by_role("status").first).to_contain_text(words["voided"])
    nurse.look("voided")
    return ["p-1", "p-2", *nurse.fill(4)]


def outcomes(nurse, came):
    """The first by hand, everybody else from a workbook; and an edit before the report is sent."""
    page, words = nurse.page, nurse.words
    pain = f"p-1, {words['hurts']}"
    nurse.find("p-1")
    page.get_by_label(words["of"]).fill("0,5")
    page.get_by_role("button", name=f"{words['save']} p-1, {words['asks']}").click()
    nurse.look("noted")
    page.get_by_role("button", name=f"{words['yes']} p-1, {words['bled']}").click()
    page.get_by_label(pain).fill("2,5")
    page.get_by_role("button", name=f"{words['save']} {pain}").click()
    nurse.upload(came[1:])
    nurse.look("preview")
    page.get_by_role("button", name=words["enter"]).click()
    expect(page.locator("#grace-title")).to_be_visible()
    nurse.look("complete")
    nurse.find("p-1")
    page.locator("details.answer summary", has_text="2,5").click()
    page.get_by_label(pain).fill("3,5")
    page.get_by_role("button", name=f"{words['save']} {pain}").click()
    expect(page.get_by_role("status").first).to_contain_text("3,5")
    page.get_by_role("button", name=words["send"]).click()


def correction(nurse):
    """Two outcomes of one person, after the report."""
    page, words = nurse.page, nurse.words
    page.goto("/")
    nurse.find("p-1")
    page.locator("details.void summary", has_text=words["correct"]).click()
    form = page.locator("details.void[open]")
    form.get_by_label(words["asks"]).fill("0,75")
    form.get_by_label(words["bled"]).select_option("0")
    form.get_by_label(words["wrong"]).fill("Vwq")
    form.get_by_label(words["who"]).fill("Kim")
    nurse.look("correct")
    form.get_by_role("button", name=words["hand over"]).click()
    expect(page.get_by_role("status").first).to_contain_text(words["kept"])
    nurse.look("corrected")
    nurse.until(words["waits"])
    nurse.look("waiting")


@pytest.mark.parametrize(("language", "words"), [("de", GERMAN), ("fr", FRENCH)], ids=["German", "French"])
def test_a_whole_study_on_a_phone_by_the_page_alone(visit, coordinator, tmp_path, language, words):
    study = coordinator.create(STUDY.format(**words), f"bedside-{language}")
    ward = Ward(coordinator, tmp_path, study=study, agent="Lyon")
    try:
        ward.wait(lambda found: found["to_assign"] > 0)
        window = visit(ward, viewport=PHONE, has_touch=True, locale=language, bypass_csp=True)
        nurse = Nurse(window, ward, language, words)
        came = enrolment(nurse)
        arms = {key: nurse.arm(key) for key in came}
        outcomes(nurse, came)
        ward.wait(lambda found: found["phase"] == 2)
        correction(nurse)
        _confirm(visit, coordinator, study)
        nurse.until(words["accepted"])
        nurse.look("accepted")
        nurse.upload(nurse.fill(len(came) + 2))
        nurse.page.get_by_role("button", name=words["enter"]).click()
        nurse.page.get_by_role("button", name=words["send"]).click()
        ward.wait(lambda found: found["stage"] == "finished")
        nurse.until(words["end"])
        nurse.find("p-1")
        nurse.look("end")
        assert {key: nurse.arm(key) for key in came} == arms, "nobody's arm changed"
        read = coordinator.call("GET", f"studies/{study}/phases/1/reports/Lyon")
        moved = sum(read["corrections"][0]["report"]["sums"]) - sum(read["report"]["sums"])
        assert (moved, read["report"]["voided"]) == (pytest.approx(0.25), 1)
    finally:
        ward.stop()


def _confirm(visit, coordinator, study):
    """The administrator, on the dashboard: looks at what the correction would do, and agrees."""
    page = visit(coordinator, coordinator.token).page
    page.goto(f"/studies/{study}/administration")
    page.get_by_role("button", name="Show what this correction would do").click()
    page.get_by_label("Reason, kept in the log").first.fill("Vwq")
    if folder := os.environ.get("PARLEY_BEDSIDE"):
        page.screenshot(path=Path(folder) / f"{study}-preview.png", full_page=True)
    page.get_by_role("button", name="Correct the report of Lyon in phase 1").click()
    expect(page.get_by_text("The report was corrected with these numbers.")).to_be_visible()
