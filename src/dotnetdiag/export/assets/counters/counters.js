"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const SVG = "http://www.w3.org/2000/svg";
  const LEFT = 58, RIGHT = 8, TOP = 8, BOTTOM = 20, HEIGHT = 160;
  const color = number => `hsl(${(number * 137.508 + 210) % 360} 65% 50%)`;
  const tip = document.getElementById("tip");

  function element(parent, name, text) {
    const made = parent.appendChild(document.createElement(name));
    if (text !== undefined) made.textContent = text;
    return made;
  }
  function shape(parent, name, attributes) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return parent.appendChild(made);
  }
  const figures = new Intl.NumberFormat("en", { maximumFractionDigits: 3 });
  const short = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 4 });

  let first = Infinity, last = -Infinity;
  for (const chart of data.charts) for (const line of chart.lines) for (const ms of line.ms) {
    if (ms < first) first = ms;
    if (ms > last) last = ms;
  }
  if (!(last > first)) { first = Math.min(first, 0) || 0; last = first + 1000; }

  function steps(low, high, count) {
    const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find(factor => power * factor >= rough * 0.999);
    const found = [];
    for (let at = Math.ceil(low / step) * step; at <= high + step / 1e6; at += step) found.push(Math.abs(at) < step / 1e6 ? 0 : at);
    return found;
  }

  function range(chart) {
    let low = Infinity, high = -Infinity;
    chart.lines.forEach((line, number) => {
      if (chart.off.has(number)) return;
      for (const value of line.values) if (value !== null) { if (value < low) low = value; if (value > high) high = value; }
    });
    if (low > high) return [0, 1];
    if (low > 0 && low < high / 2) low = 0;
    if (low === high) return low === 0 ? [0, 1] : [Math.min(0, low), Math.max(0, high)];
    return [low, high];
  }

  function draw(chart) {
    const svg = chart.svg, width = svg.clientWidth || 460;
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    const [low, high] = range(chart);
    const x = ms => LEFT + (ms - first) / (last - first) * (width - LEFT - RIGHT);
    const y = value => HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM);
    for (const value of steps(low, high, 4)) {
      shape(svg, "line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) });
      shape(svg, "text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }).textContent = short.format(value);
    }
    for (const seconds of steps(first / 1000, last / 1000, Math.max(2, width / 110))) {
      shape(svg, "text", { x: x(seconds * 1000), y: HEIGHT - 5, "text-anchor": "middle" }).textContent = `${figures.format(seconds)} s`;
    }
    chart.lines.forEach((line, number) => {
      if (chart.off.has(number)) return;
      let path = "", pen = "M";
      line.values.forEach((value, at) => {
        if (value === null) { pen = "M"; return; }
        const next = line.values[at + 1];
        path += `${pen}${x(line.ms[at]).toFixed(1)} ${y(value).toFixed(1)}`;
        if (pen === "M" && (next === null || next === undefined)) path += "h.1";
        pen = "L";
      });
      shape(svg, "path", { class: "drawn", d: path || "M0 0", stroke: color(number), "stroke-linecap": "round" });
    });
    chart.cursor = shape(svg, "line", { class: "cursor", y1: TOP, y2: HEIGHT - BOTTOM, visibility: "hidden" });
    chart.x = x;
  }

  function nearest(times, ms) {
    let low = 0, high = times.length - 1;
    while (high - low > 1) { const middle = (low + high) >> 1; if (times[middle] > ms) high = middle; else low = middle; }
    return ms - times[low] <= times[high] - ms ? low : high;
  }

  function point(chart, event) {
    const box = chart.svg.getBoundingClientRect(), share = (event.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT);
    const ms = first + Math.max(0, Math.min(1, share)) * (last - first);
    tip.replaceChildren();
    let when = null;
    const rows = [];
    chart.lines.forEach((line, number) => {
      if (chart.off.has(number) || !line.ms.length) return;
      const at = nearest(line.ms, ms), value = line.values[at];
      if (when === null) when = line.ms[at];
      rows.push([number, `${line.label ? `${line.label}: ` : ""}${value === null ? "no value" : `${figures.format(value)} ${chart.unit}`}`]);
    });
    if (when === null) return;
    element(tip, "div", `${figures.format(when / 1000)} s`);
    for (const [number, text] of rows.slice(0, 24)) {
      const row = element(tip, "div"), swatch = element(row, "span");
      swatch.className = "swatch";
      swatch.style.background = color(number);
      row.append(text);
    }
    if (rows.length > 24) element(tip, "div", `and ${rows.length - 24} more`);
    chart.cursor.setAttribute("x1", chart.x(when));
    chart.cursor.setAttribute("x2", chart.x(when));
    chart.cursor.setAttribute("visibility", "visible");
    tip.hidden = false;
    const right = event.clientX + 14 + tip.offsetWidth < innerWidth;
    tip.style.left = `${right ? event.clientX + 14 : Math.max(0, event.clientX - 14 - tip.offsetWidth)}px`;
    tip.style.top = `${Math.max(0, Math.min(event.clientY + 12, innerHeight - tip.offsetHeight - 4))}px`;
  }

  document.title = data.title;
  document.getElementById("title").textContent = data.title;
  for (const fact of data.facts) element(document.getElementById("facts"), "li", fact);
  for (const chart of data.charts) {
    chart.off = new Set();
    chart.section = element(document.getElementById("charts"), "section");
    element(chart.section, "h2", chart.title);
    element(chart.section, "p", [chart.description, chart.unit].filter(Boolean).join(" · "));
    chart.svg = shape(chart.section, "svg", { role: "img", "aria-label": chart.title });
    const several = chart.lines.length > 1 || chart.lines.some(line => line.label);
    const legend = several ? element(chart.section, "div") : null;
    if (legend) legend.className = "legend";
    if (legend) chart.lines.forEach((line, number) => {
      const button = element(legend, "button"), swatch = element(button, "span");
      button.type = "button";
      button.setAttribute("aria-pressed", "true");
      swatch.className = "swatch";
      swatch.style.background = color(number);
      button.append(line.label || "without tags");
      button.addEventListener("click", () => {
        if (!chart.off.delete(number)) chart.off.add(number);
        button.setAttribute("aria-pressed", String(!chart.off.has(number)));
        draw(chart);
      });
    });
    chart.svg.addEventListener("pointermove", event => point(chart, event));
    chart.svg.addEventListener("pointerleave", () => { tip.hidden = true; chart.cursor.setAttribute("visibility", "hidden"); });
    const known = chart.lines.map(line => new Set(line.values.filter(value => value !== null)).size);
    chart.moves = Math.max(0, ...known) > 1;
    chart.words = [chart.title, chart.description, chart.unit, ...chart.lines.map(line => line.label)].join("\n").toLowerCase();
  }

  const search = document.getElementById("search"), moving = document.getElementById("moving");
  function choose() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const chart of data.charts) {
      const fits = words.every(word => chart.words.includes(word)) && (!moving.checked || chart.moves);
      chart.section.hidden = !fits;
      if (fits) { shown += 1; draw(chart); }
    }
    document.getElementById("said").textContent = `${shown} of ${data.charts.length} charts`;
  }
  search.addEventListener("input", choose);
  moving.addEventListener("change", choose);
  addEventListener("keydown", event => {
    if (event.key === "/" && document.activeElement !== search) { event.preventDefault(); search.focus(); }
  });
  let waiting = 0;
  addEventListener("resize", () => { cancelAnimationFrame(waiting); waiting = requestAnimationFrame(choose); });
  choose();
})();
