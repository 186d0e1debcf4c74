"""The commands: one table, one parser, and what each prints."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from flownb.errors import WorkflowError

ABOUT = """\
The runs of a store: which there are, what they do, what they ask; answer, cancel, resume and export them.

  python -m flownb runs --status waiting        which runs wait
  python -m flownb requests                     what they ask, and the command that answers it
  python -m flownb reviews --csv record.csv     what was answered, by whom, when and how
  python -m flownb answer 7f3a:1 decision=approve
  python -m flownb serve                        answer in a browser; its own link for each question
  python -m flownb show 7f3a                    one run: why, who drives it, its last ticks
  python -m flownb resume flows:triage 7f3a     go on with it here; flows.py is in this folder

The store is --store, else the variable FLOWNB_STORE, else .flownb/runs.db of this folder, where notebooks keep theirs.
It is a file or postgresql://user@host/database. Looking changes nothing, and works while another process drives.
"""
EXITS = "Exits with 0; with 1 if it could not be done, or the run failed; with 2 for a wrong command; 130 after Ctrl-C."

Args = argparse.Namespace


class Option(NamedTuple):
    """An argument of a command."""

    names: tuple[str, ...]
    settings: dict[str, Any]


def _option(*names: str, **settings: Any) -> Option:
    return Option(names, settings)


class Command(NamedTuple):
    """A word after `python -m flownb`."""

    do: Callable[[Args], int]
    about: str
    options: tuple[Option, ...]
    more: str = ""


# What they do. Each imports what it needs: `--help` is quick.


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        print(line)


def _json(value: Any) -> None:
    from flownb.cli.words import as_json

    print(as_json(value))


def runs(args: Args) -> int:
    from flownb.cli import looking
    from flownb.cli.places import opened

    with opened(args.store) as store:
        rows = looking.list_runs(store, args.status, args.workflow, 0, args.children)
        shown = rows[: args.limit] if args.limit else rows
        if args.json:
            _json([looking.run_json(store, row) for row in shown])
        else:
            _print(looking.runs_lines(store, shown, len(rows) - len(shown)))
    return 0


def show(args: Args) -> int:
    from flownb.cli import looking
    from flownb.cli.places import opened, store_words

    with opened(args.store) as store:
        sight = looking.see(store, looking.full_id(store, args.run), args.ticks)
        if args.json:
            _json(looking.show_json(store, sight, store_words(args.store, store)))
        else:
            _print(looking.show_lines(store, sight, store_words(args.store, store)))
    return 0


def requests(args: Args) -> int:
    from flownb.cli import looking
    from flownb.cli.places import opened, store_words

    with opened(args.store) as store:
        found, links = looking.open_questions(store), {}
        if args.links is not None:
            from flownb.cli import serving

            links = serving.links(store, args.links)
        if args.json:
            more = [{"link": links.get(asked.id) or None} if args.links is not None else {} for asked in found]
            part = store_words(args.store, store)
            _json([looking.asked_json(asked, part) | link for asked, link in zip(found, more, strict=True)])
            return 0
        for asked in found:
            _print(looking.question_lines(asked, store_words(args.store, store)))
            if links.get(asked.id):
                print(f"  {links[asked.id]}")
        if not found:
            print("Nobody is asked anything.")
    return 0


def reviews(args: Args) -> int:
    from flownb.cli.places import opened
    from flownb.cli.words import brief, clean, clock, plural, table

    with opened(args.store) as store:
        found = store.reviews(workflow=args.workflow, by=args.by, since=_moment(args.since))
    if args.csv:
        path = found.to_csv(args.csv)
        if args.json:
            _json({"file": str(path), "reviews": len(found)})
        else:
            print(f"{clean(path)}: {plural(len(found), 'question')}.")
    elif args.json:
        _json([{**row.to_dict(), "at": row.at} for row in found])
    elif not found:
        print("Nothing was decided.")
    else:
        lines = [
            (
                clock(row.at or 0.0), clean(row.id), clean(row.how), clean(row.by), brief(row.question, 60),
                brief(row.said(), 60),
            )
            for row in found
        ]  # fmt: skip
        _print(table(lines, ("AT", "REQUEST", "HOW", "BY", "QUESTION", "ANSWER")))
    return 0


def _moment(text: str | None) -> float | None:
    """Unix seconds of a date or time that was typed; without a zone it is local."""
    if not text:
        return None
    from datetime import datetime

    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        raise WorkflowError(f"{text!r} is no date: write 2026-12-24, or 2026-12-24T18:30.") from None


def answer(args: Args) -> int:
    from flownb.cli import acting
    from flownb.cli.places import opened

    with opened(args.store) as store:
        run_id, number = acting.answer(store, args.request, args.answer, args.by)
        driver = acting.driver_of(store, run_id)
        if args.json:
            _json({"run": run_id, "request": f"{run_id}:{number}", "driver": driver or None})
        elif driver:
            print(f"Answered {run_id}:{number}; {driver} drives the run.")
        else:
            print(f"Answered {run_id}:{number}. The run takes it where a process waits with it, or when it is resumed.")
    return 0


def serve(args: Args) -> int:
    from flownb.cli import serving
    from flownb.cli.places import opened, store_words
    from flownb.cli.words import words_of

    def say(line: str) -> None:
        if not args.json:
            print(line, flush=True)

    serving.check(args.host, args.public)
    with opened(args.store) as store:

        def begun(base: str, index: str) -> None:
            if args.json:
                _json({"url": base, "index": index or None, "store": store.place})
                sys.stdout.flush()
            command = ["python", "-m", "flownb", "requests", "--links", base, *store_words(args.store, store)]
            say(f"Questions of {store.place} are answered at {base}. Ctrl-C ends it.")
            if index:
                say(f"Those that are open, for you alone: {index}")
            say(f"Their links: {words_of(command)}")

        serving.serve(store, args.host, args.port, args.name, opens=args.open, say=say, begun=begun)
    return 0


def cancel(args: Args) -> int:
    from flownb.cli import acting, looking
    from flownb.cli.places import opened

    with opened(args.store) as store:
        run_id = looking.full_id(store, args.run)
        status = acting.cancel(store, run_id, args.reason)
        if args.json:
            _json({"run": run_id, "status": status})
        else:
            print(f"Run {run_id} is {status}.")
    return 0 if status == "cancelled" else 1


def resume(args: Args) -> int:
    from flownb.cli import looking, resuming
    from flownb.cli.places import opened, store_words
    from flownb.cli.words import plain, value_of, words_of

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    with opened(args.store) as store:
        part = store_words(args.store, store)
        run_id = looking.full_id(store, args.run) if args.run else None
        with resuming.Held() as held:
            run = resuming.resume(args.workflow, store, run_id)
            if not run.is_done():
                say(f"Run {run.run_id} of {run.workflow.name} goes on here. Ctrl-C suspends it.")
            try:
                resuming.wait(run, say, input if _is_terminal() else None, part, held.let_go)
            except resuming.Interrupted:
                go_on = words_of(["python", "-m", "flownb", "resume", args.workflow, run.run_id, *part])
                say(f"\nRun {run.run_id} is suspended. Go on with it: {go_on}")
                return 130
        result = resuming.outcome_of(run)
        if args.json:
            _json({"run": run.run_id, "status": run.status, "result": plain(result)})
        else:
            print(result if isinstance(result, str) else value_of(result, 10_000))
    return 0


def _is_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def export(args: Args) -> int:
    from flownb.cli import acting
    from flownb.cli.places import opened

    with opened(args.store) as store:
        path = acting.export(store, args.run, args.file)
        if args.json:
            _json({"file": str(path), "size": path.stat().st_size})
        else:
            print(f"{path}: python -m flownb import {path.name} reads it elsewhere.")
    return 0


def import_(args: Args) -> int:
    from flownb.cli import acting
    from flownb.cli.places import opened, store_words
    from flownb.cli.words import words_of

    with opened(args.store, makes=True) as store:
        found = acting.take_in(store, args.file)
        if args.json:
            _json({"run": found.run_id, "is_new": found.is_new, "faults": found.faults})
            return 0
        for fault in found.faults:
            print(f"flownb: {fault}", file=sys.stderr)
        said = "is imported, to be looked at" if found.is_new else "is there already"
        look = words_of(["python", "-m", "flownb", "show", found.run_id, *store_words(args.store, store)])
        print(f"Run {found.run_id} {said}: {look}")
    return 0


def replay(args: Args) -> int:
    from flownb.cli import replaying
    from flownb.cli.words import clean
    from flownb.errors import RunNotFound, WorkflowConfigurationError, WorkflowNotDefined, WorkflowStepDoesNotExistError

    try:
        if args.workflow is None:
            runs = replaying.folded(args.file)
            if args.json:
                _json(replaying.folded_json(runs))
            else:
                _print(replaying.folded_lines(runs))
            return 0 if all(run.is_sound for run in runs) else 1
        run = replaying.replayed(args.file, args.workflow, args.live, args.run_again, args.timeout or None)
    except (RunNotFound, WorkflowNotDefined, WorkflowConfigurationError, WorkflowStepDoesNotExistError) as error:
        print(f"flownb: {clean(error)}", file=sys.stderr)
        return 2
    if args.json:
        _json(replaying.replay_json(run))
    else:
        _print(replaying.replay_lines(run))
    return 0 if replaying.is_as_recorded(run) else 1


def doctor(args: Args) -> int:
    from flownb.cli import doctor as facts
    from flownb.cli.places import NoStore, opened
    from flownb.cli.words import table

    found: dict[str, Any] = {"versions": facts.versions(), "store": None}
    is_well, why = True, ""
    try:
        with opened(args.store) as store:
            found["store"] = facts.store_facts(store, check=args.check, collect=args.collect)
            is_well = facts.is_well(found["store"])
    except NoStore as error:
        why = str(error)
        is_well = not (args.store or args.check or args.collect)
    except WorkflowError as error:
        is_well, why = False, str(error)
    if args.json:
        _json({**found, "fault": why or None, "is_well": is_well})
        return 0 if is_well else 1
    _print(table(list(facts.version_lines(found["versions"]))))
    print()
    _print(table([("Store", ""), *facts.store_lines(found["store"])]) if found["store"] else [f"Store: {why}"])
    return 0 if is_well else 1


#: What stands in the column of a run's status.
STATUSES = (
    "running", "waiting", "paused", "suspended", "definition_changed", "cancelling",
    "completed", "failed", "timed_out", "cancelled",
)  # fmt: skip
_RUN = _option("run", metavar="RUN", help="its id, or the beginning of it")
COMMANDS: dict[str, Command] = {
    "runs": Command(
        runs,
        "list runs, the newest first",
        (
            _option("--status", choices=STATUSES, metavar="STATUS", help=f"only those: {', '.join(STATUSES)}"),
            _option("--workflow", help="only those of this workflow, by name"),
            _option("--children", action="store_true", help="also the runs that steps of runs run"),
            _option("--limit", type=int, default=50, metavar="N", help="so many at most (50); 0 is all"),
        ),
    ),
    "show": Command(
        show,
        "tell of one run: why, who drives it, questions, children, result, last ticks",
        (_RUN, _option("--ticks", type=int, default=10, metavar="N", help="so many of its last ticks (10)")),
    ),
    "requests": Command(
        requests,
        "list what runs ask, each with the command that answers it",
        (
            _option(
                "--links",
                nargs="?",
                const="http://127.0.0.1:8765",
                metavar="ADDRESS",
                help="also its link, where `serve` is at this address (http://127.0.0.1:8765); each link is a secret",
            ),
        ),
    ),
    "reviews": Command(
        reviews,
        "list what was decided: which question, which answer, by whom, when and how",
        (
            _option("--csv", metavar="FILE", help="write it into this file instead, as a table for other programs"),
            _option("--workflow", help="only of this workflow, by name"),
            _option("--by", help="only what this person decided"),
            _option("--since", metavar="DATE", help="only from then on: 2026-12-24, or 2026-12-24T18:30"),
        ),
        "Answers, defaults taken at a deadline, deadlines that passed, and questions that were disposed of. Reads the\n"
        "journals of runs that may have such. Secrets are masked.",
    ),
    "answer": Command(
        answer,
        "answer a question",
        (
            _option("request", metavar="REQUEST", help="its id, such as 7f3a:1, or its token"),
            _option("answer", nargs="+", metavar="ANSWER", help="name=value ..., or one value, or JSON"),
            _option("--by", help="who answers, as the run records it"),
        ),
        "examples:\n  python -m flownb answer 7f3a:1 decision=approve note='as agreed'\n"
        "  python -m flownb answer 7f3a:2 true\n  python -m flownb answer 7f3a:3 '{\"rows\": [1, 2]}'\n\n"
        "It is checked by the schema that is stored with the question, and again by the process that drives the run.",
    ),
    "serve": Command(
        serve,
        "let people answer in a browser: a page for each question, at a link of its own",
        (
            _option("--host", default="127.0.0.1", help="where to listen (127.0.0.1)"),
            _option("--port", type=int, default=8765, metavar="N", help="its port (8765); 0 is any that is free"),
            _option("--public", action="store_true", help="other machines may reach it: a --host other than this one"),
            _option(
                "--name",
                action="append",
                default=[],
                metavar="HOST",
                help="it is called by this name too, that of a proxy, say; may stand several times",
            ),
            _option("--open", action="store_true", help="open the list of questions in a browser"),
        ),
        "Who has a link can answer that question, once; `requests --links` prints them, and in Python\n"
        "flownb.serve.link(request, address) gives one. Links and answers stand in no log. Needs flownb[serve].",
    ),
    "cancel": Command(
        cancel,
        "end a run, whoever drives it",
        (_RUN, _option("--reason", default="", help="why, as the run records it")),
    ),
    "resume": Command(
        resume,
        "go on with a run here, until it is over",
        (
            _option("workflow", metavar="MODULE:WORKFLOW", help="flows:triage is `triage` in flows.py of this folder"),
            _option("run", metavar="RUN", nargs="?", help="its id; else the latest one that is not over"),
        ),
        "Its questions are asked here, if this is a terminal. Ctrl-C suspends it: nothing is lost.",
    ),
    "export": Command(
        export,
        "write a run with its children and files into one file",
        (_RUN, _option("file", metavar="FILE", help="the file, or a folder for it")),
        "The file is a zip of JSON lines. It holds no secrets and no tokens.",
    ),
    "import": Command(
        import_,
        "take such a file in, to look at the run",
        (_option("file", metavar="FILE", help="what `export` wrote"),),
        "Nothing of it is run, and the run is never driven, answered or cancelled: to go on from it, fork it in\n"
        "Python, store.run(id).debug.fork(seq).",
    ),
    "replay": Command(
        replay,
        "play an exported run back on the code as it is now",
        (
            _option("file", metavar="FILE", help="what `export` or `run.debug.to_test` wrote"),
            _option("workflow", metavar="MODULE:WORKFLOW", nargs="?", help="whose code; without it no code is run"),
            _option("--live", action="append", default=[], metavar="STEP", help="run this step though it is the same"),
            _option(
                "--run-again",
                choices=("run", "recorded", "skip"),
                help="what changed steps with idempotent=False do; without it nothing is done",
            ),
            _option("--timeout", type=float, default=60.0, metavar="S", help="seconds for steps that run (60); 0: any"),
        ),
        "Steps whose source is the same are not run: what they did is recorded. Changed ones run. Without a workflow\n"
        "the recorded ticks are folded, and checked against what the file says. Exits with 1 on a divergence, with 2\n"
        "if there is no such file, module or workflow.",
    ),
    "doctor": Command(
        doctor,
        "tell of this installation and of the store, and whether they are well",
        (
            _option("--check", action="store_true", help="read every journal"),
            _option("--collect", action="store_true", help="remove files of large values that no run names"),
        ),
    ),
}


def parser() -> argparse.ArgumentParser:
    """All commands; `--store` and `--json` may stand before or behind them."""
    main_parser = argparse.ArgumentParser(
        prog="python -m flownb", description=ABOUT, epilog=EXITS, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    _common(main_parser, None, False)
    words = main_parser.add_subparsers(title="commands", metavar="COMMAND", required=True, dest="command")
    for name, command in COMMANDS.items():
        one = words.add_parser(
            name,
            help=command.about,
            description=f"{command.about[0].upper()}{command.about[1:]}.",
            epilog=command.more,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        for option in command.options:
            one.add_argument(*option.names, **option.settings)
        _common(one, argparse.SUPPRESS, argparse.SUPPRESS)
    return main_parser


def _common(one: argparse.ArgumentParser, no_store: Any, no_json: Any) -> None:
    one.add_argument("--store", default=no_store, metavar="STORE", help="a file, or postgresql://user@host/database")
    one.add_argument("--json", action="store_true", default=no_json, help="for programs")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        argv: Its words; None: those of this process.

    Returns:
        What the process exits with.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that cannot show a letter shows its code
            stream.reconfigure(errors="backslashreplace")
    try:
        args = parser().parse_args(argv)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 2
    try:
        with warnings.catch_warnings():
            if args.command != "resume":  # a viewer warns of what is said here in other words
                warnings.simplefilter("ignore", UserWarning)
            done = COMMANDS[args.command].do(args)
        sys.stdout.flush()
        return done
    except BrokenPipeError:  # who read it has enough
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return 130
    except (WorkflowError, OSError) as error:
        from flownb.cli.words import clean

        print(f"flownb: {clean(error)}", file=sys.stderr)
        return 1
