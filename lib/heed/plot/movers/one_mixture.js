// Four lists on the line of one mixture: α and β move them, and each read-out has its cut, or none.
const figure = (given, title, again) => {
  const LEAST = 0.1, MOST = 0.85;  // of a weight; the other tokens of the list keep some, too
  const shown = x => fixed(x);
  // One softmax has one unit of weight to give: what the one takes beyond 0.95, the other loses.
  const moved = other => x => {
    if (x + other().value > 0.951) other().set(fixed(0.95 - x));
    again();
  };
  const alpha = slider("α, weight of A", [LEAST, MOST, 0.05], given.alpha, moved(() => beta), shown);
  const beta = slider("β, weight of B", [LEAST, MOST, 0.05], given.beta, moved(() => alpha), shown);
  const body = stage(title);
  let scale = 1, held = null;

  const paint = W => {
    const a = alpha.value, b = beta.value, from = 34, to = W - 34;
    const x = D => from + D * (to - from);
    scale = to - from;
    const lists = [
      { name: "3ᴬ3ᴮ", D: 0, A: 3, B: 3, level: -1 }, { name: "7ᴬ7ᴮ", D: a + b, A: 7, B: 7, level: -1 },
      { name: "7ᴬ3ᴮ", D: a, A: 7, B: 3, level: 1, grip: alpha }, { name: "3ᴬ7ᴮ", D: b, A: 3, B: 7, level: 2, grip: beta },
    ];
    const mark = (digit, at, y) => digit === 7
      ? draw("circle", { cx: at, cy: y, r: 8, fill: "var(--blue)" })
      : draw("rect", { x: at - 7, y: y - 7, width: 14, height: 14, fill: "var(--orange)" });
    const row = (who, y) => {
      const one = lists.filter(list => list[who] === 7), other = lists.filter(list => list[who] === 3);
      const low = Math.max(...other.map(({ D }) => D)), high = Math.min(...one.map(({ D }) => D));
      const has = high - low > 0.001, at = (low + high) / 2;
      const cut = { stroke: "var(--green)", "stroke-width": 2.5, "stroke-dasharray": "6 4", class: "heed-cut" };
      return [
        text(`Read-out ${who}: ${has ? `a cut at ${fixed(at, 3).replace(/0$/, "")}` : "no cut"}`, 0, y - 48,
          { "text-anchor": "start", "font-weight": "bold", class: `heed-${who}` }),
        line(x(0) - 20, y, x(1) + 20, y, { stroke: "var(--soft)", "stroke-width": 1.5 }),
        ...(has ? [line(x(at), y - 36, x(at), y + 46, cut)] : []),
        ...lists.flatMap(list => {
          const level = { "-1": y - 18, 1: y + 27, 2: y + 45 }[list.level];
          const group = draw("g", {}, mark(list[who], x(list.D), y), text(list.name, x(list.D), level));
          if (list.level === 2) group.prepend(line(x(list.D), y, x(list.D), y + 32, { stroke: "var(--line)" }));
          if (list.grip) {
            group.classList.add("heed-grip");
            group.onpointerdown = event => {
              held = { grip: list.grip, x: event.clientX, from: list.grip.value };
              body.setPointerCapture(event.pointerId);
            };
          }
          return [group];
        }),
      ];
    };
    const ticks = [0, 0.2, 0.4, 0.6, 0.8, 1].flatMap(tick => [
      line(x(tick), 270, x(tick), 275, { stroke: "var(--soft)" }),
      text(fixed(tick, 1), x(tick), 289, { class: "heed-small heed-soft" }),
    ]);
    const legend = [
      mark(7, 10, 10), text("must say 7", 24, 15, { "text-anchor": "start" }),
      mark(3, 130, 10), text("must say 3", 144, 15, { "text-anchor": "start" }),
    ];
    body.fill(W, 316, ...legend, ...row("A", 94), ...row("B", 212), ...ticks,
      line(x(0), 270, x(1), 270, { stroke: "var(--soft)" }),
      text("D = α p(at A) + β p(at B), with p₇ = 1 and p₃ = 0", W / 2, 309, { class: "heed-small heed-soft" }),
    );
    if (Math.abs(a - b) < 0.001) {
      return `α = β = ${fixed(a)}: 7ᴬ3ᴮ and 3ᴬ7ᴮ are one point. It must say 7 and 3: neither read-out has a cut.`;
    }
    const [yes, no, first, second] = a > b ? ["A", "B", "7ᴬ3ᴮ", "3ᴬ7ᴮ"] : ["B", "A", "3ᴬ7ᴮ", "7ᴬ3ᴮ"];
    return `α = ${fixed(a)} is ${a > b ? "above" : "below"} β = ${fixed(b)}: a cut for ${yes}, none for ${no}. `
      + `${no} needs ${second} and 7ᴬ7ᴮ on one side, and ${first} stands between them.`;
  };

  body.onpointermove = event => {
    if (!held) return;
    const to = held.from + (event.clientX - held.x) / scale;
    const input = held.grip.querySelector("input");
    input.value = to;  // the slider rounds, and keeps to its ends
    input.oninput();
  };
  body.onpointerup = body.onpointercancel = () => { held = null; };
  return { controls: [alpha, beta], body, paint };
};
