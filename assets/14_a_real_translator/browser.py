"""Translate Multi30k's test captions with the JavaScript of the HTML edition, and compare with Python.

    python assets/14_a_real_translator/browser.py

It writes browser.json: how many translations are the same, the BLEU of both, and how long a sentence takes.
float32 must give what Python gives; int8 is what the pages load. It needs Node, and the captions (HEED_DATA).
"""

import json
import platform
import shutil
import subprocess
import tempfile
from functools import partial
from pathlib import Path

import torch

from heed import recipe
from heed.decode import beam, greedy
from heed.evaluate import bleu
from heed.recipe import live

HERE = Path(__file__).parent
KINDS = ("float32", "int8")
WIDTHS = {1: "greedy", 4: "beam of 4"}

RUN = """
const fs = require("fs"), [, , code, model, given] = process.argv;
(0, eval)(fs.readFileSync(model, "utf8"));
const Translator = new Function(`${fs.readFileSync(code, "utf8")}\\nreturn Translator;`)();
const { sentences, width } = JSON.parse(fs.readFileSync(given, "utf8"));
const translator = new Translator(globalThis.heedModel), { subwords } = translator;
const began = process.cpuUsage();
const said = sentences.map(text => {
  const ids = subwords.encode(text);
  let last = { ids: [] };
  for (last of translator.search(ids, width));
  return { ids, text: subwords.decode(last.ids.at(-1) === 2 ? last.ids.slice(0, -1) : last.ids) };
});
const { user, system } = process.cpuUsage(began);
console.log(JSON.stringify({ said, seconds: (user + system) / 1e6 }));
"""


def in_javascript(translator, kind, sentences, width):
    """Translate with translator.js under Node.

    Returns for each sentence its ids and its translation, and the seconds of processor time.
    """
    with tempfile.TemporaryDirectory() as name:
        run, model, given = (Path(name) / file for file in ("run.js", "model.js", "given.json"))
        run.write_text(RUN, encoding="utf-8")
        model.write_text(live.script(translator, kind), encoding="utf-8")
        given.write_text(json.dumps({"sentences": sentences, "width": width}), encoding="utf-8")
        code = Path(live.__file__).with_name("translator.js")
        command = ["node", run, code, model, given]
        answer = subprocess.run(command, capture_output=True, encoding="utf-8", check=True)
    answer = json.loads(answer.stdout)
    return answer["said"], answer["seconds"]


def measure(sentences, references):
    """What browser.json holds: both searches in Python, and in JavaScript in float32 and as the pages do."""
    translator = recipe.load_translator(HERE / "model")
    node = subprocess.run(["node", "--version"], capture_output=True, encoding="utf-8", check=True).stdout
    versions = {"python": platform.python_version(), "torch": torch.__version__.split("+")[0]}
    log = {
        "sentences": len(sentences),
        "bytes": len(live.script(translator).encode()),
        "hardware": hardware(),
        "versions": {**versions, "node": node.strip()},
        "python": {},
        "kinds": {kind: {} for kind in KINDS},
    }
    for width, name in WIDTHS.items():
        ours = translator.translate(sentences, greedy if width == 1 else partial(beam, width=width))
        log["python"][name] = {"bleu": round(bleu(ours, references).value, 2)}
        for kind in KINDS:
            said, seconds = in_javascript(translator, kind, sentences, width)
            assert [each["ids"] for each in said] == [translator.subwords.encode(text) for text in sentences]
            theirs = [each["text"] for each in said]
            log["kinds"][kind][name] = {
                "same": sum(a == b for a, b in zip(ours, theirs, strict=True)),
                "bleu": round(bleu(theirs, references).value, 2),
                "processor milliseconds a sentence": round(1000 * seconds / len(sentences)),
            }
            print(kind, name, log["kinds"][kind][name], flush=True)
    return log


def hardware():
    """The processor's name, as the system has it."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        names = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        return names[0].partition(":")[2].strip() if names else platform.machine()
    return platform.processor() or platform.machine()


if __name__ == "__main__":
    if not shutil.which("node"):
        raise SystemExit("Node is not on the PATH.")
    torch.set_num_threads(1)
    pairs = recipe.sentences({"data": {"test": "multi30k"}}, "test")
    log = measure(*zip(*pairs, strict=True))
    text = json.dumps(log, indent=1, ensure_ascii=False) + "\n"
    (HERE / "browser.json").write_text(text, encoding="utf-8", newline="\n")
