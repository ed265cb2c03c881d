"""Runs tests of Python's own suite in a guest, and writes what became of each as JSON.

run_unittest.py OUTCOMES MODULE... [-- TEST...]: with tests, only these.
"""

import faulthandler
import json
import sys
import unittest
from pathlib import Path
from typing import Any

from test import support

LONG = 180  # seconds: a test that takes longer hangs

outcomes: dict[str, str] = {}
results = Path(sys.argv[1])


class Recorder(unittest.TextTestResult):
    """Notes each test's outcome."""

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        faulthandler.dump_traceback_later(LONG, exit=True)
        outcomes[test.id()] = "HUNG"
        results.write_text(json.dumps(outcomes))

    def stopTest(self, test: unittest.TestCase) -> None:
        faulthandler.cancel_dump_traceback_later()
        if outcomes[test.id()] == "HUNG":
            outcomes[test.id()] = "ok"
        super().stopTest(test)

    def _note(self, test: Any, what: str) -> None:
        outcomes[getattr(test, "test_case", test).id()] = what

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        super().addError(test, err)
        self._note(test, "error")

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        super().addFailure(test, err)
        self._note(test, "failure")

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        super().addSkip(test, reason)
        self._note(test, f"skipped: {reason}")

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        super().addSubTest(test, subtest, err)
        if err:
            self._note(test, "failure in a sub-test")


words = sys.argv[2:]
cut = words.index("--") if "--" in words else len(words)
only = set(words[cut + 1 :])


def chosen(suite: Any) -> Any:
    """Yield the tests of a suite that are wanted."""
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from chosen(test)
        elif not only or test.id() in only:
            yield test


support.use_resources = []
support.verbose = False
all_tests = unittest.defaultTestLoader.loadTestsFromNames(words[:cut])
# Fixtures of classes and modules run by the order of tests, which is kept.
unittest.TextTestRunner(resultclass=Recorder, verbosity=0).run(unittest.TestSuite(chosen(all_tests)))
results.write_text(json.dumps(outcomes))
