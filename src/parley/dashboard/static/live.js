// The little script of the pages: keeps what is marked as live current, and a few conveniences.
// Without it every page still works; it only has to be loaded again by hand.
"use strict";

(() => {
  const body = document.body;
  const badge = document.getElementById("live");
  let known = body.dataset.version;
  let source = null;
  let wait = 1000;
  let busy = false;
  let due = false;

  // A launch of the form for a new study led here: now its draft has done its work.
  try {
    const [arrival] = performance.getEntriesByType("navigation");
    if (sessionStorage.getItem("parley-launching") && location.pathname.startsWith("/studies/") && arrival.redirectCount) {
      localStorage.removeItem("parley-draft");
      sessionStorage.removeItem("parley-launching");
    }
  } catch { /* no storage, no draft */ }

  // The page has times in UTC: here they are shown in the reader's zone, as the language of the page writes them.
  const written = document.documentElement.lang || "en";
  const spoken = navigator.languages.find((tag) => tag.split("-")[0] === written) || written;
  const day = { day: "numeric", year: "numeric", hour: "2-digit", minute: "2-digit" };
  const formats = {
    clock: new Intl.DateTimeFormat(spoken, { ...day, month: "long", timeZoneName: "short" }),
    stamp: new Intl.DateTimeFormat(spoken, { ...day, month: "short", second: "2-digit" }),
  };
  function localize(root) {
    for (const time of root.querySelectorAll("time[data-show]")) {
      const moment = new Date(time.dateTime);
      const { show } = time.dataset;
      if (show === "ago") time.title = formats.clock.format(moment);
      else time.textContent = formats[show].format(moment);
    }
  }

  function say(state, words) {
    if (!badge) return;
    badge.hidden = false;
    if (badge.dataset.state === state) return; // a screen reader hears changes only
    badge.dataset.state = state;
    badge.textContent = words;
  }

  // Is somebody writing in there, or reading something they opened?
  function inUse(part) {
    const focused = document.activeElement;
    return part.contains(focused) && focused.matches("input, textarea, select");
  }

  function keepOpen(before, after) {
    const opened = [...before.querySelectorAll("details")].map((details) => details.open);
    after.querySelectorAll("details").forEach((details, place) => {
      if (place < opened.length) details.open = opened[place];
    });
    const places = [...before.querySelectorAll(".scroll")].map((scroll) => scroll.scrollLeft);
    return () => before.querySelectorAll(".scroll").forEach((scroll, place) => { scroll.scrollLeft = places[place] || 0; });
  }

  function replace(part, fresh) {
    if (part.isEqualNode(fresh) || inUse(part)) return;
    const scrollBack = keepOpen(part, fresh);
    const focused = document.activeElement;
    const href = part.contains(focused) ? focused.getAttribute("href") : null;
    for (const name of ["data-again"]) {
      if (fresh.hasAttribute(name)) part.setAttribute(name, fresh.getAttribute(name));
      else part.removeAttribute(name);
    }
    part.replaceChildren(...document.adoptNode(fresh).childNodes);
    slide();
    scrollBack();
    if (href) {
      const again = [...part.querySelectorAll("a")].find((link) => link.getAttribute("href") === href);
      if (again) again.focus({ preventScroll: true });
    }
  }

  async function refresh() {
    if (busy) { due = true; return; }
    busy = true;
    try {
      // A page that answers a form has an address that cannot be loaded: then it names the one that can.
      const answer = await fetch(body.dataset.page || location.href, { headers: { "Parley-Live": "1" }, cache: "no-store" });
      if (answer.redirected && new URL(answer.url).pathname === "/sign-in") { location.reload(); return; }
      if (!answer.ok) return;
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      known = fresh.body.dataset.version;
      body.dataset.version = known;
      for (const part of document.querySelectorAll("[data-live]")) {
        const found = fresh.getElementById(part.id);
        if (found) { localize(found); replace(part, found); }
      }
    } catch {
      // The stream will say when the server is back.
    } finally {
      busy = false;
      if (due) { due = false; refresh(); } else { again(); }
    }
  }

  let timer = null;
  function again() {
    const waiting = document.querySelector("[data-again]");
    clearTimeout(timer);
    if (waiting) timer = setTimeout(refresh, Number(waiting.dataset.again) || 2000);
  }

  function heard(event) {
    wait = 1000;
    say("on", badge ? badge.dataset.on : "");
    if (String(JSON.parse(event.data).version) !== known) refresh();
  }

  function listen() {
    source = new EventSource(body.dataset.stream);
    source.addEventListener("study", heard);
    source.addEventListener("studies", heard);
    source.onerror = () => {
      say("off", badge ? badge.dataset.off : "");
      if (source.readyState !== EventSource.CLOSED) return; // the browser tries again by itself
      source.close();
      setTimeout(async () => {
        wait = Math.min(wait * 2, 15000);
        await refresh(); // if the session is over, this leads to the sign-in page
        listen();
      }, wait);
    };
  }

  if (body.dataset.stream) {
    say("off", badge ? badge.dataset.first : "");
    listen();
    addEventListener("pagehide", () => source.close());
    addEventListener("pageshow", (event) => { if (event.persisted) { listen(); refresh(); } });
    again();
  }

  // How long ago, kept current between changes; as `ago` of render.py has it, which also has the words for no minute.
  const units = [["minute", 60, 7200], ["hour", 3600, 172800], ["day", 86400, Infinity]];
  const relative = new Intl.RelativeTimeFormat(spoken);
  function passed(root) {
    for (const time of root.querySelectorAll("time[data-show=ago]")) {
      const seconds = (Date.now() - Date.parse(time.dateTime)) / 1000;
      if (seconds < 60) continue;
      const [word, size] = units.find(([, , most]) => seconds < most);
      time.textContent = relative.format(-Math.floor(seconds / size), word);
    }
  }
  setInterval(() => passed(document), 10000);
  localize(document);
  for (const foot of document.querySelectorAll("[data-local]")) foot.textContent = foot.dataset.local;

  // On a phone the tabs scroll: the one that is open is in sight.
  const tab = document.querySelector(".tabs [aria-current]");
  if (tab) tab.parentElement.scrollLeft = tab.offsetLeft - tab.parentElement.offsetLeft - 48;

  // Other weights, one step at a time: the slider shows its column of the table, which has them all.
  function slide() {
    const slider = document.getElementById("weight-step");
    const table = document.querySelector("table.steps");
    if (!slider || !table) return;
    const shift = table.rows[0].cells.length - 1 - Number(slider.max);
    const words = table.rows[0].cells[shift + Number(slider.value)].dataset.step;
    slider.parentElement.hidden = false;
    slider.setAttribute("aria-valuetext", words);
    slider.parentElement.querySelector("output").textContent = words;
    for (const row of table.rows) {
      for (const [place, cell] of [...row.cells].entries()) {
        cell.hidden = place >= shift && place !== shift + Number(slider.value);
      }
    }
  }
  slide();
  document.addEventListener("input", (event) => { if (event.target.id === "weight-step") slide(); });

  // A chosen file goes into the text field, where it can be read and changed before it is sent.
  for (const chooser of document.querySelectorAll("input[type=file][data-into]")) {
    chooser.addEventListener("change", async () => {
      const into = document.getElementById(chooser.dataset.into);
      if (chooser.files[0]) into.value = await chooser.files[0].text();
    });
  }

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-print], [data-copy]");
    if (!button) return;
    if ("print" in button.dataset) { print(); return; }
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    button.textContent = "Copied";
  });
})();
