"use strict";

/* The map: a canvas that is dragged, zoomed and searched. memwell.js has the helpers. */

const FEW = 60; // so few points have their names at once
const NAMES_FROM_ZOOM = 4;

async function map(canvas) {
  const pen = canvas.getContext("2d"), tip = $("#tip"), pointers = new Map();
  const texts = canvas.dataset, form = $("#map-search"), choice = $("#colour");
  let view = { x: 0.5, y: 0.5, zoom: 1 }, over = null, moved = 0, waiting = false, found = null;
  say(texts.drawing);
  let drawing;
  try {
    drawing = await (await fetchOk("/map/points")).json();
  } catch {
    return say(texts.failed);
  }
  const points = drawing.points.map(([x, y, region, title, link, folder, date]) => (
    { x, y, region, title, link, folder, date }
  ));
  const folders = [...new Set(points.map((point) => point.folder))].sort();
  const days = [...new Set(points.map((point) => point.date).filter(Boolean))].sort();

  const side = () => ({ width: canvas.clientWidth, height: canvas.clientHeight });
  const scale = () => ({ x: (side().width - 60) * view.zoom, y: (side().height - 60) * view.zoom });
  const place = (point) => [
    side().width / 2 + (point.x - view.x) * scale().x,
    side().height / 2 + (point.y - view.y) * scale().y,
  ];

  /* -- colours: by region, folder or date ------------------------------------------------------- */

  const hue = (number) => `hsl(${(172 + number * 137.5) % 360} 45% ${isDark() ? 62 : 40}%)`;
  function age(date) {
    if (!date) return isDark() ? "#5a6461" : "#b9beb8";
    const share = days.length < 2 ? 1 : days.indexOf(date) / (days.length - 1);
    const light = isDark() ? 35 + 40 * share : 78 - 50 * share;
    return `hsl(174 ${30 + 40 * share}% ${light}%)`;
  }
  function colour(point) {
    if (choice.value === "folder") return hue(folders.indexOf(point.folder));
    return choice.value === "date" ? age(point.date) : hue(point.region);
  }

  function explainColours() {
    const named = { folder: folders.slice(0, 12), date: [days[0], days.at(-1), ""] }[choice.value] ?? [];
    $("#colours").replaceChildren(...named.filter((name) => name !== undefined).map((name) => {
      const item = document.createElement("span"), ns = "http://www.w3.org/2000/svg";
      const box = document.createElementNS(ns, "svg"), dot = document.createElementNS(ns, "rect");
      box.setAttribute("viewBox", "0 0 1 1");
      dot.setAttribute("width", "1");
      dot.setAttribute("height", "1");
      dot.setAttribute("fill", choice.value === "date" ? age(name) : hue(folders.indexOf(name)));
      box.append(dot);
      item.append(box, ` ${name || texts.undated}`);
      return item;
    }));
  }

  /* -- drawing ---------------------------------------------------------------------------------- */

  function draw() {
    waiting = false;
    const { width, height } = side(), dots = devicePixelRatio || 1;
    const style = getComputedStyle(canvas);
    canvas.width = width * dots;
    canvas.height = height * dots;
    pen.setTransform(dots, 0, 0, dots, 0, 0);
    const radius = Math.min(7, (points.length > 1500 ? 2 : 3.5) * Math.sqrt(view.zoom));
    const visible = points.filter((point) => {
      [point.left, point.top] = place(point);
      return point.left > -9 && point.top > -9 && point.left < width + 9 && point.top < height + 9;
    });
    const paths = new Map(); // one path for each colour
    for (const point of visible) {
      const lit = !found || found.has(point.link), key = `${lit} ${colour(point)}`;
      if (!paths.has(key)) paths.set(key, { lit, colour: colour(point), points: [] });
      paths.get(key).points.push(point);
    }
    for (const path of [...paths.values()].sort((one, other) => one.lit - other.lit)) {
      pen.globalAlpha = path.lit ? 0.85 : 0.15;
      pen.fillStyle = path.colour;
      pen.beginPath();
      const size = found && path.lit ? radius + 2 : radius;
      for (const { left, top } of path.points) {
        pen.moveTo(left + size, top);
        pen.arc(left, top, size, 0, 2 * Math.PI);
      }
      pen.fill();
    }
    pen.globalAlpha = 1;
    const written = [];
    pen.textAlign = "center";
    pen.lineWidth = 4;
    pen.strokeStyle = style.backgroundColor;
    pen.fillStyle = style.color;
    const near = points.length <= FEW || view.zoom >= NAMES_FROM_ZOOM;
    const named = found ? visible.filter((point) => found.has(point.link)) : near ? visible : [];
    if (found) writeTitles(named, radius, written); // before the regions, which may be covered
    if (!near || points.length > FEW) {
      pen.font = "600 12px system-ui, sans-serif";
      pen.globalAlpha = found ? 0.45 : 1;
      for (const [name, x, y] of drawing.regions) write(shorten(name), ...place({ x, y }), written);
      pen.globalAlpha = 1;
    }
    if (!found) writeTitles(named, radius, written);
    if (over) {
      const [x, y] = place(over);
      pen.strokeStyle = style.color;
      pen.lineWidth = 2;
      pen.beginPath();
      pen.arc(x, y, radius + 2, 0, 2 * Math.PI);
      pen.stroke();
    }
  }

  function writeTitles(named, radius, written) {
    const titles = new Set();
    pen.font = "12px system-ui, sans-serif";
    for (const point of named) {
      if (titles.has(point.title)) continue; // one name for the passages of a note
      if (write(point.title, point.left, point.top - radius - 5, written)) titles.add(point.title);
    }
  }

  /** Returns the first two words of a region's name on a narrow screen. */
  function shorten(name) {
    return side().width < 500 ? name.split(" · ").slice(0, 2).join(" · ") : name;
  }

  /** Writes a label, unless it would cover one that is already there. */
  function write(name, at, line, written) {
    const { width, height } = side(), most = width < 500 ? 22 : 34;
    const label = name.length > most ? `${name.slice(0, most - 1)}…` : name;
    const half = pen.measureText(label).width / 2 + 4;
    if (at < 0 || at > width || line < 0 || line > height) return false;
    at = Math.min(Math.max(at, half), width - half);
    line = Math.max(line, 14);
    const covers = (other) => Math.abs(other.line - line) < 16 && Math.abs(other.at - at) < other.half + half;
    if (written.some(covers)) return false;
    written.push({ at, line, half });
    pen.strokeText(label, at, line);
    pen.fillText(label, at, line);
    return true;
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

  /* -- searching: the hits stay bright, the rest fades ------------------------------------------- */

  async function highlight() {
    const query = form.elements.q.value.trim();
    try {
      const links = query ? await (await fetchOk(`/map/hits?${new URLSearchParams({ q: query })}`)).json() : null;
      if (query !== form.elements.q.value.trim()) return; // a later query is on its way
      found = links && new Set(links);
    } catch {
      return say(document.body.dataset.silent);
    }
    const lit = found ? points.filter((point) => found.has(point.link)).length : 0;
    say(found ? texts.found.replace("%1", lit) : summary());
    canvas.dataset.lit = found ? lit : "";
    drawSoon();
  }

  const summary = () => (
    texts.drawnText.replace("%1", points.length).replace("%2", drawing.regions.length)
  );

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
  let timer;
  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(highlight, 150);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    highlight();
  });
  choice.addEventListener("change", () => {
    explainColours();
    drawSoon();
  });
  addEventListener("resize", () => {
    explainColours();
    drawSoon();
  });

  draw();
  explainColours();
  $(".zoom").hidden = !points.length;
  canvas.dataset.drawn = Math.round(performance.now());
  say(summary());
  if (form.elements.q.value) await highlight();
  await replace($("#regions"), "/map/regions?part=1");
}

map($("#map"));
