// Learning curves as SVG: dev score over training examples; runs that run now stand out.
const WIDTH = 760, HEIGHT = 300, LEFT = 48, BOTTOM = 34, TOP = 14, RIGHT = 14;

function piece(name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

export function figure(curves) {
  const points = curves.flatMap((curve) => curve.points);
  const most = Math.max(...points.map((point) => point[0]));
  const scores = points.map((point) => point[1]);
  const low = Math.floor(Math.min(...scores)), high = Math.max(Math.ceil(Math.max(...scores)), low + 1);
  const x = (examples) => LEFT + (WIDTH - LEFT - RIGHT) * examples / most;
  const y = (score) => TOP + (HEIGHT - TOP - BOTTOM) * (high - score) / (high - low);
  const svg = piece("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `Dev score of ${curves.length} runs over training examples, ${low} to ${high}` });
  for (let step = 0; step <= 4; step += 1) {
    const score = low + (high - low) * step / 4, examples = most * step / 4;
    svg.append(piece("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(score), y2: y(score) }));
    svg.append(piece("text", { x: LEFT - 6, y: y(score) + 4, "text-anchor": "end" }, score.toFixed(1)));
    svg.append(piece("text", { x: x(examples), y: HEIGHT - 10, "text-anchor": step === 4 ? "end" : "middle" }, Math.round(examples).toLocaleString("en")));
  }
  for (const curve of [...curves].reverse()) {
    const line = piece("polyline", { class: curve.state, points: curve.points.map(([at, score]) => `${x(at).toFixed(1)},${y(score).toFixed(1)}`).join(" ") });
    const last = curve.points[curve.points.length - 1];
    line.append(piece("title", {}, `${curve.label}, ${curve.state}: ${last[1].toFixed(2)} at ${last[0]} examples`));
    svg.append(line);
  }
  return svg;
}
