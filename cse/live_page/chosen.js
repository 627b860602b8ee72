// One run, or two side by side: their curves, and the settings in which they differ.
import { figure } from "./curves.js";
import { room } from "./drawing.js";
import { ask, look, made, short, view } from "./state.js";

const where = document.getElementById("compared");
let shown = null;

const shownValue = (value) => value === null || value === undefined ? "off" : value === true ? "yes" : value === false ? "no" : short(value);
const name = (run) => `${run.settings.method} seed ${run.settings.seed}`;

function settings(runs) {
  const keys = [...new Set(runs.flatMap((run) => Object.keys(run.settings)))].sort();
  const differ = keys.filter((key) => runs.length > 1 && shownValue(runs[0].settings[key]) !== shownValue(runs[1].settings[key]));
  const table = (rows, caption) => {
    const whole = made("table"), head = made("tr");
    whole.append(made("caption", caption));
    head.append(made("th", "setting"), ...runs.map((run, i) => made("th", runs.length > 1 ? `${"AB"[i]}: ${name(run)}` : name(run))));
    whole.append(head);
    for (const key of rows) {
      const line = made("tr"), first = made("th", key);
      first.scope = "row";
      line.append(first, ...runs.map((run) => made("td", key in run.settings ? shownValue(run.settings[key]) : "")));
      whole.append(line);
    }
    return whole;
  };
  const box = made("details"), same = keys.filter((key) => !differ.includes(key));
  box.append(made("summary", runs.length > 1 ? `${same.length} settings that they share` : `${same.length} settings`), table(same, "Settings"));
  return runs.length > 1 ? [table(differ, differ.length ? "Settings in which they differ" : "They differ in no setting"), box] : [box];
}

function facts(run, i, count) {
  const at = run.best_examples === null ? "" : ` at ${run.best_examples.toLocaleString("en")} examples`;
  const best = run.best === null ? "no dev score yet" : `best ${run.best.toFixed(2)}${at}`;
  const time = run.seconds ? `, ${Math.round(run.seconds)} s` : "";
  return made("p", `${count > 1 ? `${"AB"[i]}: ` : ""}${name(run)}, ${run.state}, ${best}${time}${run.reason ? `: ${run.reason}` : ""}  (cse eval, cse export: ${run.signature})`);
}

function curves(runs, what, title) {
  const lines = runs.map((run, i) => ({
    label: runs.length > 1 ? "AB"[i] : name(run),
    state: "running",
    chosen: what === "dev" ? run.best_examples : null,
    points: run.points.filter((point) => point[what] !== null).map((point) => [point.examples, point[what]]),
  })).filter((line) => line.points.length);
  return lines.length ? figure(lines, title, room(where, 2) - 16) : made("p", `no ${title} yet`, "soft");
}

export function redrawChosen() { shown = null; }

export async function readChosen() {
  const wanted = view().runs;
  const runs = (await Promise.all(wanted.map((run) => ask("/api/run", { run })))).filter((run) => run.settings);
  if (shown && shown.length === runs.length && runs.every((run, i) => run === shown[i])) return;
  shown = runs;
  where.hidden = !runs.length;
  if (!runs.length) return;
  const open = where.querySelector("details")?.open, close = made("button", "close");
  close.addEventListener("click", () => look({ runs: [] }));
  const head = made("h3", runs.length > 1 ? "Two runs" : "One run"), pair = made("div", null, "two");
  pair.append(curves(runs, "dev", `${runs[0].dev ?? "dev"} score`), curves(runs, "loss", "training loss"));
  where.replaceChildren(head, close, ...runs.map((run, i) => facts(run, i, runs.length)), pair, made("p", runs.length > 1 ? "Dots: the checkpoint that was kept. A is drawn bold." : "The dot is the checkpoint that was kept. Choose a second run below to compare.", "soft"), ...settings(runs));
  if (open) where.querySelector("details").open = true;
}
