"""translator.js at work for tests: under Node or, where there is none, in Chromium."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from heed.recipe import live

CODE = Path(live.__file__).with_name("translator.js").read_text(encoding="utf-8")
OPENED = "const translator = new Translator(globalThis.heedModel), { subwords } = translator;"
SAID = """
const searched = (source, width) => {
  let last = { ids: [], attention: [] };
  for (last of translator.search(source, width));
  return last;
};
const said = (text, width) => {
  const { ids } = searched(subwords.encode(text), width);
  return subwords.decode(ids.at(-1) === EOS ? ids.slice(0, -1) : ids);
};
"""


def ask(request, folder, script, expression, code=CODE):
    """The value of an expression, in which `translator`, `searched` and `said` are known.

    request: pytest's, for a browser where there is no Node
    folder: for files
    script: what `heed.recipe.live.script` has written
    code: translator.js, or what a test has made of it
    """
    program = f"{script}\n{code}\n{OPENED}\n{SAID}"
    if shutil.which("node"):
        file = folder / "run.js"
        file.write_text(f"{program}\nconsole.log(JSON.stringify({expression}));", encoding="utf-8")
        run = subprocess.run(["node", file], capture_output=True, encoding="utf-8", check=False)
        assert run.returncode == 0, run.stderr[-2000:]
        return json.loads(run.stdout)
    try:
        browser = request.getfixturevalue("browser")
    except pytest.skip.Exception:
        pytest.skip("neither Node nor Chromium on the PATH: nobody runs the JavaScript")
    page = folder / "run.html"
    text = f"{program}\nglobalThis.answer = JSON.stringify({expression});"
    (folder / "run.js").write_text(f"{{\n{text}\n}}", encoding="utf-8")
    page.write_text('<!DOCTYPE html><meta charset="utf-8"><script src="run.js"></script>', encoding="utf-8")
    browser.open(page)
    return json.loads(browser.ask("globalThis.answer"))
