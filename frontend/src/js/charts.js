// <div class="chart" data-url="…" data-title="…"></div>: a time series from a JSON endpoint.
//
//   {"unit": "/s", "series": [{"label": "in", "points": [[epoch_ms, value or null], …]}, …],
//    "bars": null or {"step_ms": 3600000, "is_at_end": false, "open_ms": null},
//    "thresholds": [{"label": "slow", "value": 1000}, …]}
//
// A gap stays a gap: what nobody measured is not drawn as zero. Counts of a period are bars; the
// period that is not over is paler. Thresholds of alerts are dashed. Arrow keys move the cursor of a chart that has the focus.
import uPlot from "uplot";
import { inZone } from "./times.js";
import { pageZone } from "./zone.js";

const REFRESH_MS = 10_000;
const SHORTEST_S = 300; // of an axis
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 2 });
const clock = inZone("en", { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const days = inZone("sv-SE", { month: "2-digit", day: "2-digit" });
const whenever = inZone("sv-SE", { dateStyle: "short", timeStyle: "medium" });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const BYTES = ["B", "KiB", "MiB", "GiB", "TiB"];
const BYTE_STEPS = BYTES.flatMap((_, power) => [1, 2, 4, 8, 16, 32, 64, 128, 256, 512].map((step) => step * 1024 ** power));
const COUNT_STEPS = Array.from({ length: 15 }, (_, power) => [1, 2, 5].map((step) => step * 10 ** power)).flat();
const SECOND_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800];
const TIME_STEPS = SECOND_STEPS.filter((step) => step >= 60); // a moment is named by its minute

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// A canvas knows neither variables nor light-dark(): an element is asked what they come to.
function solid(name) {
  const probe = document.createElement("span");
  probe.style.color = colour(name);
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

function pale(rgb, share) {
  return rgb.replace("rgb(", "rgba(").replace(")", `, ${share})`);
}

// 14:05, and the day where the chart is longer than one.
function moment(seconds, range) {
  const date = new Date(seconds * 1000);
  if (range[1] - range[0] > 2 * 86_400) return days.format(date);
  return clock.format(date);
}

function bytes(value) {
  const power = Math.min(BYTES.length - 1, Math.max(0, Math.floor(Math.log2(Math.max(1, value)) / 10)));
  return `${whole.format(Math.round((value / 1024 ** power) * 10) / 10)} ${BYTES[power]}`;
}

function duration(seconds) {
  const parts = [["d", 86_400], ["h", 3_600], ["m", 60], ["s", 1]];
  const found = [];
  let left = Math.round(seconds);
  for (const [unit, length] of parts) {
    if (left >= length) found.push(`${Math.floor(left / length)}${unit}`);
    left %= length;
  }
  return found.slice(0, 2).join(" ") || "0s";
}

function shown(value, unit, format) {
  if (value == null) return "–";
  if (unit === "B") return bytes(value);
  if (unit === "s") return duration(value);
  return format.format(value) + unit;
}

function table(data) {
  const times = [...new Set(data.series.flatMap((each) => each.points.map((point) => point[0])))];
  times.sort((one, other) => one - other);
  const columns = data.series.map((each) => {
    const known = new Map(each.points);
    return times.map((time) => known.get(time) ?? null);
  });
  // A bar stands in the middle of its period.
  const { step_ms: step = 0, is_at_end: isAtEnd = false } = data.bars ?? {};
  const shift = (isAtEnd ? -step : step) / 2;
  const levels = thresholds(data).map((each) => times.map(() => each.value));
  return [times.map((time) => (time + shift) / 1000), ...columns, ...levels];
}

const thresholds = (data) => data.thresholds ?? [];

// The highest value that has to be seen. A threshold far above all values would make them flat: it
// is only in the legend then, unless the chart is about it.
function highestOf(data, isCovering) {
  const high = Math.max(1, ...data.series.flatMap((each) => each.points.map((point) => point[1] ?? 0)));
  return Math.max(high, ...thresholds(data).map((each) => each.value).filter((value) => isCovering || value <= 10 * high));
}

// From the first value on where that is young, so that it is not a spike at the edge.
function rangeOf(data) {
  const known = data.series.flatMap((each) => each.points.filter((point) => point[1] != null).map((point) => point[0]));
  const { step_ms: step = 0, is_at_end: isAtEnd = false } = data.bars ?? {};
  const first = Math.min(...known) - (isAtEnd ? step : 0);
  const to = data.bars && !isAtEnd ? Math.max(data.to_ms, ...known.map((time) => time + step)) : data.to_ms;
  const isYoung = first > data.from_ms + (data.to_ms - data.from_ms) / 4;
  const from = isYoung ? Math.min(first, to - Math.max(SHORTEST_S * 1000, 6 * step)) : data.from_ms;
  return [from / 1000, to / 1000];
}

// Where values stand between gaps, so that no line goes through them: they are drawn as points.
function aloneIn(values) {
  const alone = [];
  values.forEach((value, at) => {
    if (value != null && values[at - 1] == null && values[at + 1] == null) alone.push(at);
  });
  return alone;
}

function drawn(data, index) {
  const line = solid(`--series-${index + 1}`);
  if (!data.bars) {
    return {
      stroke: line,
      fill: data.series.length > 1 ? undefined : pale(line, 0.08),
      width: 1.75,
      points: { filter: (plot, at) => aloneIn(plot.data[at]), size: 8, fill: line },
    };
  }
  const count = data.series.length;
  const { step_ms: step, open_ms: open } = data.bars;
  const middle = open == null ? null : (open + step / 2) / 1000;
  const isOpen = (plot, at) => middle != null && Math.abs(plot.data[0][at] - middle) < 1;
  return {
    stroke: line,
    fill: line,
    width: 0,
    points: { show: false },
    paths: uPlot.paths.bars({
      size: [0.8 / count, 48 / count],
      align: count > 1 ? (index ? 1 : -1) : 0,
      disp: { fill: { unit: 3, values: (plot) => plot.data[0].map((_, at) => (isOpen(plot, at) ? pale(line, 0.4) : line)) } },
    }),
  };
}

function options(box, data) {
  const soft = solid("--ink-soft");
  const grid = { stroke: solid("--line"), width: 1 };
  const range = rangeOf(data);
  const latest = (column) => column.findLast((value) => value != null);
  const steps = { B: BYTE_STEPS, s: SECOND_STEPS, "": COUNT_STEPS }[data.unit];
  const highest = highestOf(data, "covers" in box.dataset);
  const bad = solid("--bad");
  const period = data.bars?.step_ms ?? 0;
  const words = box.dataset;
  const when = (seconds) => {
    const start = seconds * 1000 - period / 2;
    const isOpen = data.bars?.open_ms != null && Math.abs(start - data.bars.open_ms) < 1000;
    return whenever.format(start) + (isOpen ? ` · ${words.openLabel}` : "");
  };
  return {
    width: box.clientWidth - 24,
    height: 190,
    tzDate: (time) => uPlot.tzDate(new Date(time * 1000), pageZone()),
    cursor: { sync: { key: "charts" }, points: { size: 6 } },
    scales: { y: { range: () => [0, highest * 1.1] }, x: { range: () => range } },
    axes: [
      { stroke: soft, grid: { show: false }, ticks: grid, incrs: TIME_STEPS, values: (_, ticks) => ticks.map((tick) => moment(tick, range)) },
      { stroke: soft, grid, ticks: { show: false }, size: 64, incrs: steps, values: (_, ticks) => ticks.map((tick) => shown(tick, data.unit, short)) },
    ],
    series: [
      { value: (_, time) => (time == null ? words.latestLabel : when(time)), label: words.timeLabel },
      ...data.series.map((each, index) => ({
        label: each.label,
        ...drawn(data, index),
        // Without the cursor the newest value is shown.
        value: (plot, value, at, place) => shown(place == null ? latest(plot.data[at]) : value, data.unit, whole),
      })),
      ...thresholds(data).map((each) => ({
        label: `${words.thresholdLabel} ${each.label}`,
        stroke: bad,
        dash: [5, 4],
        width: 1.25,
        points: { show: false },
        value: () => shown(each.value, data.unit, whole),
      })),
    ],
  };
}

async function draw(box) {
  const answer = await fetch(box.dataset.url, { headers: { accept: "application/json" } });
  if (!answer.ok) return;
  const data = await answer.json();
  const state = box.querySelector("[data-state]");
  const isEmpty = data.series.every((each) => each.points.every((point) => point[1] == null));
  if (state) state.hidden = !isEmpty;
  const place = box.uplot?.cursor.idx;
  box.uplot?.destroy();
  box.uplot = null;
  if (isEmpty) return;
  box.uplot = new uPlot(options(box, data), table(data), box);
  if (place != null && document.activeElement === box) point(box.uplot, place);
}

function point(plot, place) {
  const last = plot.data[0].length - 1;
  const at = Math.max(0, Math.min(last, place));
  plot.setCursor({ left: plot.valToPos(plot.data[0][at], "x"), top: 20 });
}

function step(event) {
  const plot = event.currentTarget.uplot;
  const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!plot || !by) return;
  event.preventDefault();
  point(plot, (plot.cursor.idx ?? plot.data[0].length) + by);
}

const boxes = [...document.querySelectorAll(".chart[data-url]")];

function drawAll() {
  if (!document.hidden) boxes.forEach((box) => draw(box).catch(() => {}));
}

drawAll();
setInterval(drawAll, REFRESH_MS);
document.addEventListener("visibilitychange", drawAll);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
for (const box of boxes) {
  box.addEventListener("keydown", step);
  new ResizeObserver(() => box.uplot?.setSize({ width: box.clientWidth - 24, height: 190 })).observe(box);
}
