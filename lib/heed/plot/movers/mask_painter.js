// A mask to paint: which key each query sees, the weights that come of it, what two layers make of it, and what leaks.
const figure = (given, title, again) => {
  const { tokens, scores } = given, n = tokens.length, pads = tokens.map(token => token === given.pad);
  const mask = given.mask.map(row => row.map(Boolean));
  let at = [0, 0], painting = null;  // the cell that the Tab key reaches; what a drag paints

  const cells = tokens.map((_, i) => tokens.map((_, j) => make("button", {
    type: "button", tabIndex: i + j === 0 ? 0 : -1, onclick: event => {
      if (event.detail === 0) set(i, j, !mask[i][j]);  // a key, or a screen reader; a pointer paints as it goes down
    },
  })));
  const set = (i, j, may) => {
    mask[i][j] = may;
    again();
  };
  const focus = (i, j) => {
    cells[at[0]][at[1]].tabIndex = -1;
    at = [i, j];
    cells[i][j].tabIndex = 0;
    cells[i][j].focus();
  };
  const where = element => {
    const k = cells.flat().indexOf(element?.closest("button"));
    return k < 0 ? null : [Math.floor(k / n), k % n];
  };
  const tall = Math.max(...tokens.map(token => token.length)) > 3 ? " heed-tall" : "";
  const head = (token, title, turn = "") => {
    return make("span", { className: "heed-token" + turn, title }, make("bdi", {}, token));
  };
  const notes = tokens.map(() => make("span", { className: "heed-note" }));
  const grid = make("div", { className: "heed-grid", role: "group", ariaLabel: "mask: queries in rows, keys in columns" },
    make("span", { className: "heed-axis" }, "query ↓", make("br"), "key →"), ...tokens.map((token, j) => head(token, `key ${j + 1}`, tall)),
    make("span", { className: "heed-axis" }, "sees"),
    ...tokens.flatMap((token, i) => [head(token, `query ${i + 1}`), ...cells[i], notes[i]]));
  grid.style.setProperty("--n", n);
  grid.onkeydown = event => {
    const [i, j] = at;
    const to = { ArrowRight: [i, j + 1], ArrowLeft: [i, j - 1], ArrowDown: [i + 1, j], ArrowUp: [i - 1, j] }[event.key];
    if (!to || !where(event.target) || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    focus((to[0] + n) % n, (to[1] + n) % n);
  };
  grid.onpointerdown = event => {
    const cell = where(event.target);
    if (!cell || event.button) return;
    event.preventDefault();
    focus(...cell);
    painting = !mask[cell[0]][cell[1]];
    set(...cell, painting);
    grid.setPointerCapture(event.pointerId);
  };
  grid.onpointermove = event => {
    const cell = painting === null ? null : where(document.elementFromPoint(event.clientX, event.clientY));
    if (cell && mask[cell[0]][cell[1]] !== painting) set(...cell, painting);
  };
  grid.onpointerup = grid.onpointercancel = () => { painting = null; };

  // The table below: on which tokens each output depends, directly or through two layers, of which each keeps its input.
  const pairs = tokens.map(() => tokens.map(() => make("span", { className: "heed-pair", role: "img" })));
  const table = make("div", { className: "heed-grid", role: "group", ariaLabel: "what two layers know: outputs in rows, tokens in columns" },
    make("span", { className: "heed-axis" }, "output ↓", make("br"), "token →"), ...tokens.map((token, j) => head(token, `token ${j + 1}`, tall)),
    make("span", { className: "heed-legend" }, "1: looks at it", make("br"), "2: by way of another"),
    ...tokens.flatMap((token, i) => [head(token, `output ${i + 1}`), ...pairs[i], make("span")]));
  table.style.setProperty("--n", n);
  const layers = (i, j) => mask[i][j] ? "1" : i === j ? "·" : tokens.some((_, m) => mask[i][m] && mask[m][j]) ? "2" : "";
  const leak = (i, j) => pads[i] || i === j ? "" : pads[j] ? "padding" : j > i ? "future" : "";
  const body = document.createDocumentFragment();
  body.append(grid, table);

  const fill = rule => make("button", { type: "button", onclick: () => {
    mask.forEach((row, i) => row.forEach((_, j) => { row[j] = rule[1](i, j); }));
    again();
  } }, rule[0]);
  const causal = (i, j) => j <= i, padding = (i, j) => !pads[j];
  const rules = [["all", () => true], ["causal", causal]];
  if (pads.includes(true)) rules.push(["padding", padding], ["both", (i, j) => causal(i, j) && padding(i, j)]);
  rules.push(["none", () => false]);
  const presets = make("div", { className: "heed-presets" }, "fill:", ...rules.map(fill));

  const weights = i => {
    const e = scores[i].map((score, j) => mask[i][j] ? Math.exp(score) : 0), sum = e.reduce((a, b) => a + b);
    return e.map(each => sum ? each / sum : 0);
  };
  const paint = () => {
    const leaks = [], nowhere = [], passed = [];
    const named = js => `key ${js.map(j => `${j + 1} (${tokens[j]})`).join(", ")}`;
    tokens.forEach((token, i) => {
      const w = weights(i), seen = tokens.map((_, j) => j).filter(j => mask[i][j]);
      // What the query of a padded place sees is no leak: nobody reads what comes of it.
      const future = pads[i] ? [] : seen.filter(j => j > i), padded = pads[i] ? [] : seen.filter(j => pads[j]);
      if (!seen.length) nowhere.push(i);
      if (future.length) leaks.push(`query ${i + 1} sees the future, ${named(future)}`);
      if (padded.length) leaks.push(`query ${i + 1} sees padding, ${named(padded)}`);
      notes[i].textContent = seen.map(j => tokens[j]).join(" ") || "none";
      notes[i].classList.toggle("heed-bad", !seen.length || future.length + padded.length > 0);
      cells[i].forEach((cell, j) => {
        const leak = future.includes(j) ? ", future" : padded.includes(j) ? ", padding" : "";
        cell.textContent = mask[i][j] ? fixed(w[j]).replace(/\.00$/, "").replace(/^0\./, ".") : "";
        cell.ariaPressed = String(mask[i][j]);
        cell.ariaLabel = `query ${i + 1} ${token}, key ${j + 1} ${tokens[j]}: `
          + (mask[i][j] ? `may look, weight ${fixed(w[j])}${leak}` : "hidden");
        cell.title = cell.ariaLabel;
        cell.style.setProperty("--w", w[j].toFixed(3));
        cell.className = `${mask[i][j] ? "heed-may" : ""} ${leak ? "heed-leak" : ""} ${w[j] > 0.69 ? "heed-strong" : ""}`;
      });
    });
    pairs.forEach((row, i) => row.forEach((cell, j) => {
      const way = layers(i, j), bad = way && leak(i, j);
      if (bad && way === "2") passed.push(`output ${i + 1} knows ${bad === "future" ? "the future" : bad}, token ${j + 1} (${tokens[j]})`);
      cell.textContent = way;
      cell.title = cell.ariaLabel = `output ${i + 1} ${tokens[i]}, token ${j + 1} ${tokens[j]}: `
        + ({ 1: "looks at it", 2: "through two layers", "·": "its own" }[way] || "does not depend on it") + (bad ? `, ${bad}` : "");
      cell.className = `heed-pair ${way ? "heed-way" : ""} ${bad ? "heed-leak" : ""}`;
    }));
    const some = leaks.length > 3 ? `${leaks.slice(0, 2).join("; ")}; and ${leaks.length - 2} more` : leaks.join("; ");
    const rows = nowhere.map(i => i + 1).join(", ");
    const on = passed.length > 2 ? `${passed[0]}; and ${passed.length - 1} more` : passed.join("; ");
    return (leaks.length ? `Leaks: ${some}.` : "No leak: no query sees the future or padding.")
      + (on ? ` Two layers pass on: ${on}.` : "")
      + (rows ? ` May look nowhere: query ${rows}; all its weights are 0.` : "");
  };
  return { controls: [presets], body, paint };
};
