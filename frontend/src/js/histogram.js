// The bars of a histogram: one tab stop, arrows go along, with shift they take a time, Enter
// searches in it; a drag does the same. Without scripts each bar is a link.
export function startHistogram() {
  const box = document.querySelector("[data-histogram]");
  const bars = box ? [...box.querySelectorAll("a")] : [];
  if (!bars.length) return;
  let anchor = null;
  let dragged = false;

  const mark = (one, other) => {
    const [low, high] = [bars.indexOf(one), bars.indexOf(other)].sort((a, b) => a - b);
    bars.forEach((bar, at) => bar.classList.toggle("is-taken", low !== high && at >= low && at <= high));
  };
  const taken = () => bars.filter((bar) => bar.classList.contains("is-taken"));
  const open = () => {
    const some = taken();
    if (some.length < 2) return false;
    const url = new URL(location.href);
    url.searchParams.set("q", `${box.dataset.histogram} from:${some[0].dataset.from} to:${some.at(-1).dataset.to}`.trim());
    url.searchParams.delete("cursor");
    location.assign(url);
    return true;
  };

  for (const bar of bars) bar.tabIndex = bar === bars.at(-1) ? 0 : -1;
  box.addEventListener("keydown", (event) => {
    const at = bars.indexOf(event.target);
    const next = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: bars.length - 1 }[event.key];
    if (at < 0) return;
    if (event.key === "Enter" && open()) event.preventDefault();
    if (event.key === "Escape") mark((anchor = event.target), event.target);
    if (!bars[next]) return;
    event.preventDefault();
    if (!event.shiftKey || !anchor) anchor = event.shiftKey ? event.target : null;
    event.target.tabIndex = -1;
    bars[next].tabIndex = 0;
    bars[next].focus();
    mark(anchor ?? bars[next], bars[next]);
  });
  box.addEventListener("dragstart", (event) => event.preventDefault());
  box.addEventListener("pointerdown", (event) => {
    anchor = event.target.closest("a");
    dragged = false;
  });
  box.addEventListener("pointermove", (event) => {
    const bar = event.target.closest("a");
    if (!anchor || !bar || !(event.buttons & 1)) return;
    dragged = dragged || bar !== anchor;
    mark(anchor, bar);
  });
  box.addEventListener("pointerup", () => {
    if (dragged) open();
    anchor = null;
  });
  box.addEventListener("click", (event) => {
    if (dragged) event.preventDefault();
  });
}
