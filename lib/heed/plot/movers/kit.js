// What all movers share: controls, a stage of SVG that is drawn anew at every width, numbers in writing, and
// the place of the still picture. Nothing here has a global name or an id.

const make = (tag, properties = {}, ...children) => {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
};

const draw = (tag, attributes = {}, ...children) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
};

const text = (words, x, y, attributes = {}) => draw("text", { x, y, "text-anchor": "middle", ...attributes }, words);
const line = (x1, y1, x2, y2, attributes = {}) => draw("line", { x1, y1, x2, y2, ...attributes });

// A number with so many decimals, with the typographic minus sign; what rounds to zero has none.
const fixed = (x, decimals = 2) => x.toFixed(decimals).replace(/^-(?=[0.]+$)/, "").replace("-", "−");

// Two figures of a small number: 0.25, 0.0031, 2.1·10⁻⁷.
const small = x => {
  if (x === 0 || x >= 0.00095) return String(Number(x.toPrecision(2)));
  const [digits, power] = x.toExponential(1).split("e-");
  return `${digits}·10⁻${[...power].map(digit => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]).join("")}`;
};

// A native slider with its name and its value in words; `set` moves it, `value` says where it is.
const slider = (name, [least, most, step], start, change, shown = String) => {
  const input = make("input", { type: "range", min: least, max: most, step, value: start });
  const value = make("b"), label = make("label", { className: "heed-slider" }, make("span", {}, name), input, value);
  const say = () => {
    value.textContent = shown(Number(input.value));
    input.setAttribute("aria-valuetext", value.textContent);
  };
  label.set = to => {
    input.value = to;
    say();
  };
  Object.defineProperty(label, "value", { get: () => Number(input.value) });
  input.oninput = () => {
    say();
    change(Number(input.value));
  };
  say();
  return label;
};

const checkbox = (name, checked, change) => {
  const input = make("input", { type: "checkbox", checked, onchange: () => change(input.checked) });
  return make("label", { className: "heed-check" }, input, name);
};

const stage = name => {
  const svg = draw("svg", { role: "img", "aria-label": name });
  svg.fill = (width, height, ...shapes) => {
    for (const [key, value] of Object.entries({ width, height, viewBox: `0 0 ${width} ${height}` })) {
      svg.setAttribute(key, value);
    }
    svg.replaceChildren(...shapes);
  };
  return svg;
};

// The still picture is what the same cell has shown before; a page's cell ends at one of these.
const CELL = ".cell_output, .jp-OutputArea, .jp-Cell, .cell_container, #output-area, body";
const still = root => {
  for (let node = root; node && !node.matches(CELL); node = node.parentElement) {
    const before = node.previousElementSibling;
    if (before?.matches("img, :has(img)")) return before;
  }
};

// Build the mover in its place. A figure is a function of what Python gave it, of its title, and of `again`, which
// it calls when something has moved. It returns controls, a body, and `paint`, which draws the body at a width and
// returns the finding as a sentence.
const begin = (root, figure) => {
  const given = JSON.parse(root.dataset.given), title = root.getAttribute("aria-label");
  const words = make("p", { className: "heed-words" });
  let width = 0;
  const again = () => {
    words.textContent = mover.paint(Math.max(280, Math.min(width || 600, 640)));
  };
  const mover = figure(given, title, again);
  const controls = make("div", { className: "heed-controls" }, ...mover.controls);
  root.append(make("style", {}, LOOKS), make("p", { className: "heed-title" }, title), controls, mover.body, words);
  width = root.clientWidth;
  again();
  words.setAttribute("aria-live", "polite");  // from now on, what changes is said
  root.onkeydown = event => event.stopPropagation();  // an arrow moves a slider, not the notebook's cells
  root.dataset.lmSuppressShortcuts = "true";
  still(root)?.classList.add("heed-still");
  new ResizeObserver(() => {
    if (root.clientWidth && root.clientWidth !== width) {
      width = root.clientWidth;
      again();
    }
  }).observe(root);
};
