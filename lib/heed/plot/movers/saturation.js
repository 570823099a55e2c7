// Softmax over scores that are sums of d products: bars of the weights, and the largest derivative beside them.
const figure = (given, title, again) => {
  const { widths, scores, names } = given;
  const width = slider("width d", [0, widths.length - 1, 1], widths.indexOf(given.width), again, i => widths[i]);
  const scaled = checkbox("divide by √d", false, again);
  const body = stage(title);

  const measure = () => {
    const d = widths[width.value], by = scaled.firstChild.checked ? Math.sqrt(d) : 1;
    const s = scores[width.value].map(score => score / by), n = s.length;
    const mean = s.reduce((a, b) => a + b) / n, top = Math.max(...s);
    const exp = s.map(score => Math.exp(score - top)), sum = exp.reduce((a, b) => a + b);
    const spread = Math.sqrt(s.reduce((a, score) => a + (score - mean) ** 2, 0) / (n - 1));
    const rest = exp.map(e => sum - e);  // 1 − w loses its digits where w is nearly 1
    rest[exp.indexOf(1)] = exp.reduce((a, e, i) => i === exp.indexOf(1) ? a : a + e, 0);
    return { d, s, spread, w: exp.map(e => e / sum), slope: Math.max(...exp.map((e, i) => e * rest[i] / sum / sum)) };
  };

  const paint = W => {
    const { d, s, spread, w, slope } = measure();
    const left = 32, right = W - 110, top = 34, foot = 204, each = (right - left) / s.length;
    const y = share => foot - share * (foot - top);
    const axis = (x, to, ticks, scale) => ticks.flatMap(tick => [
      line(x, y(tick * scale), to, y(tick * scale), { stroke: "var(--line)" }),
      text(tick, x - 6, y(tick * scale) + 4, { "text-anchor": "end", class: "heed-small heed-soft" }),
    ]);
    const bar = (x, wide, share, colour) => draw("rect", {
      x: x - wide / 2, y: y(share), width: wide, height: Math.max(0, foot - y(share)), fill: `var(--${colour})`,
    });
    const digits = s.every(Number.isInteger) || Math.max(...s.map(Math.abs)) >= 100 ? 0 : 1;
    const narrow = each < 32 ? "font-size: 10px" : "";
    body.fill(W, 262,
      ...axis(left, right, [0, 0.5, 1], 1),
      ...w.flatMap((share, i) => {
        const x = left + (i + 0.5) * each;
        return [
          bar(x, 0.7 * each, share, "blue"),
          text(fixed(share), x, y(share) - 5, { class: "heed-weight heed-small", style: narrow }),
          text(names[i], x, foot + 18),
          text(fixed(s[i], digits), x, foot + 35, { class: "heed-small heed-soft", style: narrow }),
        ];
      }),
      text("weight", 0, 12, { "text-anchor": "start" }),
      text("key, and its score", (left + right) / 2, foot + 53, { class: "heed-small heed-soft" }),
      ...axis(W - 66, W - 4, [0, 0.25], 4),
      bar(W - 35, 34, 4 * slope, "orange"),
      text(small(slope), W - 35, y(4 * slope) - 5, { class: "heed-small heed-slope" }),
      text("largest", W - 35, foot + 18),
      text("derivative", W - 35, foot + 33),
    );
    const most = Math.max(...w), last = slope < 0.05 ? "The softmax is saturated: next to no gradient arrives."
      : "A gradient arrives.";
    const what = scaled.firstChild.checked ? "the scores, divided by √d," : "the scores";
    return `At d = ${d}, ${what} have a standard deviation of ${fixed(spread, 1)}. The largest weight is `
      + `${fixed(most)}, the largest derivative ${small(slope)}. ${last}`;
  };
  return { controls: [width, scaled], body, paint };
};
