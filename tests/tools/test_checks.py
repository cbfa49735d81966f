# SPDX-License-Identifier: Apache-2.0
"""Tests tools/layers.py and tools/prose.py with planted violations: each is found."""

import contextlib
import io
import os
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import layers  # noqa: E402
import prose  # noqa: E402

LICENCE = "// SPDX-License-Identifier: Apache-2.0\n"


def said(check, files):
    """Exit code and complaints of a check on {path: content} in a folder of their own."""
    before, arguments = os.getcwd(), sys.argv
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()) as complaints:
        for path, content in files.items():
            target = pathlib.Path(folder, path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(content)
        os.chdir(folder)
        sys.argv = ["check", *files]
        try:
            return check.main(), complaints.getvalue()
        finally:
            os.chdir(before)
            sys.argv = arguments


class Layers(unittest.TestCase):
    def refuses(self, files, complaint):
        code, complaints = said(layers, files)
        self.assertEqual(code, 1)
        self.assertIn(complaint, complaints)

    def test_an_unknown_folder_is_refused(self):
        self.refuses({"sim/attic/old.cpp": LICENCE}, "sim/attic is no room")

    def test_installed_headers_include_no_others(self):
        headers = layers.installed_headers("# athanor_install_headers(a/b x)\nathanor_install_headers(sim/model plan\n  tier)")
        self.assertEqual(headers, ["sim/model/plan.hpp", "sim/model/tier.hpp"])
        texts = {"sim/model/plan.hpp": '#include "sim/model/tier.hpp"\n#include "sim/base/errors.hpp"\n#include <map>\n'}
        found = list(layers.install_problems(headers, lambda header: texts.get(header, "")))
        self.assertEqual(len(found), 1)
        self.assertIn("sim/base/errors.hpp", found[0])

    def test_an_include_against_the_layers_is_refused(self):
        self.refuses({"sim/model/plan.cpp": LICENCE + '#include "sim/search/search.hpp"\n'},
                     "sim/model must not include sim/search/search.hpp")

    def test_a_library_outside_its_room_is_refused(self):
        self.refuses({"sim/search/search.cpp": LICENCE + "#include <simgrid/s4u.hpp>\n"}, "belongs to sim/engine")

    def test_a_room_with_too_many_files_is_refused(self):
        self.refuses({f"sim/model/f{i}.hpp": LICENCE for i in range(layers.MAX_FILES + 1)}, "a room has at most")

    def test_a_list_with_an_arrow_upwards_is_refused(self):
        rooms = layers.ROOMS
        layers.ROOMS = {"low": ["high"], "high": []}
        try:
            self.assertEqual(len(list(layers.order_problems())), 1)
        finally:
            layers.ROOMS = rooms

    def test_a_clean_room_passes(self):
        self.assertEqual(said(layers, {"sim/model/plan.cpp": LICENCE + '#include "sim/base/errors.hpp"\n'}), (0, ""))


class Prose(unittest.TestCase):
    def test_comments_without_their_noun_are_refused(self):
        for comment in ("/// Of a plan.", "int a;  ///< of a plan", "/// The same for two.", "/// What it takes.",
                        "/// A size\n/// of a plan.", "int b;\n// what is left"):
            with self.subTest(comment):
                self.assertEqual(said(prose, {"a.hpp": comment + "\n"})[0], 1)

    def test_sentences_pass_and_plain_comments_may_wrap_anywhere(self):
        text = "/// Returns the size of a plan.\n// A comment that says\n// what is left.\n"
        self.assertEqual(said(prose, {"a.hpp": text}), (0, ""))

    def test_a_page_of_long_sentences_is_refused(self):
        long = " ".join(["word"] * 30) + ".\n"
        self.assertEqual(said(prose, {"page.md": long})[0], 1)
        self.assertEqual(said(prose, {"page.md": "Short sentences are read. Long ones are not.\n" + long})[0], 0)

    def test_tables_and_code_do_not_count(self):
        long = " ".join(["word"] * 30)
        page = f"# Title\n\nA short sentence.\n\n| a | {long} |\n\n```\n{long}\n```\n"
        self.assertEqual(said(prose, {"page.md": page}), (0, ""))


if __name__ == "__main__":
    unittest.main()
