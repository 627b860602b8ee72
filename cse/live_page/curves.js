// Learning curves: dev score, or loss, over training examples, with the value under the pointer.
import { canvas, extent, frame, hover, piece, scale, ticks } from "./drawing.js";
import { short } from "./state.js";

const HEIGHT = 300;

// `lines`: {label, state, points: [[examples, value], …], chosen: examples of the kept checkpoint, or null}.
// `width` in pixels, so that text has its size.
export function figure(lines, name, width) {
  const box = { left: 52, right: width - 16, top: 30, bottom: HEIGHT - 44, edge: width - 4 };
  const points = lines.flatMap((line) => line.points);
  const most = Math.max(...points.map((point) => point[0])), [low, high] = extent(points.map((point) => point[1]));
  const x = scale(0, most, box.left, box.right), y = scale(low, high, box.bottom, box.top);
  const svg = canvas(width, HEIGHT, `${name} of ${lines.length} runs over training examples, ${short(low)} to ${short(high)}`);
  const count = (examples) => examples.toLocaleString("en");
  frame(svg, box, { ticks: ticks(0, most, false), at: x, text: count }, { ticks: ticks(low, high, false), at: y }, ["training examples", name]);
  const near = [];
  [...lines].reverse().forEach((line, place) => {
    const at = line.points.map(([examples, value]) => [x(examples), y(value)]);
    svg.append(piece("polyline", { class: `${line.state} ${line.first ? "first " : ""}tone${(lines.length - 1 - place) % 2}`, points: at.map((one) => one.map((v) => v.toFixed(1)).join()).join(" ") }));
    line.points.forEach(([examples, value], i) => near.push({ x: at[i][0], y: at[i][1], text: `${line.label}: ${short(value)} at ${count(examples)}` }));
    const kept = line.points.findIndex(([examples]) => examples === line.chosen);
    if (kept >= 0) svg.append(piece("circle", { class: "chosen", cx: at[kept][0], cy: at[kept][1], r: 4.5 }));
  });
  hover(svg, near, box);
  return svg;
}
