// A trained Transformer at work in a browser: sub-words, encoder, decoder with its caches, and the search.
//
// The names are those of lib/heed, which computes the same in torch. A matrix of n rows is a Float32Array, one row
// after another. No mask is needed: there is one sentence, without padding, and a token that the decoder reads may look
// at all that stand in its cache.

const PAD = 0, BOS = 1, EOS = 2;
const SPECIAL = ["<pad>", "<bos>", "<eos>", "<unk>"];
const BYTES = Array.from({ length: 256 }, (_, i) => `<0x${i.toString(16).toUpperCase().padStart(2, "0")}>`);
const MARKS = { " ": "▁", "\t": "⇥", "\n": "↵" };

// --- Text in, numbers out, and back: heed.text.Subwords ---------------------------------------------------------

class Subwords {
  constructor({ words, characters, merges }) {
    const spaces = words.replaceAll("\\s", "\\p{White_Space}").replaceAll("\\S", "\\P{White_Space}");
    this.words = new RegExp(spaces, "gu");
    this.tokens = [...new Set([...SPECIAL, ...BYTES, ...characters, ...merges.map(pair => pair.join(""))])];
    this.ids = new Map(this.tokens.map((token, i) => [token, i]));
    const pairs = merges.map(([left, right]) => this.pair(this.ids.get(left), this.ids.get(right)));
    this.ranks = new Map(pairs.map((pair, rank) => [pair, rank]));
  }

  pair(left, right) {
    return left * this.tokens.length + right;
  }

  // A string as ids. A lone surrogate has no UTF-8: it becomes a question mark.
  encode(text) {
    return (text.replace(/\p{Surrogate}/gu, "?").match(this.words) ?? []).flatMap(word => this.merged(word));
  }

  // The characters of a word, those without a token as their bytes; then the merges, the first learned first.
  merged(word) {
    const spelled = character => [...new TextEncoder().encode(character)].map(byte => SPECIAL.length + byte);
    const parts = [...word].flatMap(character => this.ids.get(character) ?? spelled(character));
    for (;;) {
      let first = Infinity, at = 0;
      for (let i = 0; i + 1 < parts.length; i++) {
        const rank = this.ranks.get(this.pair(parts[i], parts[i + 1]));
        if (rank < first) [first, at] = [rank, i];
      }
      if (first === Infinity) return parts;
      parts.splice(at, 2, this.ids.get(this.tokens[parts[at]] + this.tokens[parts[at + 1]]));
    }
  }

  // Ids as a string. Bytes that form no character become �.
  decode(ids) {
    const bytes = ids.filter(id => id !== PAD && id !== BOS).flatMap(id => {
      const byte = id - SPECIAL.length;
      return byte >= 0 && byte < 256 ? byte : [...new TextEncoder().encode(this.tokens[id])];
    });
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(bytes));
  }

  // The tokens behind ids, for people.
  labels(ids) {
    return ids.map(id => this.tokens[id].replace(/[ \t\n]/g, blank => MARKS[blank]));
  }

  // The characters of a text that no sub-word covers, each once.
  unknown(text) {
    return [...new Set(text)].filter(character => !this.ids.has(character) && !/\p{White_Space}/u.test(character));
  }
}

// --- Weights ----------------------------------------------------------------------------------------------------

// How a matrix lies in the bytes, from `at` on: heed.recipe.live writes it.
const KINDS = {
  float32: (bytes, at, n_rows, n_columns) => new Float32Array(bytes, at, n_rows * n_columns),
  bfloat16: (bytes, at, n_rows, n_columns) => {  // the upper halves of float32's bits
    const bits = Uint32Array.from(new Uint16Array(bytes, at, n_rows * n_columns), half => half << 16);
    return new Float32Array(bits.buffer);
  },
  int8: (bytes, at, n_rows, n_columns) => {  // a scale for each row, then whole numbers from −127 to 127
    const scale = new Float32Array(bytes, at, n_rows), matrix = new Float32Array(n_rows * n_columns);
    const whole = new Int8Array(bytes, at + 4 * n_rows, n_rows * n_columns);
    for (let i = 0; i < whole.length; i++) matrix[i] = whole[i] * scale[Math.floor(i / n_columns)];
    return matrix;
  },
};

// From base64 to a tree that is like the model's modules: weights.encoder.layers[0].self_attention.W_q.weight.
const unpack = ({ kind, tensors, base64 }) => {
  const text = atob(base64), bytes = new Uint8Array(text.length), weights = {};
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const read = {};  // a matrix that several modules share is read once
  for (const [name, at, n_rows, n_columns] of tensors) {
    const steps = name.split("."), last = steps.pop();
    const module = steps.reduce((inside, step) => inside[step] ??= {}, weights);
    module[last] = read[at] ??= KINDS[n_rows ? kind : "float32"](bytes.buffer, at, n_rows || 1, n_columns);
  }
  return weights;
};

// --- The parts of a layer ---------------------------------------------------------------------------------------

// y = W x + b for each row x. Four rows of W at a time: each number of x is read once for four products.
const linear = ({ weight, bias }, x) => {
  const n_out = bias.length, n_in = weight.length / n_out, y = new Float32Array(x.length / n_in * n_out);
  for (let next = 0; next < n_out; next += 4) {
    const o = Math.min(next, n_out - 4), w = o * n_in;  // the last four overlap with those before
    for (let from = 0, to = o; from < x.length; from += n_in, to += n_out) {
      let y0 = bias[o], y1 = bias[o + 1], y2 = bias[o + 2], y3 = bias[o + 3];
      for (let j = 0; j < n_in; j++) {
        const x_j = x[from + j], at = w + j;
        y0 += x_j * weight[at];
        y1 += x_j * weight[at + n_in];
        y2 += x_j * weight[at + 2 * n_in];
        y3 += x_j * weight[at + 3 * n_in];
      }
      [y[to], y[to + 1]] = [y0, y1];
      [y[to + 2], y[to + 3]] = [y2, y3];
    }
  }
  return y;
};

const add = (x, y) => x.map((each, i) => each + y[i]);

// LN(x) = a ⊙ (x − mean(x)) / √(var(x) + ε) + b, for each row.
const layerNorm = ({ a, b }, x, eps) => {
  const d_model = a.length, y = new Float32Array(x.length);
  for (let from = 0; from < x.length; from += d_model) {
    let mean = 0, variance = 0;
    for (let c = 0; c < d_model; c++) mean += x[from + c] / d_model;
    for (let c = 0; c < d_model; c++) variance += (x[from + c] - mean) ** 2 / d_model;
    const scale = 1 / Math.sqrt(variance + eps);
    for (let c = 0; c < d_model; c++) y[from + c] = a[c] * (x[from + c] - mean) * scale + b[c];
  }
  return y;
};

// FFN(x) = max(0, x W_1 + b_1) W_2 + b_2
const feedForward = ({ W_1, W_2 }, x) => linear(W_2, linear(W_1, x).map(each => Math.max(0, each)));

const softmax = scores => {
  const most = scores.reduce((a, b) => Math.max(a, b)), exp = scores.map(score => Math.exp(score - most));
  const sum = exp.reduce((a, b) => a + b);
  return exp.map(each => each / sum);
};

// Attention(q, K, V) = softmax(q Kᵀ / √d_k) V in each head, for one query, which may look at every key.
// Returns the mixture (d_model) and the weights (h, n_k).
const attention = (q, k, v, n_heads) => {
  const d_model = q.length, d_k = d_model / n_heads, n_k = k.length / d_model;
  const mixture = new Float32Array(d_model), weights = new Float32Array(n_heads * n_k);
  for (let h = 0; h < n_heads; h++) {
    const scores = weights.subarray(h * n_k, (h + 1) * n_k), first = h * d_k;
    for (let i = 0; i < n_k; i++) {
      let score = 0;
      for (let c = first; c < first + d_k; c++) score += q[c] * k[i * d_model + c];
      scores[i] = score / Math.sqrt(d_k);
    }
    scores.set(softmax(scores));
    for (let i = 0; i < n_k; i++) {
      for (let c = first; c < first + d_k; c++) mixture[c] += scores[i] * v[i * d_model + c];
    }
  }
  return { mixture, weights };
};

// Rows below one another.
const stack = rows => {
  const all = new Float32Array(rows.reduce((n, row) => n + row.length, 0));
  rows.reduce((at, row) => (all.set(row, at), at + row.length), 0);
  return all;
};

const rowsOf = (x, n) => Array.from({ length: n }, (_, i) => x.subarray(i * x.length / n, (i + 1) * x.length / n));

// The likeliest next tokens of one hypothesis: [id, log p] each, the likeliest first.
const likeliest = (logits, width) => {
  let most = -Infinity, sum = 0;
  const best = [];  // of those seen so far
  for (let id = 0; id < logits.length; id++) {
    if (logits[id] > most) most = logits[id];
    if (best.length === width && !(logits[id] > best[width - 1][1])) continue;
    const at = best.findIndex(([, logit]) => logits[id] > logit);
    best.splice(at < 0 ? best.length : at, 0, [id, logits[id]]);
    best.length = Math.min(best.length, width);
  }
  for (const logit of logits) sum += Math.exp(logit - most);
  return best.map(([id, logit]) => [id, logit - most - Math.log(sum)]);
};

// --- The model --------------------------------------------------------------------------------------------------

class Translator {
  constructor(given) {  // what heed.recipe.live wrote
    this.subwords = new Subwords(given.subwords);
    this.weights = unpack(given);
    for (const size of ["d_model", "n_heads", "norm", "eps"]) this[size] = given[size];
    this.encoderLayers = Object.values(this.weights.encoder.layers);
    this.decoderLayers = Object.values(this.weights.decoder.layers);
  }

  // A sublayer in its connection: y = x + F(LN(x)) with the norm before it, y = LN(x + F(x)) with the norm after it.
  connect({ norm }, x, sublayer) {
    if (this.norm === "pre") return add(x, sublayer(layerNorm(norm, x, this.eps)));
    return layerNorm(norm, add(x, sublayer(x)), this.eps);
  }

  // The one norm at the end of a stack, which only pre-norm has.
  last({ norm }, x) {
    return norm ? layerNorm(norm, x, this.eps) : x;
  }

  // A row for each id: its embedding times √d_model, and the sines and cosines of its position.
  embed({ 0: { embedding } }, ids, position) {
    const { d_model } = this, x = new Float32Array(ids.length * d_model);
    ids.forEach((id, i) => {
      for (let c = 0; c < d_model; c++) {
        const angle = position(i) * 10_000 ** (-(c - c % 2) / d_model);
        const code = Math.fround(c % 2 ? Math.cos(angle) : Math.sin(angle));
        x[i * d_model + c] = embedding.weight[id * d_model + c] * Math.sqrt(d_model) + code;
      }
    });
    return x;
  }

  // From the ids of the source to the memory, as the keys and values of each decoder layer.
  encode(source) {
    const n = source.length;
    let x = this.embed(this.weights.source_embed, source, i => i);  // (n, d_model)
    for (const { self_attention: { W_q, W_k, W_v, W_o }, feed_forward, sublayer } of this.encoderLayers) {
      x = this.connect(sublayer[0], x, x => {
        const [q, k, v] = [W_q, W_k, W_v].map(W => linear(W, x));
        return linear(W_o, stack(rowsOf(q, n).map(q_i => attention(q_i, k, v, this.n_heads).mixture)));
      });
      x = this.connect(sublayer[1], x, x => feedForward(feed_forward, x));
    }
    const memory = this.last(this.weights.encoder, x);
    return this.decoderLayers.map(({ source_attention: { W_k, W_v } }) => [linear(W_k, memory), linear(W_v, memory)]);
  }

  // Each hypothesis reads its last token. A cache is never changed: the new keys and values make a new one, so that
  // hypotheses may share what they have in common.
  //
  // Returns for each the logits of what follows, its caches, and where each layer and head looked in the source.
  read(hypotheses, memory) {
    const m = hypotheses.length, n = hypotheses[0].ids.length;
    const caches = hypotheses.map(() => []), looked = hypotheses.map(() => []);
    const said = hypotheses.map(({ ids }) => ids.at(-1) ?? BOS);
    let x = this.embed(this.weights.target_embed, said, () => n);  // (m, d_model)
    this.decoderLayers.forEach(({ self_attention: own, source_attention: source, feed_forward, sublayer }, layer) => {
      x = this.connect(sublayer[0], x, x => {
        const [q, k, v] = [own.W_q, own.W_k, own.W_v].map(W => rowsOf(linear(W, x), m));
        return linear(own.W_o, stack(hypotheses.map(({ cache }, i) => {
          const [before_k, before_v] = cache[layer] ?? [[], []];
          caches[i].push([stack([before_k, k[i]]), stack([before_v, v[i]])]);
          return attention(q[i], ...caches[i][layer], this.n_heads).mixture;
        })));
      });
      x = this.connect(sublayer[1], x, x => {
        return linear(source.W_o, stack(rowsOf(linear(source.W_q, x), m).map((q, i) => {
          const { mixture, weights } = attention(q, ...memory[layer], this.n_heads);
          looked[i].push(weights);
          return mixture;
        })));
      });
      x = this.connect(sublayer[2], x, x => feedForward(feed_forward, x));
    });
    const logits = rowsOf(linear(this.weights.generator.proj, this.last(this.weights.decoder, x)), m);
    for (const row of logits) row[PAD] = row[BOS] = -Infinity;  // never written
    return logits.map((row, i) => ({ logits: row, cache: caches[i], looked: looked[i] }));
  }

  // Keep the `width` likeliest hypotheses; the answer is the best that has ended (heed.decode.beam). A width of 1 is
  // greedy search. After each token it yields the best hypothesis so far; the last one is the answer:
  // its ids, EOS too if it has ended, and for each of them where it looked, [layer] (h, n_source).
  *search(source, width = 1, alpha = 1) {
    if (!source.length) return;
    const memory = this.encode(source), limit = 2 * source.length + 10;
    const lp = n => ((5 + n) / 6) ** alpha;  // for n tokens, EOS too (Wu et al. 2016, eq. 14)
    let alive = [{ ids: [], log_p: 0, cache: [], attention: [] }], answer = null, best = -Infinity;
    for (let n = 1; n <= limit; n++) {
      const read = this.read(alive, memory);
      const longer = alive.flatMap(({ ids, log_p, attention }, i) => {
        const { logits, cache, looked } = read[i];
        return likeliest(logits, width).map(([id, log_p_id]) => (
          { ids: [...ids, id], log_p: log_p + log_p_id, cache, attention: [...attention, looked] }));
      });
      const kept = longer.sort((one, other) => other.log_p - one.log_p).slice(0, width);
      for (const hypothesis of kept.filter(({ ids }) => ids.at(-1) === EOS)) {
        const score = hypothesis.log_p / lp(n);
        if (score > best) [best, answer] = [score, hypothesis];
      }
      alive = kept.filter(({ ids }) => ids.at(-1) !== EOS);
      if (n === limit) answer ??= alive[0];
      // log P only falls and lp only grows: this is the best that a hypothesis can still reach.
      const hope = alive.length ? alive[0].log_p / lp(limit) : -Infinity;
      if (n === limit || hope <= best) break;
      yield kept[0];
    }
    yield answer;
  }
}
