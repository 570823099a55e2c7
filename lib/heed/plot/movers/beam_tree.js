// A beam search, step by step, in a tree of all sentences; the reader chooses the width and the step.
const figure = (given, title, again) => {
  const nodes = [], BEGIN = { token: given.begin, logP: 0, depth: 0, children: [] };
  const grow = (children, parent) => children.forEach(([token, logP, rest]) => {
    const node = { token, logP: parent.logP + logP, depth: parent.depth + 1, parent, children: [] };
    parent.children.push(node);
    nodes.push(node);
    grow(rest, node);
    if (!rest.length) node.leaf = leaves++;
  });
  let leaves = 0;
  grow(given.tree, BEGIN);
  const depth = Math.max(...nodes.map(node => node.depth));
  const middle = node => node.height ??= node.children.length
    ? (middle(node.children[0]) + middle(node.children.at(-1))) / 2 : node.leaf;
  const said = node => node.parent ? [...said(node.parent), node.token] : [];
  const words = node => said(node).join(" ");

  // The state of each node after so many steps: kept, pruned, or not looked at; and what has ended by then.
  const search = (width, steps) => {
    const state = new Map(), ended = [];
    let live = [BEGIN], longer = [], kept = [];
    for (let step = 1; step <= steps && live.length; step++) {
      longer = live.flatMap(node => node.children).sort((a, b) => b.logP - a.logP);
      longer.forEach((node, i) => state.set(node, i < width ? "kept" : "pruned"));
      kept = longer.slice(0, width);
      ended.push(...kept.filter(node => !node.children.length));
      live = kept.filter(node => node.children.length);
    }
    return { state, live, longer, kept, best: ended.sort((a, b) => b.logP - a.logP)[0] };
  };

  const width = slider("width", [1, 4, 1], given.width, again);
  const step = slider("step", [0, depth, 1], depth, again, i => `${i} of ${depth}`);
  const body = stage(title);

  const paint = W => {
    const { state, live, longer, kept, best } = search(width.value, step.value);
    const answer = live.length ? null : best;
    const each = (W - 68) / depth, x = node => 26 + node.depth * each, y = node => 22 + 40 * middle(node);
    const isAbove = (node, below) => node === below || (below?.parent ? isAbove(node, below.parent) : false);
    const looks = node => isAbove(node, answer) ? "answer" : state.get(node) ?? "unseen";
    const INK = { answer: "var(--green)", kept: "var(--blue)", pruned: "var(--soft)", unseen: "var(--line)" };
    const half = node => Math.min(each / 2 - 5, 4 * [...node.token].length + 6);
    const branch = node => line(x(node.parent) + half(node.parent), y(node.parent), x(node) - half(node), y(node), {
      stroke: INK[looks(node)], "stroke-width": { answer: 4, kept: 3 }[looks(node)] ?? 1.2,
      ...(looks(node) === "pruned" ? { "stroke-dasharray": "3 3" } : {}),
    });
    const word = node => {
      const how = node.parent ? looks(node) : "kept", faint = how === "pruned" || how === "unseen";
      const token = { class: faint ? "heed-soft" : "", "font-weight": faint ? "normal" : "bold" };
      if (how === "pruned") token["text-decoration"] = "line-through";
      return draw("g", { class: `heed-node heed-${how}` },
        text(node.token, x(node), y(node) + 4, token),
        ...(node.parent && how !== "unseen" ? [text(fixed(node.logP), x(node), y(node) + 18,
          { class: "heed-small", style: `fill: ${INK[how]}` })] : []));
    };
    const legend = ["answer", "kept", "pruned", "unseen"].map((how, i) => text(how, 26 + 70 * i, 40 * leaves + 22,
      { class: "heed-small", ...(how === "pruned" ? { "text-decoration": "line-through" } : {}),
        style: `fill: ${how === "unseen" ? "var(--soft)" : INK[how]}` }));
    body.fill(W, 40 * leaves + 28, ...nodes.map(branch), ...[BEGIN, ...nodes].map(word), ...legend);
    const list = nodes => nodes.map(node => `“${words(node)}” (log P ${fixed(node.logP)})`).join(", ");
    if (!step.value) return `Step 0: nothing is said. A beam of ${width.value} keeps the ${width.value} most probable.`;
    if (!answer) return `Step ${step.value}, width ${width.value}: of ${longer.length} hypotheses ${list(kept)} stay.`;
    const greedy = search(1, depth).best;
    const beside = answer === greedy ? width.value > 1 ? " Greedy search finds the same." : ""
      : ` Greedy search answers ${list([greedy])}.`;
    const who = width.value > 1 ? `a beam of ${width.value}` : "greedy search (width 1)";
    return `The answer of ${who} is ${list([answer])}, probability ${fixed(Math.exp(answer.logP))}.${beside}`;
  };
  return { controls: [width, step], body, paint };
};
