// The translator on a page. At the first key the model is loaded; it translates in a worker, token by token, and the
// source attention is drawn as it writes. Nothing here has a global name or an id.

const MOST_CHARACTERS = 2000;  // of a text that is looked at; what is too long to be read is found sub-word by sub-word
const MOST_COLUMNS = 80;  // of a table that can be read
const PAUSE = 300;  // milliseconds without a key after which it translates

const make = (tag, properties = {}, ...children) => {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
};
const many = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;

// Answers an order { number, text, width } after every token; an order that comes meanwhile takes its place.
// What it says of a hypothesis is the part that is new: the tokens from the first one on that has changed.
const serve = (translator, answer) => {
  let latest;
  const breath = () => new Promise(go_on => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => go_on(port1.close());
    port2.postMessage("");
  });
  return async ({ number, text, width, longest }) => {
    latest = number;
    const { subwords } = translator, source = subwords.encode(text), n = source.length;
    if (n > longest) return answer({ number, n, longest });
    answer({ number, columns: subwords.labels(source), unknown: subwords.unknown(text) });
    let before = [];
    for (const { ids, attention } of translator.search(source, width)) {
      let from = 0;
      while (from < ids.length && ids[from] === before[from]) from++;
      const ended = subwords.tokens[ids.at(-1)] === "<eos>", said = subwords.decode(ended ? ids.slice(0, -1) : ids);
      answer({ number, from, rows: subwords.labels(ids.slice(from)), looked: attention.slice(from), said, ended });
      before = ids;
      await breath();
      if (latest !== number) return;
    }
    answer({ number, done: true });
  };
};

// The model in a worker, so that no frame waits for it; where there can be no worker, on the page itself.
const engine = (given, answer) => {
  const here = () => serve(new (new Function(`${TRANSLATOR}\nreturn Translator;`)())(given), answer);
  const code = `${TRANSLATOR}\nlet run;\nconst serve = ${serve};\nonmessage = ({ data }) => {\n`
    + "  if (data.base64) run = serve(new Translator(data), postMessage);\n  else run(data);\n};\n";
  try {
    const worker = new Worker(URL.createObjectURL(new Blob([code], { type: "text/javascript" })));
    let order, instead;
    worker.onmessage = ({ data }) => answer(data);
    worker.onerror = event => {
      event.preventDefault();
      worker.terminate();
      instead ??= here();
      if (order) instead(order);
    };
    worker.postMessage(given);
    return wanted => {
      order = wanted;
      if (instead) instead(order);
      else worker.postMessage(order);
    };
  } catch {
    return here();
  }
};

// The model's file is a script, for a page that was opened from the disk may load no other.
const load = address => new Promise((found, missing) => {
  if (globalThis.heedModel) return found(globalThis.heedModel);
  document.head.append(make("script", {
    src: address, onerror: () => missing(new Error(`The model's file ${address} could not be loaded.`)),
    onload: () => globalThis.heedModel ? found(globalThis.heedModel)
      : missing(new Error(`There is no model in ${address}.`)),
  }));
});

// The source attention of what is being written: a row for a token, a column for each sub-word of the source.
const picture = () => {
  let columns = [], rows = [], looked = [], lines = [], layer = null, head = 0, n_heads = 0, drawn = false;
  const layers = make("select"), heads = make("select"), caption = make("caption"), body = make("tbody");
  const aligned = make("p", { className: "heed-aligned" });
  const table = make("div", { className: "heed-table", tabIndex: 0, role: "region", ariaLabel: "source attention" },
    make("table", {}, caption, body));
  const root = make("div", { hidden: true }, make("div", { className: "heed-controls" },
    make("label", {}, "layer ", layers), make("label", {}, "head ", heads)), table, aligned);
  const options = (select, names) => select.replaceChildren(...names.map(name => make("option", {}, String(name))));
  const numbers = n => Array.from({ length: n }, (_, i) => i + 1);

  const weight = (i, j) => {  // head 0 is the mean of all
    const at = h => looked[i][layer][h * columns.length + j];
    return head ? at(head - 1) : numbers(n_heads).reduce((sum, h) => sum + at(h - 1), 0) / n_heads;
  };
  const line = (token, i) => make("tr", {},
    make("th", { scope: "row" }, make("bdi", {}, token)),
    ...columns.map((column, j) => {
      const w = weight(i, j), cell = make("td", { title: `${token} → ${column}: ${w.toFixed(3)}` });
      cell.textContent = w >= 0.1 ? Math.round(100 * w) : "";
      cell.style.setProperty("--w", w.toFixed(3));
      cell.classList.toggle("heed-strong", w > 0.69);
      return cell;
    }));
  const draw = from => {
    for (const old of lines.splice(from)) old.remove();
    lines.push(...rows.slice(from).map((token, k) => line(token, from + k)));
    body.append(...lines.slice(from));
  };
  // The same in words: for each token the sub-word at which it looks most.
  root.inWords = () => {
    const pairs = rows.map((token, i) => {
      const weights = columns.map((_, j) => weight(i, j)), most = Math.max(...weights);
      return `${token} ← ${columns[weights.indexOf(most)]} ${Math.round(100 * most)} %`;
    });
    aligned.textContent = rows.length ? `Where each token looks most: ${pairs.join(", ")}.` : "";
  };
  const name = () => {
    const which = head ? `head ${head}` : `mean of ${n_heads} heads`;
    caption.textContent = `Source attention, layer ${layer + 1}, ${which}: a row is a token that was written, a column `
      + "a sub-word that was read (▁ is a space), a number per cent.";
  };
  layers.onchange = heads.onchange = () => {
    [layer, head] = [layers.selectedIndex, heads.selectedIndex];
    name();
    if (drawn && rows.length) draw(0);
    root.inWords();
  };
  root.begin = source => {
    [columns, rows, looked, drawn] = [source, [], [], source.length <= MOST_COLUMNS];
    for (const old of lines.splice(0)) old.remove();
    const top = source.map(token => make("th", { scope: "col" }, make("bdi", {}, token)));
    body.replaceChildren(make("tr", {}, make("td"), ...top));
    aligned.textContent = "";
    root.hidden = true;
  };
  root.add = (from, tokens, weights) => {
    rows = [...rows.slice(0, from), ...tokens];
    looked = [...looked.slice(0, from), ...weights];
    if (layer === null) {  // the first token of all says how many there are
      [layer, n_heads] = [weights[0].length - 1, weights[0][0].length / columns.length];
      options(layers, numbers(layer + 1));
      options(heads, ["mean", ...numbers(n_heads)]);
      layers.selectedIndex = layer;
      name();
    }
    root.hidden = !drawn;
    if (drawn) draw(from);
  };
  return root;
};

const start = root => {
  const area = root.querySelector("textarea"), search = root.querySelector("select"), form = root.querySelector("form");
  const [said, note, heard] = ["said", "note", "heard"].map(name => root.querySelector(`.heed-${name}`));
  const map = picture();
  let loading, number = 0, order, timer, began, n_tokens, ended, unknown;
  form.append(map);

  const tell = (words, aloud = words) => {
    note.textContent = words;
    heard.textContent = aloud;
  };
  const writing = on => said.toggleAttribute("data-writing", on);
  const nothing = words => {
    number += 1;  // what is being written is no longer wanted
    order?.({ number: 0, text: "", width: 1, longest: 0 });  // nobody waits for its answer
    said.textContent = "";
    writing(false);
    map.begin([]);
    tell(words);
  };

  const answer = ({ number: of, n, longest, columns, unknown: found, from, rows, looked, said: text, ended: end, done }) => {
    if (of !== number) return;
    if (n) {
      nothing(`This text is cut into ${many(n, "sub-word")}. The model reads at most ${longest}: give it one sentence.`);
    } else if (columns) {
      [began, n_tokens, ended, unknown] = [performance.now(), 0, false, found];
      map.begin(columns);
    } else if (rows) {
      [n_tokens, ended] = [from + rows.length, end];
      said.textContent = text;
      map.add(from, rows, looked);
    } else if (done) {
      writing(false);
      map.inWords();
      const seconds = ((performance.now() - began) / 1000).toFixed(2), shown = unknown.slice(0, 12);
      const covered = shown.length ? ` No sub-word covers ${shown.join(" ")}${shown.length < unknown.length ? " …" : ""}: `
        + "the model reads their bytes, which it has hardly ever seen." : "";
      const cut = ended ? "" : " It found no end and was cut.";
      const words = said.textContent.trim() || "The model wrote nothing.";
      tell(`${many(n_tokens, "token")} in ${seconds} seconds.${cut}${covered}`, `${words}${cut}${covered}`);
    }
  };

  const ready = () => loading ??= load(root.dataset.weights).then(given => [engine(given, answer), given.longest]);
  const translate = async () => {
    clearTimeout(timer);
    const text = area.value.trim().replace(/\s*\n\s*/g, " ");  // a line break inside a sentence is a space
    if (!text) return nothing("Write a sentence.");
    const length = [...text].length;
    if (length > MOST_CHARACTERS) {
      return nothing(`This text has ${many(length, "character")}. The model translates one sentence: `
        + `give it at most ${MOST_CHARACTERS.toLocaleString("en")}.`);
    }
    number += 1;
    const mine = number;
    try {
      if (!order) tell("The model is being loaded …");
      const [at_work, longest] = await ready();
      order = at_work;
      if (mine !== number) return;
      writing(true);
      tell("Writing …", "");
      order({ number, text, width: Number(search.value), longest });
    } catch (error) {
      loading = undefined;  // the next key tries again
      tell(`${error.message} Nothing can be translated here.`);
    }
  };

  area.oninput = () => {
    clearTimeout(timer);
    ready().catch(() => {});  // translate says what is wrong
    timer = setTimeout(translate, PAUSE);
  };
  area.onkeydown = event => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    translate();
  };
  search.onchange = () => area.value.trim() && translate();
  form.onsubmit = event => {
    event.preventDefault();
    translate();
  };
  for (const example of root.querySelectorAll(".heed-example")) {
    example.onclick = () => {
      area.value = example.textContent;
      translate();
    };
  }
  form.hidden = false;
};

for (const root of document.querySelectorAll(".heed-translator")) {
  if (!root.live) start(root);
  root.live = true;
}
