// The page of a live tail: <div id="tail" data-url="/console/tail?ns=…&topic=…">
//
//   idle ─start─▶ connecting ──▶ live ◀─resume── paused        rows stay whatever happens
//     ▲                            └──pause──────▶ ┘
//     └── stopped ◀── stop, or an end that does not pass
//
// A hidden page is paused, so that nothing is read for nobody. What tenants wrote becomes text
// nodes only.
import { showTimes } from "./times.js";

const RETRY_MS = [1_000, 3_000, 10_000];
const FILTER_MS = 300;
const FINAL = [4400, 4401, 4403, 4404, 4429];
const rates = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const smallRates = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

const box = document.getElementById("tail");
const words = box.dataset;
const part = (name) => box.querySelector(`[data-${name}]`);
const button = (name) => box.querySelector(`[data-act="${name}"]`);
const body = part("rows");
const rowsMax = Number(words.rowsMax);
const labels = [...box.querySelectorAll("thead th")].map((each) => each.textContent);
const form = box.querySelector("form");

let state = "idle";
let socket = null;
let failures = 0;
let retry = null;
let seen = 0;
let waitingRows = [];
let frameId = 0;
const shownIds = new Set();

function enter(next) {
  state = next;
  const isRunning = ["connecting", "live", "paused"].includes(state);
  button("start").hidden = isRunning;
  button("start").disabled = false;
  button("pause").hidden = !["connecting", "live"].includes(state);
  button("resume").hidden = state !== "paused";
  button("stop").hidden = !isRunning;
  button("clear").hidden = !body.childElementCount;
  const dot = part("state-text");
  dot.dataset.state = state === "live" ? "live" : state === "paused" ? "polling" : state;
  dot.textContent = words[`text${state[0].toUpperCase()}${state.slice(1)}`];
  if (state !== "live") {
    part("sampled").hidden = true;
    part("every").hidden = true;
    part("rate").textContent = "–";
  }
}

function note(text, isBad = false) {
  const line = part("note");
  line.hidden = !text;
  line.textContent = text;
  line.classList.toggle("note-bad", isBad);
}

function order() {
  if (socket?.readyState !== WebSocket.OPEN) return;
  const given = new FormData(form);
  const isPaused = state === "paused" || document.hidden;
  socket.send(JSON.stringify({ tag: given.get("tag").trim(), key: given.get("key").trim(), paused: isPaused }));
}

function open() {
  socket = new WebSocket(new URL(words.url, location.href.replace(/^http/, "ws")));
  socket.onopen = order;
  socket.onmessage = (event) => heard(JSON.parse(event.data));
  socket.onclose = (event) => {
    socket = null;
    if (!["connecting", "live", "paused"].includes(state)) return;
    if (FINAL.includes(event.code)) {
      enter("stopped");
      note(words[`text-${event.code}`] ?? words.textLost, true);
      return;
    }
    note(words.textLost);
    if (state === "live") enter("connecting");
    failures += 1;
    retry = setTimeout(open, RETRY_MS[Math.min(failures, RETRY_MS.length) - 1]);
  };
}

function heard(frame) {
  if (frame.engine) return note(frame.engine === "away" ? words.textAway : "");
  failures = 0;
  if (state === "paused" || state === "stopped") return; // it was on its way
  if (state === "connecting") {
    note("");
    enter("live");
  }
  add(frame.rows);
  part("rate").textContent = frame.per_s == null ? words.textUnknown : `${(frame.per_s < 10 ? smallRates : rates).format(frame.per_s)}/s`;
  const isSampled = frame.one_of >= 1.05;
  part("sampled").hidden = !isSampled;
  part("sampled").textContent = words.textSampled.replace("{n}", (frame.one_of < 10 ? smallRates : rates).format(frame.one_of));
  const given = new FormData(form);
  part("every").hidden = isSampled;
  part("every").textContent = given.get("tag") || given.get("key") ? words.textEveryFitting : words.textEvery;
}

// Drawn once a frame: a page that draws slowly draws less often, and stays open to clicks.
function add(rows) {
  const isNew = (row) => !shownIds.has(row.id);
  const fresh = rows.filter(isNew);
  seen += fresh.length;
  waitingRows = [...waitingRows, ...fresh].slice(-rowsMax);
  if (!waitingRows.length || frameId) return;
  frameId = requestAnimationFrame(() => {
    frameId = 0;
    draw(waitingRows.splice(0).filter(isNew));
  });
}

function draw(fresh) {
  if (!fresh.length) return;
  const fragment = document.createDocumentFragment();
  for (const row of fresh) {
    shownIds.add(row.id);
    fragment.prepend(line(row));
  }
  showTimes(fragment);
  body.prepend(fragment);
  while (body.childElementCount > rowsMax) {
    shownIds.delete(body.lastElementChild.dataset.id);
    body.lastElementChild.remove();
  }
  part("empty").hidden = true;
  button("clear").hidden = false;
  part("count").textContent = words.textCount.replace("{n}", rates.format(body.childElementCount)).replace("{all}", rates.format(seen));
}

function element(name, text, className) {
  const made = document.createElement(name);
  if (text != null) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function line(row) {
  const made = element("tr");
  made.dataset.id = row.id;
  const head = element("th");
  head.scope = "row";
  const link = element("a", null, "name");
  link.href = words.messageUrl + encodeURIComponent(row.id);
  const time = element("time", row.at);
  time.dateTime = row.at;
  time.dataset.precision = "ms";
  link.append(time);
  head.append(link);
  const keys = cell(3);
  for (const key of row.keys) {
    const chip = element("span", key, "chip");
    chip.title = key;
    keys.append(chip, " ");
  }
  if (row.more_keys) keys.append(element("span", words.textMore.replace("{n}", row.more_keys), "soft small"));
  if (!row.keys.length) keys.append(element("span", "–", "soft"));
  const tag = cell(2);
  tag.append(row.tag ? element("span", row.tag, "chip") : element("span", "–", "soft"));
  const text = cell(4);
  if (row.masked === "body") text.append(element("span", words.textHidden, "soft"));
  else if (row.text) text.append(element("code", row.text, "soft"));
  else text.append(element("span", row.body_bytes ? `${words.textBinary}, ${words.textBytes.replace("{n}", rates.format(row.body_bytes))}` : words.textEmpty, "soft"));
  const place = cell(1);
  place.classList.add("number");
  place.textContent = `${row.queue}/${row.offset}`;
  made.append(head, place, tag, keys, text);
  return made;
}

function cell(index) {
  const made = element("td");
  made.dataset.label = labels[index];
  return made;
}

function start() {
  note("");
  failures = 0;
  enter("connecting");
  open();
}

function stop() {
  clearTimeout(retry);
  enter("stopped");
  note("");
  socket?.close(1000);
  socket = null;
}

function pause() {
  enter("paused");
  order();
}

function resume() {
  enter("connecting");
  order();
}

function clear() {
  body.replaceChildren();
  waitingRows = [];
  shownIds.clear();
  seen = 0;
  part("count").textContent = "";
  part("empty").hidden = false;
  enter(state);
}

const acts = { start, stop, pause, resume, clear };
box.addEventListener("click", (event) => acts[event.target.closest("[data-act]")?.dataset.act]?.());
form.addEventListener("submit", (event) => {
  event.preventDefault();
  if (!socket) start();
});
let waiting = null;
form.addEventListener("input", () => {
  clearTimeout(waiting);
  waiting = setTimeout(order, FILTER_MS);
});
document.addEventListener("visibilitychange", order);
enter("idle");
