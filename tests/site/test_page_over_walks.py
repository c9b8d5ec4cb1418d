"""The page of a site after whatever happened to its study at a coordinator, in every language."""

import pytest
from starlette.testclient import TestClient
from tests.dashboard.test_everything_renders import house  # noqa: F401
from tests.dashboard.walks import ENDINGS, OTHERS, STUDIES, Walk, message
from tests.site.states import left_over

from parley.agent.privacy import SitePolicy
from parley.agent.reporting import SiteRuntime, hand_over, site_of
from parley.errors import ParleyError
from parley.site.access import Access
from parley.site.app import create_app
from parley.text.translation import AUDIENCES, LANGUAGES

STEPS, MOST = 24, 60  # acts of a walk, and people who come between two of them
SITE = "North"


class SiteWalk(Walk):
    """A walk in which one agent is a site, where people come and outcomes follow."""

    def __init__(self, house, study, seed, study_id, folder):  # noqa: F811
        super().__init__(house, study, seed, study_id)
        self.folder, self.client, self.came = folder, self.clients[SITE], 0
        policy = SitePolicy(hold=seed % 2 == 1)
        self.site = site_of(folder, self.client, study=study_id, agent=SITE, policy=policy)
        if study.problem.kits:
            kits = (f"Kq{number:04},{arm}" for number, arm in enumerate(1000 * study.arms))
            self.site.list_kits("\n".join(["kit,arm", *kits]).encode(), "kits.csv")

    def agent(self):
        return self.chance.choice([name for name in self.study.agents if name != SITE])

    def report(self, agent=None):
        if agent == SITE:
            self.work()
            return False
        return super().report(agent)

    def work(self):
        """People come, and the site hands over what it has."""
        for _ in range(MOST):
            self.came += 1
            key = f"Kq-{self.came}"
            try:
                self.site.assign(key)
                if self.chance.random() < 0.1:
                    self.site.missing(key)
                else:
                    self.site.outcome(key, float(self.chance.random() < 0.4))
                for one in self.study.problem.outcomes:
                    self.site.outcome(key, float(self.chance.random() < 0.4), one.name)
            except ParleyError:
                break
        try:
            hand_over(self.site, self.client, self.folder)
        except ParleyError:
            return

    def pages(self):
        """The page in every language."""
        runtime = SiteRuntime(self.site, self.client, self.folder)
        try:
            browser = TestClient(create_app(runtime, Access(host="127.0.0.1")), base_url="http://127.0.0.1")
            for language in LANGUAGES:
                answer = browser.get("/", headers={"Accept-Language": language})
                assert answer.status_code == 200, answer.text
                yield language, answer.text
        finally:
            runtime._outbox.close()


@pytest.mark.simulations
@pytest.mark.parametrize("kind", STUDIES)
def test_the_page_over_a_walk(house, tmp_path, kind):  # noqa: F811
    names = (SITE, "Four places <b>", *OTHERS, "placebo", "low", "high", "later", "look", "looked", "enough")
    for seed, audience in enumerate(AUDIENCES):
        study = message(kind, audience, f"[sites]\ngrace_hours = 0\nshow_answer = {str(seed != 1).lower()}\n")
        walk = SiteWalk(house, study, seed, f"site-{kind.replace(' ', '-')}-{seed}", tmp_path / str(seed))
        stages = set()
        for step in range(STEPS + 1):
            walk.step() if step < STEPS else walk.end(ENDINGS[seed % len(ENDINGS)])
            walk.work()
            stages.add(walk.site.people.stage.stage)
            for language, page in walk.pages():
                found = left_over(page, language, audience, (*names, walk.id, "Kq"))
                assert not found, (walk.done, walk.site.status(), language, audience, found)
        walk.site.close()
        assert stages & {"finished", "cancelled"}, stages
