// The page: asks every two seconds for what changed and shows it. Text of the ledger is only ever set as text.
import { readChosen, redrawChosen } from "./chosen.js";
import { figure } from "./curves.js";
import { room } from "./drawing.js";
import { listen, meter, readRuns } from "./runs.js";
import { ask, at, look, made, view } from "./state.js";

const PERIOD_MS = 2000;
let shown = {};

// Whether this part of the page has to be drawn anew.
function changed(part, value) {
  if (shown[part] === value) return false;
  shown[part] = value;
  return true;
}

const narrow = matchMedia("(max-width: 50rem)");
const FEW = 8; // sweeps that need no filter

function showSweeps(sweeps, chosen) {
  at("number").textContent = `${sweeps.length} sweep${sweeps.length === 1 ? "" : "s"}`;
  document.querySelector("nav label").hidden = sweeps.length <= FEW;
  const held = document.activeElement?.dataset?.sweep;
  at("sweeps").replaceChildren(...sweeps.map((sweep) => {
    const button = made("button");
    button.dataset.sweep = sweep.id;
    button.setAttribute("aria-current", String(sweep.id === chosen));
    button.append(made("strong", sweep.id), made("div", sweep.title, "soft"), meter(sweep.share, sweep.id), made("div", sweep.facts));
    if (sweep.best !== null) button.append(made("div", `best run ${sweep.best.toFixed(sweep.digits)}`));
    button.addEventListener("click", () => {
      if (narrow.matches) at("list").open = false;
      look({ sweep: sweep.id, runs: [], from: 0, sort: "", words: "" });
    });
    return button;
  }));
  filterSweeps();
  if (held !== undefined) [...at("sweeps").children].find((one) => one.dataset.sweep === held)?.focus();
}

// Cards that have every word of the filter, in any order.
function filterSweeps() {
  const words = at("named").value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const button of at("sweeps").children) button.hidden = !words.every((word) => button.textContent.toLowerCase().includes(word));
}

// What the lines are, and in a word where training gained nothing. The server sends runs that train, then the best.
function tellCurves(lines, runs) {
  const swatch = (kind, text) => { const one = made("span"); one.append(made("i", null, kind), text); return one; };
  const training = lines.filter((line) => line.state === "running").length;
  const parts = [];
  if (training) parts.push(swatch("now", `training now (${training})`));
  if (lines.some((line) => line.first)) parts.push(swatch("top", `best: ${lines.find((line) => line.first).label}`));
  if (lines.length - training > 1) parts.push(swatch("", `the best others of ${runs} runs (${lines.length - training - 1})`));
  const long = lines.filter((line) => line.points.length > 1), idle = long.filter((line) => line.points.every(([, value]) => value <= line.points[0][1]));
  if (long.length && idle.length === long.length) parts.push(made("strong", "No run here beat its first evaluation: read no direction from these scores."));
  at("legend").replaceChildren(...parts);
}

function showCurves(sweep) {
  const best = sweep.curves.find((line) => line.state !== "running"), lines = sweep.curves.map((line) => ({ ...line, first: line === best }));
  at("curves").replaceChildren(lines.length ? figure(lines, "dev score", room(at("curves"))) : made("p", "no point yet", "soft"));
  tellCurves(lines, sweep.runs);
}

function showLinks(sweep) {
  const where = at("links");
  where.replaceChildren();
  if (/^[\w.:[\]-]+$/.test(sweep.dashboard)) {
    const link = made("a", "Ray dashboard");
    link.href = `http://${sweep.dashboard}`;
    link.rel = "noreferrer";
    where.append(link, made("span", " (asks for the token that `ray get-auth-token` prints). ", "soft"));
  }
  if (sweep.mirror) where.append(made("span", `Optuna's view of the search: optuna-dashboard ${sweep.mirror}`, "soft"));
}

async function showLog(signature, log) {
  const found = await (await fetch(`/api/log?run=${encodeURIComponent(signature)}`)).json();
  const parts = Object.entries(found.files ?? {}).flatMap(([name, text]) => [made("div", name, "soft"), made("pre", text)]);
  log.replaceChildren(...(parts.length ? parts : [made("p", found.note ?? found.error, "soft")]));
}

// What is open stays as it is, its log too; counts move.
function showFailures(groups) {
  at("failed").hidden = !groups.length;
  const where = at("failures"), kept = new Map([...where.children].map((box) => [box.dataset.reason, box]));
  for (const [reason, box] of kept) if (!groups.some((group) => group.reason === reason)) box.remove();
  for (const group of groups) {
    let box = kept.get(group.reason);
    if (!box) {
      box = made("details");
      box.dataset.reason = group.reason;
      box.append(made("summary", null, "failed"), made("div"));
      where.append(box);
    }
    box.firstChild.textContent = `${group.count} × ${group.reason}`;
    const list = box.lastChild, listed = new Set([...list.children].map((one) => one.dataset.run));
    for (const run of group.runs.filter((one) => !listed.has(one.signature))) {
      const one = made("details"), log = made("div");
      one.dataset.run = run.signature;
      one.append(made("summary", run.label), log);
      one.addEventListener("toggle", () => { if (one.open && !log.children.length) showLog(run.signature, log); });
      list.append(one);
    }
  }
}

function copied(command) {
  const where = made("p"), button = made("button", "copy");
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(command);
    button.textContent = "copied";
  });
  where.append(made("code", command), " ", button);
  return where;
}

function showVerdicts(found) {
  const where = at("verdicts");
  where.hidden = !(found.headline || found.problem);
  if (where.hidden) return;
  const parts = [made("p", found.headline ?? `No verdicts: ${found.problem}`, "headline")];
  if (found.open?.length) {
    const box = made("details"), list = made("ul");
    box.append(made("summary", `${found.open.length} undecided: what would decide them`), list);
    if (found.command) box.append(copied(found.command));
    for (const row of found.open) list.append(made("li", `${row.row}, ${row.column}: ${row.reason}`));
    parts.push(box);
  }
  const open = where.querySelector("details")?.open;
  where.replaceChildren(...parts);
  if (open && where.querySelector("details")) where.querySelector("details").open = true;
}

async function showSweep(sweep) {
  at("sweep").hidden = !sweep;
  if (!sweep) return;
  at("name").textContent = `${sweep.id}  ${sweep.title}`;
  at("facts").textContent = sweep.facts + (sweep.best === null ? "" : `, best run ${sweep.best.toFixed(sweep.digits)} (${sweep.best_run})`);
  if (changed("links", JSON.stringify([sweep.dashboard, sweep.mirror]))) showLinks(sweep);
  if (changed("curves", JSON.stringify(sweep.curves))) showCurves(sweep);
  if (changed("failures", JSON.stringify(sweep.failures))) showFailures(sweep.failures);
  if (changed("sweep", sweep.id)) { at("verdicts").hidden = true; at("failures").replaceChildren(); showFailures(sweep.failures); }
  await Promise.all([readRuns(sweep.id), readChosen()]);
  // Verdicts take a while: they are asked for when runs have ended, and nothing waits for them.
  if (changed("ended", `${sweep.id} ${sweep.ended}`)) ask("/api/verdicts", { sweep: sweep.id }).then((found) => showVerdicts(found), () => { shown.ended = null; });
}

let reading = false, again = false;
async function read() {
  if (reading) { again = true; return; }
  reading = true;
  try {
    const state = await ask("/api/state", { sweep: view().sweep }), chosen = state.sweep?.id ?? null;
    if (changed("state", state) | changed("chosen", chosen)) showSweeps(state.sweeps, chosen);
    await showSweep(state.sweep);
    at("said").textContent = `as of ${new Date().toLocaleTimeString()}` + (state.sweeps.length ? "" : ", no sweeps yet");
  } catch (error) {
    at("said").textContent = `no answer: ${error.message}; what is shown may be old`;
  }
  reading = false;
  if (again) { again = false; await read(); }
}

async function poll() {
  if (!document.hidden) await read();
  setTimeout(poll, PERIOD_MS);
}

at("named").addEventListener("input", filterSweeps);
at("list").open = !narrow.matches;
narrow.addEventListener("change", () => { at("list").open = !narrow.matches; });
for (const event of ["looked", "hashchange", "popstate"]) addEventListener(event, read);
let width = innerWidth, resized = 0;
addEventListener("resize", () => {
  clearTimeout(resized);
  resized = setTimeout(() => {
    if (innerWidth === width) return;
    width = innerWidth;
    shown = { ended: shown.ended, sweep: shown.sweep };
    redrawChosen();
    read();
  }, 200);
});
listen();
poll();
