// <time datetime="…Z">: the server writes UTC, this shows the reader's zone and keeps UTC as a hint.
const parts = { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
const minutes = new Intl.DateTimeFormat("sv-SE", parts);
const seconds = new Intl.DateTimeFormat("sv-SE", { ...parts, second: "2-digit" });
const millis = new Intl.DateTimeFormat("sv-SE", { ...parts, second: "2-digit", fractionalSecondDigits: 3 });
const formats = { m: minutes, s: seconds, ms: millis };

export function showTimes(root) {
  for (const each of root.querySelectorAll("time[data-precision]:not([data-shown])")) {
    const moment = new Date(each.dateTime);
    if (Number.isNaN(moment.getTime())) continue;
    each.title ||= each.textContent.trim();
    each.textContent = (formats[each.dataset.precision] ?? seconds).format(moment).replace(",", ".");
    each.dataset.shown = "";
  }
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  for (const each of root.querySelectorAll("[data-zone]")) each.textContent = zone;
}
