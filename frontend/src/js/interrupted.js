// What was typed into a form stays when the session is over before it is sent: who signs in is back
// at the form, and its fields are as they were.
//
//   submit ──▶ sessionStorage ──▶ is the next page the sign-in? ── no ──▶ forgotten: it has arrived
//                                        └── yes ──▶ signed in ──▶ the form's page, its fields
//
// For this tab and this user; never passwords and files. What the service would refuse for its size is
// not sent, so that it stays in its form.
const KEY = "mq-interrupted-form";
const LEFT_OUT = new Set(["password", "file", "hidden", "submit", "button"]);
const { user, restored, formBytesMax, tooLarge } = document.getElementById("main")?.dataset ?? {};

export function startInterruptedForms() {
  const kept = read();
  const signIn = document.querySelector("form[data-sign-in]");
  if (signIn) {
    if (kept) leadBack(signIn, kept);
    return;
  }
  if (kept && user) {
    sessionStorage.removeItem(KEY);
    if (kept.isInterrupted && kept.user === user && kept.url === here()) fill(kept);
  }
  document.addEventListener("submit", (event) => {
    if (isTooLarge(event.target)) {
      event.preventDefault();
      note(event.target, tooLarge, "error", "alert");
    } else keep(event.target);
  });
}

function read() {
  try {
    return JSON.parse(sessionStorage.getItem(KEY));
  } catch {
    return null;
  }
}

function write(kept) {
  try {
    sessionStorage.setItem(KEY, JSON.stringify(kept));
  } catch {
    sessionStorage.removeItem(KEY); // it is too large
  }
}

const here = () => location.pathname + location.search;
const forms = () => [...document.querySelectorAll("main form[method=post]")];

function fieldsOf(form) {
  return [...form.elements].filter((each) => each.name && !LEFT_OUT.has(each.type));
}

function keep(form) {
  const place = forms().indexOf(form);
  if (place < 0 || !user) return;
  const fields = fieldsOf(form).map((each) => ({
    name: each.name,
    value: each.value,
    isChecked: each.checked,
    chosen: each.selectedOptions && [...each.selectedOptions].map((option) => option.value),
  }));
  if (fields.length) write({ url: here(), user, place, fields });
}

function isTooLarge(form) {
  const isText = form.method === "post" && form.enctype === "application/x-www-form-urlencoded";
  return formBytesMax && isText && new URLSearchParams(new FormData(form)).toString().length > formBytesMax;
}

function note(form, text, className, role) {
  form.querySelector("[data-form-note]")?.remove();
  const said = document.createElement("p");
  Object.assign(said, { className, textContent: text });
  said.setAttribute("role", role);
  said.dataset.formNote = "";
  form.prepend(said);
  said.scrollIntoView({ block: "center" });
}

function leadBack(signIn, kept) {
  write({ ...kept, isInterrupted: true });
  const next = signIn.elements.next ?? signIn.appendChild(document.createElement("input"));
  Object.assign(next, { type: "hidden", name: "next", value: kept.url });
  const elsewhere = document.querySelector("a[data-single-sign-on]");
  if (elsewhere) elsewhere.search = `?next=${encodeURIComponent(kept.url)}`;
}

function fill({ place, fields }) {
  const form = forms()[place];
  if (!form) return;
  const found = fieldsOf(form);
  fields.forEach((kept, at) => {
    const field = found[at];
    if (field?.name !== kept.name) return;
    if (kept.chosen) for (const option of field.options) option.selected = kept.chosen.includes(option.value);
    else if (field.type === "checkbox" || field.type === "radio") field.checked = kept.isChecked;
    else field.value = kept.value;
    for (const name of ["input", "change"]) field.dispatchEvent(new Event(name, { bubbles: true }));
  });
  form.closest("dialog")?.showModal();
  form.closest("details")?.setAttribute("open", "");
  note(form, restored, "note", "status");
}
