// What is looked at, as the address has it, and what the server answered.
const kept = new Map();

export class Refused extends Error {}

export const at = (id) => document.getElementById(id);

// JSON of an address; the same object again where nothing changed.
export async function ask(path, query) {
  const url = `${path}?${new URLSearchParams(Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== ""))}`;
  const before = kept.get(url);
  const answer = await fetch(url, { headers: before?.etag ? { "If-None-Match": before.etag } : {} });
  if (answer.status === 304) return before.data;
  const data = await answer.json();
  if (answer.status === 400) throw new Refused(data.error);
  if (!answer.ok) throw new Error(data.error);
  kept.delete(url);
  kept.set(url, { etag: answer.headers.get("ETag"), data });
  if (kept.size > 40) kept.delete(kept.keys().next().value);
  return data;
}

export function view() {
  const given = new URLSearchParams(location.hash.slice(1));
  const text = (name) => given.get(name) ?? "";
  return {
    sweep: given.get("sweep"),
    sort: text("sort"),
    down: given.get("down") === "1",
    words: text("words"),
    fold: given.get("fold") === "1",
    from: Number(given.get("from")) || 0,
    runs: text("runs").split(",").filter(Boolean),
  };
}

// Change the address; `quietly` leaves the browser's history as it is.
export function look(changes, quietly = false) {
  const next = { ...view(), ...changes }, address = new URLSearchParams();
  for (const [name, value] of Object.entries(next)) {
    const text = Array.isArray(value) ? value.join(",") : value === true ? "1" : value === false || value === 0 || value === null ? "" : String(value);
    if (text) address.set(name, text);
  }
  history[quietly ? "replaceState" : "pushState"](null, "", `#${address}`);
  dispatchEvent(new Event("looked"));
}

export function made(name, text, className) {
  const element = document.createElement(name);
  if (text !== undefined && text !== null) element.textContent = text;
  if (className) element.className = className;
  return element;
}

// Three or four digits; exponents for what is very small.
export function short(value) {
  if (value === null || value === undefined) return "";
  if (typeof value !== "number") return String(value);
  if (value !== 0 && (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e6)) return value.toExponential(2).replace(/\.?0+e/, "e").replace("e+", "e");
  return String(Number(value.toPrecision(4)));
}
