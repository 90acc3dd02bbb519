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
  if (text !== element.shown) element.innerHTML = text;
  element.shown = text;
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
  const name = () => (button.textContent = isDark() ? "Light" : "Dark");
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
      if (error.name !== "AbortError") say("The search did not answer.");
    }
  }

  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(search, 150);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(timer);
    search();
  });
  say(hits.querySelector("[data-status]")?.dataset.status ?? "");
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

/* -- the map ------------------------------------------------------------------------------------ */

async function map(canvas) {
  const pen = canvas.getContext("2d"), tip = $("#tip"), pointers = new Map();
  let view = { x: 0.5, y: 0.5, zoom: 1 }, over = null, moved = 0, waiting = false;
  say("Drawing …");
  let drawing;
  try {
    drawing = await (await fetchOk("/map/points")).json();
  } catch {
    return say("The map could not be drawn.");
  }
  const points = drawing.points.map(([x, y, region, title, link]) => ({ x, y, region, title, link }));

  const side = () => ({ width: canvas.clientWidth, height: canvas.clientHeight });
  const scale = () => ({ x: (side().width - 60) * view.zoom, y: (side().height - 60) * view.zoom });
  const place = (point) => [
    side().width / 2 + (point.x - view.x) * scale().x,
    side().height / 2 + (point.y - view.y) * scale().y,
  ];

  function draw() {
    waiting = false;
    const { width, height } = side(), by = scale(), dots = devicePixelRatio || 1;
    const style = getComputedStyle(canvas);
    canvas.width = width * dots;
    canvas.height = height * dots;
    pen.setTransform(dots, 0, 0, dots, 0, 0);
    const radius = Math.min(7, (points.length > 1500 ? 2 : 3.5) * Math.sqrt(view.zoom));
    drawing.regions.forEach((_, region) => {
      pen.fillStyle = `hsl(${(172 + region * 137.5) % 360} 38% ${isDark() ? 62 : 42}% / .75)`;
      pen.beginPath();
      for (const point of points) {
        if (point.region !== region) continue;
        const x = width / 2 + (point.x - view.x) * by.x, y = height / 2 + (point.y - view.y) * by.y;
        if (x < -9 || y < -9 || x > width + 9 || y > height + 9) continue;
        pen.moveTo(x + radius, y);
        pen.arc(x, y, radius, 0, 2 * Math.PI);
      }
      pen.fill();
    });
    pen.font = "600 12px system-ui, sans-serif";
    pen.textAlign = "center";
    pen.lineWidth = 4;
    pen.strokeStyle = style.backgroundColor;
    pen.fillStyle = style.color;
    const written = [];
    for (const [name, x, y] of drawing.regions) {
      const label = name.length > 28 ? `${name.slice(0, 27)}…` : name;
      const half = pen.measureText(label).width / 2 + 4;
      let [at, line] = place({ x, y });
      if (at > 0 && at < width) at = Math.min(Math.max(at, half), width - half);
      const near = (other) => Math.abs(other.line - line) < 16 && Math.abs(other.at - at) < other.half + half;
      if (written.some(near)) continue; // the label of the larger region stays
      written.push({ at, line, half });
      pen.strokeText(label, at, line);
      pen.fillText(label, at, line);
    }
    if (over) {
      const [x, y] = place(over);
      pen.strokeStyle = style.color;
      pen.lineWidth = 2;
      pen.beginPath();
      pen.arc(x, y, radius + 2, 0, 2 * Math.PI);
      pen.stroke();
    }
  }

  function drawSoon() {
    if (!waiting) requestAnimationFrame(draw);
    waiting = true;
  }

  /** Returns the nearest point within reach of a position on the canvas. */
  function at(x, y) {
    let best = null, least = 12 ** 2;
    for (const point of points) {
      const [px, py] = place(point), distance = (px - x) ** 2 + (py - y) ** 2;
      if (distance < least) [best, least] = [point, distance];
    }
    return best;
  }

  function point(to) {
    over = to;
    canvas.classList.toggle("over", to !== null);
    tip.hidden = to === null;
    if (to) {
      tip.textContent = to.title;
      const [x, y] = place(to);
      const left = Math.min(Math.max(0, x - tip.offsetWidth / 2), side().width - tip.offsetWidth);
      tip.style.transform = `translate(${left}px, ${y + (y < 70 ? 14 : -14 - tip.offsetHeight)}px)`;
    }
    drawSoon();
  }

  function shift(x, y) {
    view.x = Math.min(1, Math.max(0, view.x - x / scale().x));
    view.y = Math.min(1, Math.max(0, view.y - y / scale().y));
    point(null);
  }

  /** Zooms; the point under the given position of the canvas stays where it is. */
  function zoom(by, x = side().width / 2, y = side().height / 2) {
    const before = scale();
    view.zoom = by ? Math.min(60, Math.max(1, view.zoom * by)) : 1;
    if (view.zoom === 1) [view.x, view.y] = [0.5, 0.5];
    else {
      view.x += (x - side().width / 2) * (1 / before.x - 1 / scale().x);
      view.y += (y - side().height / 2) * (1 / before.y - 1 / scale().y);
    }
    point(null);
  }

  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, event);
    moved = 0;
  });
  canvas.addEventListener("pointermove", (event) => {
    const last = pointers.get(event.pointerId);
    if (!last) return point(at(event.offsetX, event.offsetY));
    const other = [...pointers.values()].find((one) => one.pointerId !== event.pointerId);
    const apart = (one) => Math.hypot(one.offsetX - other.offsetX, one.offsetY - other.offsetY) || 1;
    if (other) zoom(apart(event) / apart(last), other.offsetX, other.offsetY);
    else shift(event.offsetX - last.offsetX, event.offsetY - last.offsetY);
    moved += Math.abs(event.offsetX - last.offsetX) + Math.abs(event.offsetY - last.offsetY);
    pointers.set(event.pointerId, event);
  });
  canvas.addEventListener("pointerup", (event) => {
    pointers.delete(event.pointerId);
    const there = moved < 5 && at(event.offsetX, event.offsetY);
    if (there) location.assign(there.link);
  });
  canvas.addEventListener("pointercancel", (event) => pointers.delete(event.pointerId));
  canvas.addEventListener("pointerleave", () => point(null));
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(Math.exp(-event.deltaY / 400), event.offsetX, event.offsetY);
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
    if (step[event.key]) shift(...step[event.key]);
    else if (event.key === "+" || event.key === "-") zoom(event.key === "+" ? 1.5 : 1 / 1.5);
    else return;
    event.preventDefault();
  });
  for (const button of document.querySelectorAll("[data-zoom]")) {
    button.addEventListener("click", () => zoom(Number(button.dataset.zoom)));
  }
  addEventListener("resize", drawSoon);

  draw();
  $(".zoom").hidden = !points.length;
  canvas.dataset.drawn = Math.round(performance.now());
  say(`${points.length} passages in ${drawing.regions.length} regions.`);
  await replace($("#regions"), "/map/regions?part=1");
}

themeButton();
keys();
if ($("#search")) searchForm();
document.querySelectorAll("[data-poll]").forEach(poll);
if ($("#map")) map($("#map"));
