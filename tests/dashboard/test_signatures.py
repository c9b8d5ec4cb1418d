"""The answer's page is signed with the token entered again; page and report list who signed."""


def test_a_study_is_signed_on_its_answer_and_the_report_lists_it(here):
    study = here.create(study_id="signed")
    base, viewer = f"/studies/{study}", here.issue("viewer", name="v", study=study)
    with here.browser() as browser:
        page = browser.get(f"{base}/answer")
        assert "Nobody has signed" in page.text
        fields = {"name": "Ada <i>Example</i>", "meaning": "approved the protocol"}
        for wrong in ({"token": viewer}, {"token": ""}, {"token": here.token, "name": " "}):
            refused = browser.post(f"{base}/sign", data=fields | wrong)
            assert refused.status_code in (403, 422)
            assert "Nobody has signed" in refused.text
            assert "approved the protocol" in refused.text, "what was typed stays"
            assert here.token not in refused.text
        assert "not the token with which you signed in" in browser.post(f"{base}/sign", data=fields).text
        elsewhere = {"Sec-Fetch-Site": "cross-site"}
        assert browser.post(f"{base}/sign", data=fields | {"token": here.token}, headers=elsewhere).status_code == 403
        done = browser.post(f"{base}/sign", data=fields | {"token": here.token})
        assert done.url.fragment == "signatures-title"
        verified = browser.get(f"{base}/answer?verify=1").text
        assert "The log contains 1 signature." in verified
        for text in (done.text, browser.get(f"{base}/report").text):
            assert "Ada &lt;i&gt;Example&lt;/i&gt;" in text
            assert "administrator:office" in text
            assert "name as typed" in text.lower()
    with here.browser(viewer) as browser:
        page = browser.get(f"{base}/answer")
        assert "approved the protocol" in page.text
        fields = {"name": "Bo", "meaning": "read the protocol", "token": viewer}
        assert "viewer:v" in browser.post(f"{base}/sign", data=fields).text
    assert len(here.call("GET", f"studies/{study}/signatures")["signatures"]) == 2
