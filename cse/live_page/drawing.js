// SVG by hand: scales, axes with their names, and the value under the pointer.
import { short } from "./state.js";

export function piece(name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// Pixels that a figure may take; `parts` stand side by side where there is room for 352 each.
export function room(where, parts = 1) {
  const wide = where.clientWidth || 760, beside = Math.min(parts, Math.max(1, Math.floor((wide + 11) / 363)));
  return Math.min(760, Math.max(280, Math.floor((wide - 11 * (beside - 1)) / beside) - 2));
}

export function canvas(width, height, label) {
  return piece("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label });
}

// Round steps that cover the values; for a log scale powers of ten, or the ends.
export function ticks(low, high, log, most = 5) {
  if (log) {
    const powers = [];
    for (let p = Math.ceil(Math.log10(low) - 1e-9); 10 ** p <= high * (1 + 1e-9); p += 1) powers.push(10 ** p);
    return powers.length > 1 ? powers : [low, high];
  }
  const rough = (high - low) / most || 1, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough);
  const marks = [];
  for (let mark = Math.ceil(low / step - 1e-9) * step; mark <= high + step * 1e-6; mark += step) marks.push(Number(mark.toPrecision(12)));
  return marks;
}

// A function from a value to pixels between `from` and `to`.
export function scale(low, high, from, to, log) {
  const at = log ? Math.log10 : (value) => value;
  const size = at(high) - at(low) || 1;
  return (value) => from + (to - from) * (at(value) - at(low)) / size;
}

export function extent(values) {
  const low = Math.min(...values), high = Math.max(...values);
  return low === high ? [low - Math.abs(low) / 10 - 0.5, high + Math.abs(high) / 10 + 0.5] : [low, high];
}

// The frame of a plot: lines and numbers at the ticks, what each axis is in words.
export function frame(svg, box, x, y, names) {
  for (const mark of y.ticks) {
    svg.append(piece("line", { class: "grid", x1: box.left, x2: box.right, y1: y.at(mark), y2: y.at(mark) }));
    svg.append(piece("text", { x: box.left - 6, y: y.at(mark) + 4, "text-anchor": "end" }, y.text?.(mark) ?? short(mark)));
  }
  const texts = x.ticks.map((mark) => x.text?.(mark) ?? short(mark)), wide = Math.max(...texts.map((text) => text.length)) * 7 + 10;
  let free = -Infinity;
  x.ticks.forEach((mark, i) => {
    const middle = x.at(mark), half = texts[i].length * 3.5;
    if (middle - half < free) return;
    free = middle + Math.max(half, wide / 2);
    const shift = Math.min(0, box.edge - (middle + half));
    svg.append(piece("text", { x: middle + shift, y: box.bottom + 18, "text-anchor": "middle" }, texts[i]));
  });
  svg.append(piece("text", { class: "name", x: (box.left + box.right) / 2, y: box.bottom + 36, "text-anchor": "middle" }, names[0]));
  svg.append(piece("text", { class: "name", x: box.left - 40, y: box.top - 10 }, names[1]));
}

// Show the text of the nearest point, {x, y, text} in the drawing's units, while the pointer is near it.
export function hover(svg, points, box) {
  const dot = piece("circle", { class: "hover", r: 5, visibility: "hidden" });
  const said = piece("text", { class: "said", visibility: "hidden" });
  svg.append(dot, said);
  const leave = () => { dot.setAttribute("visibility", "hidden"); said.setAttribute("visibility", "hidden"); };
  svg.addEventListener("pointerleave", leave);
  svg.addEventListener("pointermove", (event) => {
    const area = svg.getBoundingClientRect(), ratio = svg.viewBox.baseVal.width / area.width;
    const x = (event.clientX - area.left) * ratio, y = (event.clientY - area.top) * ratio;
    let nearest = null, least = 40 ** 2;
    for (const point of points) {
      const distance = (point.x - x) ** 2 + (point.y - y) ** 2;
      if (distance < least) { least = distance; nearest = point; }
    }
    if (!nearest) { leave(); return; }
    dot.setAttribute("cx", nearest.x); dot.setAttribute("cy", nearest.y);
    said.textContent = nearest.text;
    const right = nearest.x > (box.left + box.right) / 2;
    said.setAttribute("text-anchor", right ? "end" : "start");
    said.setAttribute("x", nearest.x + (right ? -8 : 8));
    said.setAttribute("y", Math.max(nearest.y - 8, 12));
    dot.setAttribute("visibility", "visible"); said.setAttribute("visibility", "visible");
  });
}
