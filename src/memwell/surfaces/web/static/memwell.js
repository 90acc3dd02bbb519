"use strict";

const $ = (selector) => document.querySelector(selector);

async function fetchOk(path, signal) {
  const answer = await fetch(path, { signal, headers: { Accept: "text/html, application/json" } });
  if (!answer.ok) throw new Error(`${path} answered ${answer.status}`);
  return answer;
}

/** Replaces the content of an element with a part of a view; the server escapes all texts. */
async function replace(element, path, signal) {
  const text = await (await fetchOk(path, signal)).text();
  if (text !== element.shown) keepFocus(element, () => (element.innerHTML = text));
  element.shown = text;
}

/** Changes an element. If one of its links has the focus, the same link or the one in its place has it afterwards. */
function keepFocus(element, change) {
  const at = document.activeElement;
  const links = () => [...element.querySelectorAll("a")];
  const place = links().indexOf(at);
  change();
  if (place < 0) return;
  const now = links();
  (now.find((link) => link.href === at.href) ?? now[Math.min(place, now.length - 1)])?.focus();
}

function say(text) {
  $("#status").textContent = text;
}

/* -- light and dark: a cookie, so that the server renders the right theme ----------------------- */

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function themeButton() {
  const button = $("#theme");
  const texts = document.body.dataset;
  const name = () => (button.textContent = isDark() ? texts.light : texts.dark);
  button.hidden = false;
  name();
  button.addEventListener("click", () => {
    const next = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    document.cookie = `theme=${next}; path=/; max-age=31536000; samesite=strict`;
    name();
    dispatchEvent(new Event("resize")); // the map is redrawn in the new colours
  });
}

/* -- search while typing: the latest answer wins ------------------------------------------------ */

const PAUSE_MS = 40; // between the last key and the search: typing quickly asks once

function searchForm() {
  const form = $("#search"), hits = $("#hits");
  let timer, request = new AbortController(), last = formQuery();

  function formQuery() {
    return new URLSearchParams(new FormData(form)).toString();
  }

  async function search() {
    if (formQuery() === last) return;
    last = formQuery();
    request.abort();
    request = new AbortController();
    try {
      await replace(hits, `/hits?${last}`, request.signal);
      history.replaceState(null, "", `/?${last}`);
      const section = hits.querySelector("[data-status]");
      say(section ? section.dataset.status : "");
    } catch (error) {
      if (error.name !== "AbortError") say(document.body.dataset.silent);
    }
  }

  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(search, PAUSE_MS);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(timer);
    search();
  });
  say(hits.querySelector("[data-status]")?.dataset.status ?? "");
  const field = $("#q");  // somebody may have typed before this script ran
  if (field && field.value !== field.defaultValue) search();
}

/* -- the keyboard ------------------------------------------------------------------------------- */

function keys() {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const field = $("#q"), at = document.activeElement;
    const writing = at.matches("input:not([type=radio]):not([type=checkbox]), textarea, select");
    if (event.key === "/" && !writing) {
      event.preventDefault();
      field ? field.focus() : location.assign("/");
    } else if (field && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      const stops = [field, ...document.querySelectorAll("a.hit")];
      const now = stops.indexOf(at);
      if (now < 0) return;
      event.preventDefault();
      const next = stops[now + (event.key === "ArrowDown" ? 1 : -1)];
      if (next) next.focus();
    } else if (field && event.key === "Escape" && at.matches("a.hit")) {
      field.focus();
    }
  });
}

/* -- parts that are polled ---------------------------------------------------------------------- */

function poll(element) {
  setInterval(() => {
    if (!document.hidden) replace(element, element.dataset.poll).catch(() => {});
  }, 1000);
}

/* -- parts that are loaded later, or when a link is clicked ------------------------------------- */

function loadLater(element) {
  replace(element, element.dataset.load).catch(() => {});
}

function loadOnClick(link) {
  link.addEventListener("click", (event) => {
    event.preventDefault();
    link.setAttribute("aria-busy", "true");
    replace(link.parentElement.parentElement, link.dataset.part).catch(() => location.assign(link.href));
  });
}

/* -- copying a citation or a path --------------------------------------------------------------- */

function copyOnClick(element) {
  if (!navigator.clipboard) return; // the page came over plain HTTP from another machine
  element.hidden = false;
  element.addEventListener("click", async () => {
    await navigator.clipboard.writeText(element.dataset.copy);
    const before = element.textContent;
    element.textContent = document.body.dataset.copied;
    setTimeout(() => (element.textContent = before), 1200);
  });
}

/* -- the views, which are one row that scrolls on a phone ---------------------------------------- */

/** Scrolls the row only. After `scrollIntoView` the Tab key would begin at the link instead of at the page's first one. */
function centreInRow(link) {
  const row = link.parentElement;
  const inRow = link.getBoundingClientRect().left - row.getBoundingClientRect().left;
  row.scrollLeft += inRow - (row.clientWidth - link.offsetWidth) / 2;
}

/* -- the passage and the form that an address names --------------------------------------------- */

function openTarget() {
  const name = location.hash.slice(1);
  const target = document.getElementById(name) ?? nearestLine(name);
  if (target?.matches("details")) target.open = true;
  if (target && target.id !== name) target.scrollIntoView();
}

/** Returns the passage that contains a line (#L12) at which none begins. */
function nearestLine(name) {
  const line = /^L\d+$/.test(name) ? Number(name.slice(1)) : 0;
  const before = [...document.querySelectorAll(".chunk")].filter((one) => Number(one.id.slice(1)) <= line);
  return before.at(-1);
}

/* -- the tree of notes, filtered while typing --------------------------------------------------- */

function filterTree(field, tree) {
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const note of tree.querySelectorAll("[data-name]")) {
      note.hidden = !words.every((word) => note.dataset.name.includes(word));
    }
    for (const folder of [...tree.querySelectorAll(".folder")].reverse()) {
      const shown = folder.querySelector("[data-name]:not([hidden])") !== null;
      folder.hidden = !shown;
      if (words.length && shown) folder.open = true;
    }
  });
}

themeButton();
keys();
if ($("header [aria-current]")) centreInRow($("header [aria-current]"));
if ($("#search")) searchForm();
document.querySelectorAll("[data-poll]").forEach(poll);
document.querySelectorAll("[data-load]").forEach(loadLater);
document.querySelectorAll("[data-part]").forEach(loadOnClick);
document.querySelectorAll("[data-copy]").forEach(copyOnClick);
if ($("#filter") && $(".tree")) filterTree($("#filter"), $(".tree"));
openTarget();
addEventListener("hashchange", openTarget);
