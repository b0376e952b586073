// One socket a page. The server says which texts have changed; [data-live="key"] shows them.
//
//   <body data-live-url="/console/live?ns=demo">
//   open ──▶ {"show": ["lag", …]}, then {"set": {"lag": "12"}} for what has changed
//   closed ──▶ again, ever later ──▶ after three times polling as well
//
// Polling asks htmx to fetch what has hx-trigger="poll from:body".
const POLL_MS = 10_000;
const RETRY_MS = [1_000, 3_000, 10_000, 30_000];

export function startLive() {
  const url = document.body.dataset.liveUrl;
  if (!url) return;
  const dots = document.querySelectorAll(".live-dot");
  const words = document.documentElement.dataset;
  let failures = 0;
  let poll = null;
  let socket = null;

  function say(state) {
    for (const dot of dots) {
      dot.dataset.state = state;
      dot.textContent = { live: words.live, polling: words.polling }[state] ?? words.connecting;
    }
  }

  function startPolling() {
    say("polling");
    poll ??= setInterval(() => {
      if (!document.hidden) window.htmx?.trigger(document.body, "poll");
    }, POLL_MS);
  }

  function connect() {
    socket = new WebSocket(new URL(url, location.href.replace(/^http/, "ws")));
    socket.onopen = ask;
    socket.onmessage = (event) => {
      const frame = JSON.parse(event.data);
      if (!frame.set) return;
      failures = 0;
      clearInterval(poll);
      poll = null;
      say("live");
      show(frame.set);
      document.dispatchEvent(new CustomEvent("live", { detail: frame.set }));
    };
    socket.onclose = (event) => {
      socket = null;
      if (event.code === 4401 || event.code === 4404) return startPolling();
      failures += 1;
      if (failures >= 3) startPolling();
      else say("connecting");
      if (!document.hidden) setTimeout(reconnect, RETRY_MS[Math.min(failures, RETRY_MS.length) - 1]);
    };
  }

  function ask() {
    const shown = [...document.querySelectorAll("body [data-live]")];
    const keys = [...new Set(shown.flatMap((each) => [each.dataset.live, each.dataset.liveTone]))];
    if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify({ show: keys.filter(Boolean).slice(0, 600) }));
  }

  function reconnect() {
    if (!socket && !document.hidden) connect();
  }

  say("connecting");
  connect();
  document.addEventListener("htmx:after:swap", ask);
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) socket?.close(1000);
    else reconnect();
  });
}

function show(texts) {
  for (const each of document.querySelectorAll("body [data-live]")) {
    const text = texts[each.dataset.live];
    const tone = texts[each.dataset.liveTone];
    if (tone !== undefined) each.className = `badge badge-${tone}`;
    if (text === undefined || text === each.textContent) continue;
    each.textContent = text;
    each.closest(".stat-number")?.classList.remove("is-unknown");
  }
}
