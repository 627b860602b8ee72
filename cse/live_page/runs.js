// The table of runs: all axes, in any order, filtered, folded, page by page.
import { ask, at, look, made, Refused, short, view } from "./state.js";

const COLUMNS = [["best", "best dev score"], ["seed", "seed"], ["state", "state"], ["share", "trained"], ["examples", "examples"]];
let shown = null;

export function meter(share, name) {
  const bar = made("progress");
  bar.value = share;
  bar.setAttribute("aria-label", `${name}: ${Math.round(100 * share)} %`);
  return bar;
}

function heading(column, name, seen) {
  const cell = made("th"), button = made("button", name);
  cell.scope = "col";
  const sorted = seen.sort === column;
  cell.setAttribute("aria-sort", sorted ? (seen.down ? "descending" : "ascending") : "none");
  if (sorted) button.append(made("span", seen.down ? " ▼" : " ▲"));
  const best = column === "best" || column === "share" || column === "examples";
  button.addEventListener("click", () => look({ sort: column, down: sorted ? !seen.down : best, from: 0 }));
  button.dataset.key = `sort ${column}`;
  cell.append(button);
  return cell;
}

function pick(signature, text, label, seen) {
  const button = made("button", text, "pick"), chosen = seen.runs.includes(signature);
  button.dataset.key = `run ${signature}`;
  button.setAttribute("aria-pressed", String(chosen));
  button.setAttribute("aria-label", `${label}: ${chosen ? "leave out" : "look at"}`);
  button.addEventListener("click", () => look({ runs: chosen ? seen.runs.filter((one) => one !== signature) : [...seen.runs, signature].slice(-2) }));
  return button;
}

function line(run, axes, seen) {
  const row = made("tr"), trained = made("td"), which = made("td");
  for (const { axis } of axes) row.append(made("td", run.cell[axis]));
  if (seen.fold) {
    for (const one of run.runs) which.append(pick(one.signature, String(one.seed), `${run.label} seed ${one.seed}, ${one.state}`, seen), " ");
    if (run.more) which.append(`and ${run.more} more`);
  } else which.append(pick(run.signature, String(run.seed), run.label, seen));
  trained.append(meter(run.share, run.label));
  const states = seen.fold ? Object.entries(run.states).map(([state, count]) => `${count} ${state}`).join(", ") : run.state;
  const examples = seen.fold || !run.total ? run.examples.toLocaleString("en") : `${run.examples.toLocaleString("en")}/${run.total.toLocaleString("en")}`;
  const best = run.best === null ? "" : run.best.toFixed(2) + (seen.fold && run.n > 1 ? ` ± ${run.sd.toFixed(2)}` : "");
  row.append(made("td", best), which, made("td", states, seen.fold ? "" : run.state), trained, made("td", examples));
  return row;
}

function put(found, seen) {
  const held = document.activeElement?.dataset?.key;
  const heads = made("tr");
  for (const { axis, name } of found.axes) heads.append(heading(axis, name, seen));
  for (const [column, name] of COLUMNS) heads.append(seen.fold && column === "seed" ? made("th", "seeds") : heading(column, name, seen));
  at("heads").replaceChildren(heads);
  at("runs").replaceChildren(...found.page.map((run) => line(run, found.axes, seen)));
  const last = Math.min(found.offset + found.size, found.lines), what = seen.fold ? "cells" : "runs";
  at("where").textContent = found.lines ? `${found.offset + 1} to ${last} of ${found.lines.toLocaleString("en")} ${what}` : `no ${what}`;
  at("found").textContent = seen.words ? `${found.runs.toLocaleString("en")} of ${found.all.toLocaleString("en")} runs` : "";
  at("before").disabled = found.offset === 0;
  at("after").disabled = last >= found.lines;
  at("before").onclick = () => look({ from: Math.max(0, found.offset - found.size) });
  at("after").onclick = () => look({ from: found.offset + found.size });
  if (held) document.querySelector(`[data-key="${CSS.escape(held)}"]`)?.focus();
}

// Ask for the page of the table that the address names; nothing moves where nothing changed.
export async function readRuns(sweep) {
  const seen = view(), words = at("words");
  if (document.activeElement !== words) words.value = seen.words;
  at("fold").checked = seen.fold;
  try {
    const found = await ask("/api/runs", { sweep, sort: seen.sort, down: seen.down ? "1" : "", words: seen.words, fold: seen.fold ? "1" : "", from: seen.from || "" });
    words.setCustomValidity("");
    const key = JSON.stringify([seen.sort, seen.down, seen.fold, seen.runs]);
    if (shown?.found === found && shown.key === key) return;
    shown = { found, key };
    put(found, seen);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    words.setCustomValidity(error.message);
    at("found").textContent = error.message;
  }
}

export function listen() {
  let waiting = 0;
  at("words").addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => look({ words: at("words").value.trim(), from: 0 }, true), 250);
  });
  at("fold").addEventListener("change", () => look({ fold: at("fold").checked, from: 0 }));
  at("asked").addEventListener("submit", (event) => event.preventDefault());
}
