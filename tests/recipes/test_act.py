"""A new act, from its row to the API, the command, the page and the log; with an event of its own, and without."""

ROW = """    Act(
        name="note_study",
        command="note",
        path="note",
        kind="{kind}",
        words="Keep a note in the log.",
        body=NoteBody,
        event=lambda _, given: {event},
        button="Keep a note",
        done="Noted",
        grave=False,
    ),
"""
BODY = '''class NoteBody(ReasonBody):
    """A note, and what it is about."""

    about: Annotated[Name, described("What the note is about.")]


'''


def row(product, kind, event):
    product.put("protocol/acts.py", BODY, before="class ConfirmBody(")
    product.put("protocol/acts.py", ROW.format(kind=kind, event=event), after="_ROWS = (\n")


def test_an_act_with_an_event_of_its_own_is_at_most_six_files(product):
    """Three here: the row, the event, where it may happen. One that changes the trial, leaves rows or has a preview
    adds `trial.py`, `writer.py` and `previews.py`."""
    row(product, "noted", "events.Noted(about=given.about, reason=given.reason)")
    product.put(
        "protocol/events.py",
        'class Noted(_Event, tag="parley/event/noted/1"):\n'
        '    """A note for those who read the log; it changes nothing."""\n\n'
        '    template: ClassVar[str] = "{0.about}: {0.reason}"\n    about: str\n    reason: str\n\n\n',
        before='class Cancelled(_Event, tag="parley/event/cancelled/1"):',
    )
    product.put("protocol/events.py", "    | Noted\n", before="    | Cancelled\n")
    product.put(
        "protocol/state_machine.py",
        '    **{(stage, "noted"): frozenset({stage}) for stage in Stage},\n',
        before='    **{(stage, "report-quarantined")',
    )
    assert len(product.touched) == 3
    product.run("tests.recipes.act", str(product.folder), "noted")


def test_an_act_that_becomes_a_known_event_is_one_file(product):
    """And its rule and its words, where it has any: three."""
    row(
        product,
        "signed",
        'events.Signed(principal=given.by, name=given.about, meaning=f"{given.about}: {given.reason}")',
    )
    assert len(product.touched) == 1
    product.run("tests.recipes.act", str(product.folder), "signed")


REMINDED = """    Act(
        name="remind_agent",
        command="remind",
        path="agents/{agent}/remind",
        kind="signed",
        words="Note that an agent was reminded.",
        body=RemindBody,
        preview=Preview(
            name="preview_reminder",
            kind=ReminderPreview,
            words="What reminding an agent would do.",
            look=lambda trial, given: reminder_preview(trial, given.agent),
            tells=(EFFECT,),
        ),
        event=lambda _, given: events.Signed(principal=given.by, name=given.by_whom, meaning=given.reason),
        section="sites",
        heading="If {agent} is reminded",
        button="Remind {agent}",
        done="Reminded",
    ),
"""
REMIND_BODY = '''class RemindBody(ConfirmBody):
    """The reason, the digest of the preview, and who reminded."""

    by_whom: Annotated[Name, described("Who reminded the agent.")]


'''
REMINDER = '''

class ReminderPreview(Message, tag="parley/reminder-preview/1"):
    """What reminding an agent would do."""

    agent: str
    effect: str


def reminder_preview(trial: Trial, agent: str) -> ReminderPreview:
    """Preview a reminder."""
    return ReminderPreview(agent=agent, effect=Translatable("{0} is one of {1} agents", agent, len(trial.study.agents)))
'''
IN_TRIALS = """
msgid "Note that an agent was reminded."
msgstr "Note that a site was reminded."

msgid "{0} is one of {1} agents"
msgstr "{0} is one of {1} sites"
"""


def test_an_act_with_a_preview_in_another_section_is_three_files(product):
    """The row, its preview, its words."""
    product.put("protocol/acts.py", REMINDED, after="_ROWS = (\n")
    product.put("protocol/acts.py", REMIND_BODY, before="class FreezeBody(")
    product.put(
        "protocol/acts.py", "    ReminderPreview,\n    reminder_preview,\n", before="    ReweighPreview,\n    Thaw"
    )
    product.put("protocol/previews.py", REMINDER)
    product.put("text/catalogs/trial.po", IN_TRIALS)
    assert len(product.touched) == 3
    product.run("tests.recipes.act_with_preview", str(product.folder))
