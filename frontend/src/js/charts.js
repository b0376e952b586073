// <div class="chart" data-url="…" data-title="…"></div>: a time series from a JSON endpoint.
//
//   {"unit": "/s", "series": [{"label": "in", "points": [[epoch_ms, value or null], …]}, …]}
//
// A gap stays a gap: what nobody measured is not drawn as zero.
import uPlot from "uplot";
import { inZone } from "./times.js";
import { pageZone } from "./zone.js";

const REFRESH_MS = 10_000;
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 2 });
const clock = inZone("en", { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const days = inZone("sv-SE", { month: "2-digit", day: "2-digit" });
const whenever = inZone("sv-SE", { dateStyle: "short", timeStyle: "medium" });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

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

// 14:05, and the day where the chart is longer than one.
function moment(seconds, data) {
  const date = new Date(seconds * 1000);
  if (data.to_ms - data.from_ms > 2 * 86_400_000) return days.format(date);
  return clock.format(date);
}

function table(data) {
  const times = [...new Set(data.series.flatMap((each) => each.points.map((point) => point[0])))];
  times.sort((one, other) => one - other);
  const columns = data.series.map((each) => {
    const known = new Map(each.points);
    return times.map((time) => known.get(time) ?? null);
  });
  return [times.map((time) => time / 1000), ...columns];
}

function options(box, data) {
  const soft = solid("--ink-soft");
  const grid = { stroke: solid("--line"), width: 1 };
  const show = (value) => (value == null ? "–" : `${whole.format(value)}${data.unit}`);
  return {
    width: box.clientWidth - 24,
    height: 190,
    tzDate: (time) => uPlot.tzDate(new Date(time * 1000), pageZone()),
    cursor: { sync: { key: "charts" }, points: { size: 6 } },
    scales: { y: { range: (_, __, high) => [0, Math.max(high ?? 0, 1) * 1.1] }, x: { range: () => [data.from_ms / 1000, data.to_ms / 1000] } },
    axes: [
      { stroke: soft, grid: { show: false }, ticks: grid, values: (_, ticks) => ticks.map((tick) => moment(tick, data)) },
      { stroke: soft, grid, ticks: { show: false }, size: 64, values: (_, ticks) => ticks.map((tick) => short.format(tick) + data.unit) },
    ],
    series: [
      { value: (_, time) => (time == null ? "" : whenever.format(time * 1000)) , label: box.dataset.timeLabel },
      ...data.series.map((each, index) => ({
        label: each.label,
        stroke: solid(`--series-${index + 1}`),
        fill: index || data.series.length > 1 ? undefined : solid(`--series-${index + 1}`).replace("rgb(", "rgba(").replace(")", ", 0.08)"),
        width: 1.75,
        points: { show: (_, __, first, last) => last - first < 3 },
        value: (_, value) => show(value),
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
  box.uplot?.destroy();
  if (isEmpty) return;
  box.uplot = new uPlot(options(box, data), table(data), box);
}

const boxes = [...document.querySelectorAll(".chart[data-url]")];

function drawAll() {
  if (!document.hidden) boxes.forEach((box) => draw(box).catch(() => {}));
}

drawAll();
setInterval(drawAll, REFRESH_MS);
document.addEventListener("visibilitychange", drawAll);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
for (const box of boxes) new ResizeObserver(() => box.uplot?.setSize({ width: box.clientWidth - 24, height: 190 })).observe(box);
