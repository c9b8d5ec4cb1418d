"""A new event with a field of its own, from the protocol to the page, the command and the API: a note in the log."""


def test_an_event_is_at_most_eight_files(product):
    protocol, coordinator = "protocol/events.py", "coordinator/http/routes/administration.py"
    product.put(
        protocol,
        'class Noted(_Event, tag="parley/event/noted/1"):\n'
        '    """A note for those who read the log; it changes nothing."""\n\n'
        '    template: ClassVar[str] = "{0.about}: {0.reason}"\n    about: str\n    reason: str\n\n\n',
        before='class Cancelled(_Event, tag="parley/event/cancelled/1"):',
    )
    product.put(protocol, "    | Noted\n", before="    | Cancelled\n")
    product.put(
        "protocol/state_machine.py",
        '    **{(stage, "noted"): frozenset({stage}) for stage in Stage},\n',
        before='    **{(stage, "report-quarantined")',
    )
    product.put(
        "coordinator/http/schemas.py",
        'class NoteBody(ReasonBody):\n    """A note, and what it is about."""\n\n    about: Name\n\n\n',
        before="class ConfirmBody(",
    )
    product.put(
        coordinator,
        "async def note(call: Call[None, schemas.NoteBody]) -> answers.StudyLine:\n"
        '    """Keep a note in the log."""\n'
        "    event = events.Noted(about=call.body.about, reason=call.body.reason)\n"
        "    return await call.act(partial(acts.record_event, study=call.study, event=event))\n\n\n",
        before="async def pause_study(",
    )
    product.put(
        "coordinator/http/operations.py",
        '        _act(STUDY + "/note", admin.note, schemas.NoteBody),\n',
        before='        _act(STUDY + "/pause"',
    )
    product.put(
        "cli/admin_changes.py",
        '@_change("note", click.argument("about"))\n'
        "def note(client: Client, study: str, about: str, reason: str) -> None:\n"
        '    """Keep a note in the log of STUDY."""\n'
        '    _carry_out(client, ("studies", study, "note"), "Noted", about=about, reason=reason)\n\n\n',
        before='@_change("amend"',
    )
    product.put("cli/admin_changes.py", "    note,\n", after="CHANGES = (\n")
    pages = "dashboard/pages/administration.py"
    product.put(
        pages,
        "async def note(shown: Page) -> Response:\n"
        '    """Keep a note."""\n'
        '    body = {key: shown.form.get(key, "").strip() for key in ("about", "reason")}\n'
        "    return await _act(shown, admin.note, body)\n\n\n",
        before="async def freeze(",
    )
    product.put(
        pages,
        '    page("/studies/{study}/note", note, "POST", only=ADMINISTRATORS),\n',
        before='    page("/studies/{study}/freeze"',
    )
    product.put(
        "dashboard/templates/administration.html",
        '<form method="post" action="{{ base }}/note"><input type="hidden" name="csrf" value="{{ csrf }}">'
        '<label>About <input name="about" required></label><label>Note <input name="reason" required></label>'
        '<button class="quiet">Keep a note</button></form>\n',
        before='<section aria-labelledby="act-title">',
    )
    assert len(product.touched) <= 8
    product.run("tests.recipes.event", str(product.folder))
