// A damaged picture, and how a Hopfield network completes it: one pixel after another, while the energy falls.
const figure = (given, title, again) => {
  const { names, order } = given, n = order.length, side = Math.sqrt(n), last = 2 * n;
  const X = given.pictures.map(row => [...row].map(pixel => pixel === "#" ? 1 : -1));
  const HARMS = [
    ["lower half torn", (pixel, i) => i < n / 2 ? pixel : 0], ["upper half torn", (pixel, i) => i < n / 2 ? 0 : pixel],
    ["left half torn", (pixel, i) => i % side < side / 2 ? 0 : pixel], ["a fifth turned", (pixel, i) => i % 5 ? pixel : -pixel],
    ["dark for light", pixel => -pixel],
  ];
  let which = given.start, harm = 0, course = [];

  const dot = (a, b) => a.reduce((sum, each, i) => sum + each * b[i], 0);
  const energy = x => (X.length * dot(x, x) - X.reduce((sum, row) => sum + dot(row, x) ** 2, 0)) / 2;
  const field = (x, i) => X.reduce((sum, row) => sum + row[i] * dot(row, x), 0) - X.length * x[i];  // W has no diagonal
  const asked = (x, i) => Math.sign(field(x, i)) || x[i];
  const begin_anew = () => {
    let x = X[which].map(HARMS[harm][1]);
    course = [{ x, E: energy(x) }];
    for (let step = 0; step < last; step++) {
      const i = order[step % n], pixel = asked(x, i);
      if (pixel !== x[i]) x = x.map((each, j) => j === i ? pixel : each);
      course.push({ x, E: energy(x) });
    }
  };
  const row = (name, words, chosen, choose) => {
    const buttons = words.map((word, i) => make("button", { type: "button", onclick: () => {
      choose(i);
      press();
      steps.set(0);
      begin_anew();
      again();
    } }, word));
    const press = () => buttons.forEach((button, i) => {
      button.ariaPressed = String(i === chosen());
      button.style.boxShadow = i === chosen() ? "inset 0 0 0 2px var(--blue)" : "";
    });
    press();
    return make("div", { className: "heed-presets", role: "group", ariaLabel: name }, ...buttons);
  };
  const pictures = row("picture", names, () => which, i => { which = i; });
  const harms = row("damage", HARMS.map(([word]) => word), () => harm, i => { harm = i; });
  const steps = slider("pixels updated", [0, last, 1], 0, () => again());
  const body = stage(title);
  begin_anew();

  const found = x => {
    if (x.some((pixel, i) => asked(x, i) !== pixel)) return "";
    const overlaps = X.map(row => dot(row, x)), mu = overlaps.findIndex(overlap => Math.abs(overlap) === n);
    if (mu < 0) return "At rest, in a picture that nobody has stored. ";
    return `At rest: ${overlaps[mu] > 0 ? "the" : "the negative of the"} ${names[mu]}. `;
  };
  const paint = W => {
    const beside = W >= 480, size = Math.floor((beside ? 216 : Math.min(W, 264)) / side), now = steps.value;
    const { x, E } = course[now], grid = size * side;
    const left = beside ? grid + 70 : 56, top = beside ? 24 : grid + 40, tall = beside ? grid - 54 : 110, wide = W - left - 14;
    const high = Math.max(...course.map(step => step.E)), low = Math.min(...course.map(step => step.E));
    const at = (step, value) => [left + wide * step / last, top + tall * (high - value) / (high - low || 1)];
    const pixel = value => value > 0 ? "rgb(var(--strong))" : value < 0 ? "var(--paper)" : "var(--hidden)";
    const [dotX, dotY] = at(now, E), small = { class: "heed-small heed-soft" };
    body.fill(W, beside ? grid + 8 : top + tall + 30,
      ...x.map((value, i) => draw("rect", { x: size * (i % side), y: size * Math.floor(i / side), width: size, height: size,
        fill: pixel(value), stroke: "var(--line)", "stroke-width": 0.5, class: "heed-pixel" })),
      draw("polyline", { points: course.map((step, i) => at(i, step.E).join()).join(" "), fill: "none", stroke: "var(--blue)", "stroke-width": 2 }),
      draw("circle", { cx: dotX, cy: dotY, r: 6, fill: "var(--orange)" }),
      text("energy", left, top - 12, { ...small, "text-anchor": "start" }),
      ...(high === low ? [high] : [high, low]).map(value => text(fixed(value, 0), left - 8, at(0, value)[1] + 4, { ...small, "text-anchor": "end" })),
      ...[0, n, last].map(step => text(String(step), at(step, low)[0], top + tall + 22, { ...small, "text-anchor": step === last ? "end" : "middle" })),
    );
    const unknown = x.filter(value => value === 0).length;
    return `${now} pixels updated: E = ${fixed(E, 0)}${unknown ? `, and ${unknown} pixels are not known` : ""}. ${found(x)}`.trim();
  };
  return { controls: [pictures, harms, steps], body, paint };
};
