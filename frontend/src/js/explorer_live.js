// The explorer's live switch: asks for what came since the newest row and puts it on top.
//
//   pressed, page visible ──▶ the table of the same search ──▶ rows that are not there yet
//   released, hidden, or no longer signed in ──▶ nothing is asked
//
// "#live" in the address presses it. At most ROWS_MAX rows are kept; what is selected stays.
import { showTimes } from "./times.js";

const WAIT_MS = 2_000;
const WAIT_MS_MAX = 30_000;
const ROWS_MAX = 200;

export function startExplorerLive() {
  const box = document.querySelector("[data-explorer-live]");
  if (!box) return;
  const button = box.querySelector("button");
  const status = box.querySelector("[role=status]");
  const words = box.dataset;
  let timer = null;
  let waitMs = WAIT_MS;
  let isPassed = false;

  box.hidden = false;
  button.addEventListener("click", () => press(!isOn()));
  document.addEventListener("visibilitychange", () => isOn() && next(0));
  if (location.hash === "#live") press(true);

  function isOn() {
    return button.getAttribute("aria-pressed") === "true";
  }

  function press(on, text = "") {
    button.setAttribute("aria-pressed", String(on));
    status.textContent = on ? words.on : text;
    history.replaceState(null, "", `${location.pathname}${location.search}${on ? "#live" : ""}`);
    waitMs = WAIT_MS;
    isPassed = false;
    next(0);
  }

  function next(ms) {
    clearTimeout(timer);
    if (isOn() && !document.hidden) timer = setTimeout(look, ms);
  }

  async function look() {
    try {
      const url = new URL(location);
      const newest = document.querySelector("#found tbody time")?.dateTime;
      if (newest) url.searchParams.set("since", newest);
      const answer = await fetch(url, { headers: { "HX-Request": "true" } });
      if (!isOn()) return;
      if (answer.redirected || answer.status === 403 || answer.status === 404) return press(false, words.ended);
      if (!answer.ok) throw new Error(String(answer.status));
      const found = new DOMParser().parseFromString(await answer.text(), "text/html");
      merge([...found.querySelectorAll("tbody tr")]);
      status.textContent = isPassed ? words.passed : words.on;
      waitMs = WAIT_MS;
    } catch {
      status.textContent = words.failed;
      waitMs = Math.min(WAIT_MS_MAX, 2 * waitMs);
    }
    next(waitMs);
  }

  function merge(rows) {
    const body = document.querySelector("#found tbody");
    if (!body) {
      if (rows.length) location.reload();
      return;
    }
    const known = new Set([...body.rows].map(idOf));
    const added = rows.filter((row) => !known.has(idOf(row)));
    // A page of new ones: those between them and the rows that are there are not seen.
    if (added.length >= Number(words.explorerLive)) isPassed = true;
    body.prepend(...added);
    for (const row of added) {
      window.htmx?.process(row);
      showTimes(row);
    }
    for (const row of [...body.rows].slice(ROWS_MAX)) {
      if (!row.querySelector("input:checked")) row.remove();
    }
  }
}

function idOf(row) {
  return row.querySelector("input[name=id]").value;
}
