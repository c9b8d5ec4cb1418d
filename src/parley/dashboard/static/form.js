// The form for a new study: checks while somebody types, shows the file that comes of it, and keeps a draft.
// Without it the same form works step by step: every button sends it, and the server answers with the next page.
"use strict";

(() => {
  const KEPT = "parley-draft";
  const LAUNCHING = "parley-launching"; // live.js drops the draft where it leads to a study
  const form = document.getElementById("steps");
  const resume = document.getElementById("resume");

  function kept() {
    try { return JSON.parse(localStorage.getItem(KEPT)); } catch { return null; }
  }

  function keep() {
    const draft = { study: form.elements.study.value, id: form.elements.id.value };
    try { localStorage.setItem(KEPT, JSON.stringify(draft)); } catch { return; }
    document.getElementById("kept").hidden = !draft.study;
  }

  // Here again: the launch was refused, or never answered. The draft stays.
  try { sessionStorage.removeItem(LAUNCHING); } catch { /* no storage: no draft either */ }
  for (const launch of document.querySelectorAll("[data-launch]")) {
    launch.form.addEventListener("submit", (event) => {
      if (event.submitter !== launch) return;
      try { sessionStorage.setItem(LAUNCHING, "1"); } catch { /* as above */ }
    });
  }

  if (resume) {
    const draft = kept();
    if (draft && draft.study) {
      resume.elements.study.value = draft.study;
      resume.elements.id.value = draft.id || "";
      const named = /^name = "(.*)"$/m.exec(draft.study);
      document.getElementById("draft-name").textContent = named ? named[1] : "";
      resume.hidden = false;
    }
  }
  if (!form) return;

  for (const button of form.querySelectorAll("[data-scriptless]")) button.hidden = true;
  const asked = {};

  // What the server makes of the form as it is now; an answer that another one has overtaken is not shown.
  async function ask(does) {
    const mine = asked[does] = (asked[does] || 0) + 1;
    const body = new URLSearchParams(new FormData(form));
    body.set("do", does);
    let fresh;
    try {
      const answer = await fetch(form.action, { method: "POST", body, cache: "no-store" });
      if (!answer.ok && answer.status !== 422) return null;
      fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    } catch { return null; }
    return mine === asked[does] && fresh.getElementById("steps") ? fresh : null;
  }

  function take(fresh, ids) {
    for (const id of ids) {
      const part = document.getElementById(id);
      const found = fresh.getElementById(id);
      if (part && found && !part.isEqualNode(found)) part.replaceChildren(...document.adoptNode(found).childNodes);
    }
  }

  function mark(fresh) {
    for (const field of form.querySelectorAll("#inputs [name]")) {
      const found = fresh.getElementById(field.id);
      const wrong = Boolean(found && found.getAttribute("aria-invalid"));
      if (wrong) field.setAttribute("aria-invalid", "true");
      else field.removeAttribute("aria-invalid");
      field.parentElement.classList.toggle("wrong", wrong);
    }
  }

  async function check() {
    const fresh = await ask("check");
    if (!fresh) return;
    mark(fresh);
    take(fresh, ["problem", "picture"]);
    document.getElementById("file").textContent = fresh.getElementById("file").textContent;
    form.elements.study.value = fresh.getElementById("study-text").value;
    keep();
  }

  // Another kind of weights or rewards has other inputs: these are made anew, and the focus stays.
  async function renew() {
    const before = changes;
    const fresh = await ask("check");
    if (!fresh) return;
    if (changes !== before) { renew(); return; } // somebody typed on: what they typed is not to be lost
    const focused = document.activeElement.id;
    take(fresh, ["inputs", "picture"]);
    for (const button of form.querySelectorAll("[data-scriptless]")) button.hidden = true;
    document.getElementById("file").textContent = fresh.getElementById("file").textContent;
    form.elements.study.value = fresh.getElementById("study-text").value;
    const again = focused && document.getElementById(focused);
    if (again) again.focus();
    keep();
  }

  // One at a time: the server cannot stop a simulation that has begun. Its result is shown only if it is still of this
  // study, and meanwhile the page says what it waits for.
  const power = document.getElementById("power");
  const state = document.getElementById("power-state");
  let busy = false;
  let due = false;
  let simulated = null;
  function wanted() {
    const body = new URLSearchParams(new FormData(form));
    body.delete("study"); // lags behind what is typed
    return body.toString();
  }
  async function estimate() {
    if (busy) {
      due = true;
      state.textContent = state.dataset.next;
      return;
    }
    const mine = wanted();
    due = false;
    if (mine === simulated) { rest(""); return; }
    busy = true;
    power.setAttribute("aria-busy", "true");
    state.textContent = state.dataset.busy;
    const fresh = await ask("power");
    busy = false;
    if (fresh && wanted() === mine) {
      take(fresh, ["power"]);
      simulated = mine;
    }
    if (due) estimate();
    else rest(fresh ? "" : state.dataset.failed);
  }
  function rest(words) {
    power.removeAttribute("aria-busy");
    state.textContent = words;
  }

  let changes = 0;
  let soon = null;
  let later = null;
  form.addEventListener("input", (event) => {
    changes += 1;
    clearTimeout(soon);
    clearTimeout(later);
    if (event.target.matches("[data-renews]")) { renew(); return; }
    soon = setTimeout(check, 350);
    if (power) later = setTimeout(estimate, 1500);
  });
  keep();
  if (power && !power.textContent.trim()) estimate();
})();
