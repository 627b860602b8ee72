// The page: asks for the state every two seconds and shows it. Text of the ledger is only ever set as text.
import { figure } from "./curves.js";

const PERIOD_MS = 2000;
const at = (id) => document.getElementById(id);
let chosen = null, shown = { url: null, etag: null };
const logs = new Map();

function made(name, text, className) {
  const element = document.createElement(name);
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  return element;
}

function clock(seconds) {
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, "0")} s`;
  return `${Math.floor(whole / 3600)} h ${String(Math.floor(whole % 3600 / 60)).padStart(2, "0")} min`;
}

function meter(share, name) {
  const bar = made("progress");
  bar.value = share;
  bar.setAttribute("aria-label", `${name}: ${Math.round(100 * share)} %`);
  return bar;
}

function facts(sweep) {
  const count = (state) => sweep.counts[state] ?? 0;
  const waiting = count("unclaimed") + count("claimed") + count("lost");
  const parts = [`${count("done")}/${sweep.num_samples ?? sweep.runs} done`];
  for (const [word, number] of [["running", count("running")], ["waiting", waiting], ["stopped", count("stopped")], ["failed", count("failed")], ["missing input", sweep.missing_input]]) {
    if (number) parts.push(`${number} ${word}`);
  }
  if (sweep.num_samples) parts.push(`at most ${sweep.num_samples} runs`);
  if (sweep.seconds_left) parts.push(`about ${clock(sweep.seconds_left)} left`);
  if (!sweep.live && sweep.ended < sweep.runs) parts.push("no driver works on it");
  return parts.join(", ");
}

function showSweeps(sweeps) {
  const held = document.activeElement?.dataset?.sweep;
  at("sweeps").replaceChildren(...sweeps.map((sweep) => {
    const button = made("button");
    button.dataset.sweep = sweep.id;
    button.setAttribute("aria-current", String(sweep.id === chosen));
    button.append(made("strong", sweep.id), made("div", sweep.title, "soft"), meter(sweep.share, sweep.id), made("div", facts(sweep)));
    if (sweep.best !== null) button.append(made("div", `best run ${sweep.best.toFixed(2)}`));
    button.addEventListener("click", () => { chosen = sweep.id; read(); });
    return button;
  }));
  if (held !== undefined) [...at("sweeps").children].find((one) => one.dataset.sweep === held)?.focus();
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

async function showLog(run, box) {
  if (!box.open) return;
  const found = await (await fetch(`/api/log?run=${encodeURIComponent(run.signature)}`)).json();
  const parts = Object.entries(found.files ?? {}).flatMap(([name, text]) => [made("div", name, "soft"), made("pre", text)]);
  logs.get(run.signature).replaceChildren(...(parts.length ? parts : [made("p", found.note ?? found.error, "soft")]));
}

function showFailures(runs) {
  const where = at("failures"), kept = new Map([...where.querySelectorAll("details")].map((box) => [box.dataset.run, box]));
  where.replaceChildren(...runs.map((run) => {
    if (kept.has(run.signature)) return kept.get(run.signature);
    const box = made("details"), log = made("div");
    box.dataset.run = run.signature;
    box.append(made("summary", `${run.label}: ${run.reason ?? "no reason is recorded"}`, "failed"), log);
    logs.set(run.signature, log);
    box.addEventListener("toggle", () => showLog(run, box));
    return box;
  }));
  if (!runs.length) where.append(made("p", "none", "soft"));
}

function row(run) {
  const line = made("tr"), trained = made("td"), name = made("th", run.label);
  name.scope = "row";
  line.dataset.state = run.state;
  trained.append(meter(run.share, run.label));
  const examples = run.total ? `${run.examples}/${run.total}` : "";
  line.append(name, made("td", run.state, run.state), trained, made("td", examples), made("td", run.best === null ? "" : run.best.toFixed(2)));
  return line;
}

function showSweep(sweep) {
  at("sweep").hidden = !sweep;
  if (!sweep) return;
  at("name").textContent = `${sweep.id}  ${sweep.title}`;
  at("facts").textContent = facts(sweep) + (sweep.best === null ? "" : `, best run ${sweep.best.toFixed(2)} (${sweep.best_run})`);
  showLinks(sweep);
  at("curves").replaceChildren(sweep.curves.length ? figure(sweep.curves) : made("p", "no point yet", "soft"));
  showFailures(sweep.list.filter((run) => run.state === "failed"));
  at("runs").replaceChildren(...sweep.list.map(row));
  at("unlisted").textContent = sweep.unlisted ? `and ${sweep.unlisted} more runs` : "";
}

async function read() {
  try {
    const url = chosen === null ? "/api/state" : `/api/state?sweep=${encodeURIComponent(chosen)}`;
    const answer = await fetch(url, { headers: shown.url === url && shown.etag ? { "If-None-Match": shown.etag } : {} });
    if (answer.status === 304) {
      at("said").textContent = `as of ${new Date().toLocaleTimeString()}` + shown.note;
      return;
    }
    const state = await answer.json();
    if (!answer.ok) throw new Error(state.error);
    chosen ??= state.sweep?.id ?? null;
    showSweeps(state.sweeps);
    showSweep(state.sweep);
    shown = { url, etag: answer.headers.get("ETag"), note: state.sweeps.length ? "" : ", no sweeps yet" };
    at("said").textContent = `as of ${new Date(1000 * state.now).toLocaleTimeString()}` + shown.note;
  } catch (error) {
    at("said").textContent = `no answer: ${error.message}; what is shown may be old`;
  }
}

async function poll() {
  if (!document.hidden) await read();
  setTimeout(poll, PERIOD_MS);
}

poll();
