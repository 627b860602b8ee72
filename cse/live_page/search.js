// What a search found: the score over each axis, all axes at once, and two axes as a map.
import { canvas, extent, frame, hover, piece, scale, ticks, tone } from "./drawing.js";
import { made, short } from "./state.js";

const SCORE = "dev score, mean of a cell's seeds";
const STEPS = 24;
const TILES = 8; // two axes with no more values each are drawn as tiles
const LONGEST = 18; // characters of a value beside an axis
const MANY = 40; // more cells than that show no deviation of their seeds

function axisScale(axis, from, to) {
  if (axis.words.length) {
    const at = scale(0, Math.max(1, axis.words.length - 1), from + Math.sign(to - from) * 14, to - Math.sign(to - from) * 14);
    return { at: axis.words.length > 1 ? at : () => (from + to) / 2, ticks: axis.words.map((_, i) => i), text: (i) => axis.words[i] };
  }
  const have = axis.values.filter((value) => value !== null), [low, high] = extent(have);
  const at = axis.log ? scale(Math.min(...have), Math.max(...have), from, to, true) : scale(low, high, from, to);
  return { at, ticks: axis.log ? ticks(Math.min(...have), Math.max(...have), true) : ticks(low, high, false, 4) };
}

function shares(cells) {
  const order = cells.map((_, i) => i).sort((a, b) => cells[a].best - cells[b].best), share = new Array(cells.length);
  order.forEach((cell, rank) => { share[cell] = cells.length > 1 ? rank / (cells.length - 1) : 1; });
  return share;
}

const cut = (text, most = LONGEST) => text.length > most ? `${text.slice(0, Math.ceil((most - 1) / 2))}…${text.slice(-Math.floor((most - 1) / 2))}` : text;
const told = (cell) => `${cell.label}: ${short(cell.best)}${cell.n > 1 ? ` (${cell.n} seeds)` : ""}`;

export function slices(found, width) {
  const where = made("div", null, "slices");
  for (const axis of found.axes) {
    const box = { left: 48, right: width - 12, top: 28, bottom: 182, edge: width - 4 };
    const x = axisScale(axis, box.left + 6, box.right - 6), few = found.cells.length <= MANY, spread = (cell) => few && cell.sd ? cell.sd : 0;
    const [low, high] = extent(found.cells.flatMap((cell) => [cell.best - spread(cell), cell.best + spread(cell)]));
    const y = scale(low, high, box.bottom, box.top);
    const svg = canvas(width, 224, `${SCORE} over ${axis.name}`);
    frame(svg, box, x, { ticks: ticks(low, high, false, 4), at: y }, [axis.name + (axis.log ? ", log scale" : ""), "dev score"]);
    const near = [];
    found.cells.forEach((cell, i) => {
      if (axis.values[i] === null) return;
      const point = { x: x.at(axis.values[i]), y: y(cell.best), text: told(cell) };
      if (spread(cell)) svg.append(piece("line", { class: "spread", x1: point.x, x2: point.x, y1: y(cell.best - cell.sd), y2: y(cell.best + cell.sd) }));
      svg.append(piece("circle", { class: "cell", cx: point.x.toFixed(1), cy: point.y.toFixed(1), r: 3 }));
      near.push(point);
    });
    hover(svg, near, box);
    where.append(svg);
  }
  return where;
}

export function parallel(found, width) {
  const height = 330, top = 44, bottom = height - 26;
  const columns = [...found.axes, { name: "dev score", words: [], log: false, values: found.cells.map((cell) => cell.best) }];
  const svg = canvas(width, height, `${found.cells.length} cells over ${columns.length - 1} axes and the dev score`);
  const left = Math.max(60, ...columns[0].words.map((word) => 16 + 7 * cut(word, Math.floor(width / 40)).length));
  const x = scale(0, columns.length - 1, left, width - 60), scales = columns.map((axis) => axisScale(axis, bottom, top)), share = shares(found.cells);
  const near = [];
  found.cells.map((_, i) => i).reverse().forEach((i) => {
    const at = columns.map((axis, c) => axis.values[i] === null ? null : [x(c), scales[c].at(axis.values[i])]).filter(Boolean);
    svg.append(piece("polyline", { class: "strand", points: at.map((one) => one.map((v) => v.toFixed(1)).join()).join(" "), stroke: tone(share[i]), opacity: (0.25 + 0.75 * share[i]).toFixed(2) }));
    at.forEach(([px, py]) => near.push({ x: px, y: py, text: told(found.cells[i]) }));
  });
  columns.forEach((axis, c) => {
    const anchor = c === 0 ? "start" : c === columns.length - 1 ? "end" : "middle", edge = c === 0 ? 6 : c === columns.length - 1 ? width - 6 : x(c);
    svg.append(piece("line", { class: "axis", x1: x(c), x2: x(c), y1: top, y2: bottom }));
    svg.append(piece("text", { class: "name", x: edge, y: c % 2 ? 30 : 16, "text-anchor": anchor }, axis.name));
    for (const mark of scales[c].ticks) svg.append(piece("text", { class: "mark", x: x(c) + (c === columns.length - 1 ? 5 : -5), y: scales[c].at(mark) + 4, "text-anchor": c === columns.length - 1 ? "start" : "end" }, cut(scales[c].text?.(mark) ?? short(mark), Math.floor(((c ? x(1) - x(0) : left) - 12) / 7))));
  });
  hover(svg, near, { left: 0, right: width });
  return svg;
}

// The values of an axis in their order, and the place of each cell among them.
function places(axis) {
  const values = axis.words.length ? axis.words.map((_, i) => i) : [...new Set(axis.values.filter((value) => value !== null))].sort((a, b) => a - b);
  return { texts: values.map((value) => cut(axis.words.length ? axis.words[value] : short(value))), of: axis.values.map((value) => values.indexOf(value)) };
}

// Two axes of categories, or of few values each: a tile for each pair that has cells, and none where no run is.
function tiles(found, a, b, width) {
  const x = places(a), y = places(b), left = 16 + 7 * Math.max(...y.texts.map((text) => text.length)), height = Math.min(420, 110 + 44 * y.texts.length);
  const box = { left, right: width - 12, top: 30, bottom: height - 50, edge: width - 4 };
  const wide = (box.right - box.left) / x.texts.length, tall = (box.bottom - box.top) / y.texts.length, groups = new Map();
  found.cells.forEach((cell, i) => { if (x.of[i] >= 0 && y.of[i] >= 0) groups.set(`${x.of[i]} ${y.of[i]}`, [...(groups.get(`${x.of[i]} ${y.of[i]}`) ?? []), cell]); });
  const drawn = [...groups].map(([key, cells]) => { const [i, j] = key.split(" ").map(Number); return { i, j, cells, mean: cells.reduce((sum, cell) => sum + cell.best, 0) / cells.length }; });
  const svg = canvas(width, height, `${SCORE} over ${a.name} and ${b.name}`), means = drawn.map((tile) => tile.mean), low = Math.min(...means), high = Math.max(...means), near = [];
  const centre = (texts, from, step) => ({ at: (i) => from + (i + 0.5) * step, ticks: texts.map((_, i) => i), text: (i) => texts[i] });
  frame(svg, box, centre(x.texts, box.left, wide), centre(y.texts, box.bottom, -tall), [a.name, b.name]);
  svg.append(piece("rect", { class: "blank", x: box.left, y: box.top, width: box.right - box.left, height: box.bottom - box.top }));
  for (const tile of drawn) {
    const px = box.left + tile.i * wide, py = box.bottom - (tile.j + 1) * tall, middle = { x: px + wide / 2, y: py + tall / 2 };
    svg.append(piece("rect", { x: px + 1, y: py + 1, width: wide - 2, height: tall - 2, fill: tone((tile.mean - low) / (high - low || 1)), opacity: 0.55 }));
    if (wide > 44) svg.append(piece("text", { class: "mark", x: middle.x, y: middle.y + 4, "text-anchor": "middle" }, short(tile.mean)));
    near.push({ ...middle, text: `${x.texts[tile.i]}, ${y.texts[tile.j]}: ${short(tile.mean)} (${tile.cells.length} cell${tile.cells.length > 1 ? "s" : ""})` });
  }
  hover(svg, near, box);
  return [svg, low, high, "A tile is the mean of its cells; where there is none, no run is."];
}

// Each patch has the mean of all cells, weighted by the inverse square of their distance: a picture, not a model.
function field(found, a, b, width) {
  const height = 420, box = { left: 70, right: width - 20, top: 30, bottom: height - 50, edge: width - 4 };
  const x = axisScale(a, box.left, box.right), y = axisScale(b, box.bottom, box.top);
  const points = found.cells.map((cell, i) => a.values[i] === null || b.values[i] === null ? null : { x: x.at(a.values[i]), y: y.at(b.values[i]), best: cell.best, text: told(cell) }).filter(Boolean);
  const svg = canvas(width, height, `${SCORE} over ${a.name} and ${b.name}`), [low, high] = extent(points.map((point) => point.best));
  const wide = (box.right - box.left) / STEPS, tall = (box.bottom - box.top) / STEPS;
  for (let i = 0; i < STEPS; i += 1) for (let j = 0; j < STEPS; j += 1) {
    const px = box.left + (i + 0.5) * wide, py = box.top + (j + 0.5) * tall;
    let sum = 0, weights = 0;
    for (const point of points) {
      const weight = 1 / (((point.x - px) / wide) ** 2 + ((point.y - py) / tall) ** 2 + 0.5);
      sum += weight * point.best; weights += weight;
    }
    svg.append(piece("rect", { x: box.left + i * wide, y: box.top + j * tall, width: wide + 0.5, height: tall + 0.5, fill: tone((sum / weights - low) / (high - low)), opacity: 0.55 }));
  }
  for (const point of points) svg.append(piece("circle", { class: "spot", cx: point.x, cy: point.y, r: 3.5 }));
  frame(svg, box, x, y, [a.name + (a.log ? ", log scale" : ""), b.name + (b.log ? ", log scale" : "")]);
  hover(svg, points, box);
  return [svg, low, high, "Between the cells the picture is interpolated."];
}

export function map(found, first, second, width) {
  const a = found.axes[first], b = found.axes[second], few = (axis) => axis.words.length || new Set(axis.values).size <= TILES;
  const [svg, low, high, how] = a.words.length || b.words.length || (few(a) && few(b)) ? tiles(found, a, b, width) : field(found, a, b, width);
  const where = made("div");
  where.append(svg, made("p", `Blue ${short(low)} to orange ${short(high)}: ${SCORE}. ${how}`, "soft"));
  return where;
}
