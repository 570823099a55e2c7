// The attention explorer. Each explorer on a page keeps its own state; nothing here has a global name or an id.
{
  const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

  const make = (tag, properties = {}, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };

  // A row of buttons of which one is chosen: one stop for the Tab key, arrows move the choice.
  const choice = (name, labels, chosen, choose) => {
    const box = make("div", { className: "heed-choice", role: "radiogroup", ariaLabel: name });
    const buttons = labels.map((label, i) => make("button", {
      type: "button", role: "radio", dir: "auto", textContent: label, onclick: () => box.pick(i),
    }));
    box.mark = i => buttons.forEach((button, k) => {
      button.ariaChecked = String(k === i);
      button.tabIndex = k === i ? 0 : -1;
    });
    box.pick = i => {
      box.mark(i);
      choose(i);
    };
    box.onkeydown = event => {
      const at = buttons.findIndex(button => button.tabIndex === 0), last = buttons.length - 1;
      const to = {
        ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: last,
      }[event.key];
      if (to === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      event.stopPropagation();
      const i = (to + buttons.length) % buttons.length;
      box.pick(i);
      buttons[i].focus();
    };
    box.append(make("span", { textContent: name }), ...buttons);
    box.buttons = buttons;
    box.mark(chosen);
    return box;
  };

  const start = root => {
    const kinds = JSON.parse(root.dataset.maps), view = root.querySelector(".heed-view");
    let kind, layer, head = 0, row = 0, peek = null;  // head 0 is the mean; peek: the row under the pointer
    let layers, heads, tokens, seen, cells, lines, words;

    const stored = (h, i, j) => {
      const at = 2 * (((layer * kind.heads + h) * kind.rows.length + i) * kind.columns.length + j);
      return (DIGITS.indexOf(kind.weights[at]) * 64 + DIGITS.indexOf(kind.weights[at + 1])) / 1000;
    };
    const weight = (i, j) => {
      if (head) return stored(head - 1, i, j);
      let sum = 0;
      for (let h = 0; h < kind.heads; h++) sum += stored(h, i, j);
      return sum / kind.heads;
    };
    const paint = (element, w) => {
      element.style.setProperty("--w", w.toFixed(3));
      element.classList.toggle("heed-strong", w > 0.69);
    };

    // What the chosen token attends to: shaded words, and a sentence for those who listen.
    const look = () => {
      const i = peek ?? row;
      const weights = kind.columns.map((_, j) => weight(i, j));
      seen.forEach((word, j) => {
        paint(word, weights[j]);
        word.lastChild.textContent = Math.round(100 * weights[j]);
      });
      lines.forEach((line, k) => line.classList.toggle("heed-row", k === i));
      tokens.buttons.forEach((button, k) => button.classList.toggle("heed-peek", k === peek));
      const most = weights.map((w, j) => [w, j]).sort((a, b) => b[0] - a[0] || a[1] - b[1]).slice(0, 3);
      const said = most.filter(([w]) => w >= 0.01).map(([w, j]) => `${kind.columns[j]} ${Math.round(100 * w)} %`);
      words.textContent = `${kind.rows[i]} attends to ${said.join(", ") || "nothing"}`;
    };

    const repaint = () => {
      cells.forEach((line, i) => line.forEach((cell, j) => {
        const w = weight(i, j);
        paint(cell, w);
        cell.textContent = w >= 0.1 ? Math.round(100 * w) : "";
        cell.title = `${kind.rows[i]} → ${kind.columns[j]}: ${w.toFixed(3)}`;
      }));
      look();
    };

    // The table: pointing at a row looks at it for a moment, a click keeps it.
    const table = () => {
      const top = make("tr", {}, make("td"), ...kind.columns.map(token => {
        return make("th", { scope: "col" }, make("bdi", { textContent: token }));
      }));
      cells = kind.rows.map(() => kind.columns.map(() => make("td")));
      lines = kind.rows.map((token, i) => {
        const name = make("th", { scope: "row" }, make("bdi", { textContent: token }));
        return hover(make("tr", { onclick: () => tokens.pick(i) }, name, ...cells[i]), i);
      });
      return make("div", { className: "heed-table" }, make("table", {}, make("tbody", {}, top, ...lines)));
    };
    const hover = (element, i) => Object.assign(element, {
      onmouseenter: () => { peek = i; look(); },
      onmouseleave: () => { peek = null; look(); },
    });

    const show = k => {
      kind = kinds[k];
      layer = Math.min(layer ?? kind.layers - 1, kind.layers - 1);
      head = Math.min(head, kind.heads);
      row = Math.min(row, kind.rows.length - 1);
      peek = null;
      const count = n => Array.from({ length: n }, (_, i) => String(i + 1));
      layers = choice("layer", count(kind.layers), layer, i => { layer = i; repaint(); });
      heads = choice("head", ["mean", ...count(kind.heads)], head, i => { head = i; repaint(); });
      tokens = choice("token", kind.rows, row, i => { row = i; peek = null; look(); });
      tokens.buttons.forEach((button, i) => hover(button, i));
      seen = kind.columns.map(token => {
        return make("span", {}, make("bdi", { textContent: token }), " ", make("small"));
      });
      words = make("p", { ariaLive: "polite" });
      const line = make("div", { className: "heed-seen" }, make("span", { textContent: "attends to" }), ...seen);
      body.replaceChildren(layers, heads, tokens, line, words, table());
      repaint();
    };
    const body = make("div"), names = kinds.map(({ name }) => name);
    view.replaceChildren(choice("attention", names, 0, show), body);
    show(0);
  };

  for (const root of document.querySelectorAll(".heed-explorer")) {
    if (!root.live) start(root);
    root.live = true;
  }
}
