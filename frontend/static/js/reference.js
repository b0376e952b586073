// The reference page: opens the operation that the address names, and sends what is tried.
"use strict";

const key = document.getElementById("key");
const menu = document.getElementById("menu");
const narrow = window.matchMedia("(max-width: 60rem)");

function reveal() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target instanceof HTMLDetailsElement) {
    target.open = true;
    target.scrollIntoView();
  }
}

function fitMenu() {
  menu.open = !narrow.matches;
}

// A value that is left empty is not sent.
function requestOf(form) {
  let path = form.dataset.path;
  const query = new URLSearchParams();
  const headers = new Headers({ accept: "application/json" });
  let body;
  for (const input of form.querySelectorAll("[data-place]")) {
    const value = input.value;
    if (value === "" && input.dataset.place !== "path") continue;
    if (input.dataset.place === "path") {
      path = path.replace(`{${input.name}}`, encodeURIComponent(value));
    } else if (input.dataset.place === "query") {
      query.set(input.name, value);
    } else if (input.dataset.place === "header") {
      headers.set(input.name, value);
    } else {
      body = value;
      headers.set("content-type", "application/json");
    }
  }
  if (form.dataset.key) headers.set("authorization", `Bearer ${key.value.trim()}`);
  const asked = query.toString();
  return [asked ? `${path}?${asked}` : path, { method: form.dataset.method, headers, body, credentials: "omit" }];
}

function shown(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

async function send(event) {
  event.preventDefault();
  const form = event.currentTarget;
  const state = form.querySelector("[data-part=state]");
  const answer = form.querySelector("[data-part=answer]");
  if (form.dataset.key && key.value.trim() === "") {
    state.textContent = "Enter your API key first.";
    key.focus();
    return;
  }
  const button = form.querySelector("button");
  button.disabled = true;
  state.textContent = "Waiting for the response …";
  const began = performance.now();
  try {
    const [path, options] = requestOf(form);
    const response = await fetch(path, options);
    const text = await response.text();
    const took = Math.round(performance.now() - began);
    state.textContent = `${response.status} ${response.statusText} in ${took} ms`;
    answer.textContent = [...response.headers].map(([name, value]) => `${name}: ${value}`).join("\n") + "\n\n" + shown(text);
    answer.hidden = false;
  } catch (error) {
    state.textContent = `No response: ${error.message}`;
  } finally {
    button.disabled = false;
  }
}

document.getElementById("key-card").hidden = false;
for (const form of document.querySelectorAll("form.try")) {
  form.hidden = false;
  form.addEventListener("submit", send);
}
for (const link of menu.querySelectorAll("a")) {
  link.addEventListener("click", () => {
    if (narrow.matches) menu.open = false;
  });
}
narrow.addEventListener("change", fitMenu);
window.addEventListener("hashchange", reveal);
fitMenu();
reveal();
