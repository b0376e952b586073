// The server knows the browser's time zone by a cookie that is set here. Where it knew another one,
// or none, the page is fetched once more: so what it wrote and what comes live are in one zone.
const COOKIE = "mq_browser_zone";
const AGE_S = 365 * 24 * 60 * 60;

// False: the page goes.
export function settleZone() {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (!zone || isKept(zone)) return true;
  document.cookie = `${COOKIE}=${zone}; path=/; max-age=${AGE_S}; samesite=lax${location.protocol === "https:" ? "; secure" : ""}`;
  const isChosen = !("zoneOfBrowser" in document.documentElement.dataset);
  if (isChosen || zone === pageZone() || !isKept(zone)) return true;
  location.reload();
  return false;
}

// In which all times of the page are.
export function pageZone() {
  return document.documentElement.dataset.zone || "UTC";
}

function isKept(zone) {
  return document.cookie.split("; ").includes(`${COOKIE}=${zone}`);
}
