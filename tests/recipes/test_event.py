"""A new event, from the protocol to the page, the command and the API: an administrator's note, kept in the log."""


def test_an_event_is_at_most_eight_files(product):
    protocol, coordinator = "protocol/events.py", "coordinator/http/routes/administration.py"
    product.put(
        protocol,
        'class Noted(_Event, tag="parley/event/noted/1"):\n'
        '    """A note for those who read the log; it changes nothing."""\n\n    reason: str\n\n\n',
        before='class Cancelled(_Event, tag="parley/event/cancelled/1"):',
    )
    product.put(protocol, "    | Noted\n", before="    | Cancelled\n")
    product.put(
        "protocol/state_machine.py",
        '    **{(stage, "noted"): frozenset({stage}) for stage in Stage},\n',
        before='    **{(stage, "report-quarantined")',
    )
    product.put(
        "coordinator/studies/acts.py",
        "def note(transaction: Transaction, study: str, reason: str, *, actor: str, at: str) -> StudyRow:\n"
        '    """Keep a note in the log."""\n'
        "    from parley.protocol.events import Noted\n\n"
        "    return enact(transaction, locked(transaction, study), Noted(reason=reason), actor=actor, at=at)\n\n\n",
        before="def pause_study(",
    )
    product.put(
        coordinator,
        "async def note(call: Call[None, schemas.ReasonBody]) -> answers.StudyLine:\n"
        '    """Keep a note in the log."""\n'
        "    return await call.act(partial(acts.note, study=call.study, reason=call.body.reason))\n\n\n",
        before="async def pause_study(",
    )
    product.put(
        "coordinator/http/operations.py",
        '        _act(STUDY + "/note", admin.note, schemas.ReasonBody),\n',
        before='        _act(STUDY + "/pause"',
    )
    product.put(
        "cli/admin_changes.py",
        '    _reason_command("note", "Keep a note in the log of STUDY."),\n',
        before='    _reason_command("pause"',
    )
    product.put("dashboard/pages/administration.py", '"note": admin.note, ', after="ACTS: dict[str, Act] = {")
    product.put(
        "dashboard/templates/administration.html",
        '<button class="quiet" name="do" value="note">Keep a note</button>\n',
        before='<button class="grave" name="do" value="cancel">',
    )
    assert len(product.touched) <= 8
    product.run("tests.recipes.event", str(product.folder))
