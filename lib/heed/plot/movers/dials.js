// A position as hands on dials, and the same position Δ further on: every hand turns by its own fixed angle.
const figure = (given, title, again) => {
  const { d, most } = given, speeds = Array.from({ length: d / 2 }, (_, i) => 10000 ** (-2 * i / d));
  const pos = slider("position", [0, most, 1], given.position, again);
  const shift = slider("shift Δ", [0, most, 1], given.shift, again);
  const body = stage(title);
  const code = at => speeds.map(speed => [Math.sin(at * speed), Math.cos(at * speed)]);
  const product = (p, k) => {
    const other = code(p + k);
    return code(p).reduce((sum, [s, c], i) => sum + s * other[i][0] + c * other[i][1], 0);
  };

  const paint = W => {
    const p = pos.value, k = shift.value, here = code(p), there = code(p + k);
    const terms = speeds.map((_, i) => fixed(here[i][0] * there[i][0] + here[i][1] * there[i][1]));
    const rows = Math.ceil(d / 2 / Math.floor(W / (d > 8 ? 80 : 70))), columns = Math.ceil(d / 2 / rows);
    const each = W / columns, r = Math.min(54, each / 2 - 5), tall = 2 * r + 50;
    const dial = i => {
      const x = (i % columns + 0.5) * each, y = Math.floor(i / columns) * tall + r + 4;
      const turn = (k * speeds[i]) % (2 * Math.PI), far = turn > Math.PI ? 1 : 0, q = 0.45 * r;
      const tip = ([s, c], long) => [x + long * s, y - long * c];
      const arc = `M ${tip(here[i], q)} A ${q} ${q} 0 ${far} 1 ${tip(there[i], q)}`;
      const hand = (code, name, more) => line(x, y, ...tip(code, 0.92 * r), {
        stroke: `var(--${name})`, "stroke-width": 3.5, "stroke-linecap": "round", ...more,
      });
      return [
        draw("circle", { cx: x, cy: y, r, fill: "none", stroke: "var(--line)", "stroke-width": 1.5 }),
        line(x, y - r, x, y - r + 6, { stroke: "var(--soft)" }),
        draw("path", { d: arc, fill: "none", stroke: "var(--soft)", "stroke-width": 1.5 }),
        hand(there[i], "orange", { "stroke-dasharray": "6 5" }), hand(here[i], "blue"),
        draw("circle", { cx: x, cy: y, r: 3, fill: "var(--ink)" }),
        text(`turn ${Number((k * speeds[i]).toPrecision(2))}`, x, y + r + 17, { class: "heed-small heed-soft" }),
        text(`cos ${terms[i]}`, x, y + r + 34, { class: "heed-term" }),
      ];
    };
    const top = rows * tall + 22, foot = top + 100, left = 34, right = W - 12;
    const products = Array.from({ length: 4 * most + 1 }, (_, i) => product(p, i / 4));
    const low = Math.min(0, ...products);
    const x = at => left + at / most * (right - left), y = value => foot - (value - low) / (d / 2 - low) * 100;
    const curve = products.map((value, i) => `${x(i / 4).toFixed(1)},${y(value).toFixed(1)}`);
    const whole = product(p, k), grid = { stroke: "var(--line)" };
    body.fill(W, foot + 24, ...speeds.flatMap((_, i) => dial(i)),
      text("dot product of the two positions", 0, top - 10, { "text-anchor": "start" }),
      ...[d / 2, 0].flatMap(tick => [
        line(left, y(tick), right, y(tick), grid),
        text(fixed(tick, 0), left - 6, y(tick) + 4, { "text-anchor": "end", class: "heed-small heed-soft" }),
      ]),
      ...[0, most / 2, most].map(tick => text(tick, x(tick), foot + 17, { class: "heed-small heed-soft" })),
      text("shift Δ", x(most / 4), foot + 17, { class: "heed-small" }),
      draw("polyline", { points: curve.join(" "), fill: "none", stroke: "var(--green)", "stroke-width": 2 }),
      draw("circle", { cx: x(k), cy: y(whole), r: 6, fill: "var(--green)" }),
    );
    return `From position ${p} (blue) to ${p + k} (orange, dashed) each hand turns by its own angle, in radians: the `
      + `same at every position. The dot product, the sum of the cosines, is ${fixed(whole)}; it depends on Δ alone.`;
  };
  return { controls: [pos, shift], body, paint };
};
