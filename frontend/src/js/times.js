// <time datetime="…Z">: shown in the zone of the page, with UTC as a hint.
import { pageZone } from "./zone.js";

const parts = { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
const precisions = { m: {}, s: { second: "2-digit" }, ms: { second: "2-digit", fractionalSecondDigits: 3 } };
const made = {};

function format(precision) {
  return (made[precision] ??= inZone("sv-SE", { ...parts, ...(precisions[precision] ?? precisions.s) }));
}

// A format for times of the page; in UTC where the browser does not know the zone.
export function inZone(language, options) {
  try {
    return new Intl.DateTimeFormat(language, { ...options, timeZone: pageZone() });
  } catch {
    return new Intl.DateTimeFormat(language, { ...options, timeZone: "UTC" });
  }
}

export function showTimes(root) {
  for (const each of root.querySelectorAll("time[data-precision]:not([data-shown])")) {
    const moment = new Date(each.dateTime);
    if (Number.isNaN(moment.getTime())) continue;
    each.title ||= each.dateTime;
    each.textContent = format(each.dataset.precision).format(moment).replace(",", ".");
    each.dataset.shown = "";
  }
}
