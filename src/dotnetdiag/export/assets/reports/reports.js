"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const SVG = "http://www.w3.org/2000/svg";
  const STEP = 200;
  const tip = document.getElementById("tip"), panel = document.getElementById("tab"), bar = document.getElementById("tabs");
  const figures = new Intl.NumberFormat("en", { maximumFractionDigits: 3 });
  const short = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });

  function element(parent, name, text, kind) {
    const made = parent.appendChild(document.createElement(name));
    if (text !== undefined) made.textContent = text;
    if (kind) made.className = kind;
    return made;
  }
  function shape(parent, name, attributes, text) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return parent.appendChild(made);
  }
  const amount = (value, unit) => {
    if (unit !== "bytes") return `${figures.format(value)} ${unit}`;
    const size = Math.abs(value), [step, name] = size >= 1e9 ? [1e9, "GB"] : size >= 1e6 ? [1e6, "MB"] : size >= 1e3 ? [1e3, "KB"] : [1, "B"];
    return `${figures.format(value / step)} ${name}`;
  };

  // what is under the pointer ------------------------------------------------------------------------------------------

  function hint(node, lines) { node.lines = lines.filter(Boolean); return node; }
  panel.addEventListener("pointermove", event => {
    const lines = event.target.lines;
    tip.hidden = !lines;
    if (!lines) return;
    tip.replaceChildren();
    for (const line of lines) element(tip, "div", line);
    const right = event.clientX + 14 + tip.offsetWidth < innerWidth;
    tip.style.left = `${right ? event.clientX + 14 : Math.max(0, event.clientX - 14 - tip.offsetWidth)}px`;
    tip.style.top = `${Math.max(0, Math.min(event.clientY + 12, innerHeight - tip.offsetHeight - 4))}px`;
  });
  panel.addEventListener("pointerleave", () => { tip.hidden = true; });

  // charts -------------------------------------------------------------------------------------------------------------

  function steps(low, high, count) {
    const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
    const step = power * ([1, 2, 5, 10].find(factor => power * factor >= rough * 0.999) || 10), found = [];
    if (!(step > 0) || !isFinite(step)) return [low];
    for (let at = Math.ceil(low / step) * step; at <= high + step / 1e6 && found.length < 50; at += step) found.push(Math.abs(at) < step / 1e6 ? 0 : at);
    return found;
  }
  const greatest = series => { let most = 0; for (const one of series) for (const value of one.values) if (value > most) most = value; return most || 1; };

  // texts of charts, as wide as they are drawn
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = `11px ${getComputedStyle(document.documentElement).fontFamily}`;
  const wide = text => pen.measureText(text).width;
  // the most characters that have room, as few of them as make sense
  function longest(all, room, made) {
    let low = 0, high = all.length;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (wide(made(all, middle)) <= room) low = middle; else high = middle - 1;
    }
    return low < 2 ? "" : made(all, low);
  }
  const cut = (text, room) => wide(text) <= room ? text : longest([...text], room, (all, most) => all.slice(0, most).join("") + "…");

  // a method's parameters give way first, then its beginning
  function cutMethod(text, room, from = 0) {
    if (wide(text) <= room) return text;
    const head = text.slice(0, from), name = text.slice(from), bare = name.split("(")[0] || name;
    for (const whole of [`${head}${bare}(…)`, head + bare]) if (bare !== name && wide(whole) <= room) return whole;
    return longest([...bare], room, (all, most) => `${head}…${all.slice(all.length - most).join("")}`) || cut(text, room);
  }

  function axis(svg, x, first, last, width, height) {
    const unit = last - first < 2000 ? ["ms", 1] : ["s", 1000];
    for (const at of steps(first / unit[1], last / unit[1], Math.max(2, width / 120)))
      shape(svg, "text", { x: Math.min(x(at * unit[1]), width - 22), y: height - 4, "text-anchor": "middle" }, `${figures.format(at)} ${unit[0]}`);
  }

  function time(box, chart) {
    const legend = element(box, "div", undefined, "legend"), width = box.clientWidth - 16, HEIGHT = 260, LEFT = 58, RIGHT = 62, TOP = 10, BOTTOM = 20;
    const svg = shape(box, "svg", { height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", preserveAspectRatio: "xMinYMin" });
    let first = Infinity, last = -Infinity;
    for (const one of [...chart.areas, ...chart.bars]) for (const ms of one.ms) { if (ms < first) first = ms; if (ms > last) last = ms; }
    if (chart.end !== undefined) { first = Math.min(first, 0); last = Math.max(last, chart.end); }
    if (!(last > first)) last = first + 1000;
    const x = ms => LEFT + (ms - first) / (last - first) * (width - LEFT - RIGHT);
    const bottom = HEIGHT - BOTTOM, sides = [[chart.areas, LEFT - 6, "end"], [chart.bars, width - RIGHT + 6, "start"]];
    const tops = sides.map(([series]) => greatest(series) * 1.05);
    for (const one of chart.shades || [])
      hint(shape(svg, "rect", { class: "mark shade", x: x(one.start), y: TOP, width: Math.max(1, x(one.start + one.length) - x(one.start)), height: bottom - TOP }),
        [`${one.label}: ${figures.format(one.length)} ms`, `from ${figures.format(one.start)} ms`, one.hint]);
    sides.forEach(([series, at, anchor], side) => {
      if (!series.length) return;
      for (const value of steps(0, tops[side], 4)) {
        const y = bottom - value / tops[side] * (bottom - TOP);
        if (!side || !chart.areas.length) shape(svg, "line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y, y2: y });
        shape(svg, "text", { x: at, y: y + 4, "text-anchor": anchor }, series[0].unit === "bytes" ? amount(value, "bytes") : `${short.format(value)}${series[0].unit === "ms" ? " ms" : ""}`);
      }
    });
    axis(svg, x, first, last, width, HEIGHT);
    const entry = (label, colour) => {
      element(legend, "span").append(element(legend, "span", undefined, "swatch"), label);
      legend.lastChild.firstChild.style.background = `var(--${colour})`;
    };
    const area = (one, side, kind) => {
      let path = `M${x(one.ms[0]).toFixed(1)} ${bottom}`;
      const y = value => (bottom - value / tops[side] * (bottom - TOP)).toFixed(1);
      one.ms.forEach((ms, at) => { path += one.step ? `H${x(ms).toFixed(1)}V${y(one.values[at])}` : `L${x(ms).toFixed(1)} ${y(one.values[at])}`; });
      const right = x(one.ms[one.ms.length - 1]).toFixed(1), isLine = !side;
      if (!isLine || !one.step) shape(svg, "path", { class: `area ${kind}${isLine ? " ground" : ""}`, d: `${path}L${right} ${bottom}Z` });
      // it begins and ends with what is known, and not with nothing
      if (isLine) shape(svg, "path", { class: `area ${kind} line${one.step ? "" : " thin"}`, d: path.replace(/^M([\d.-]+) [\d.-]+[LH][\d.-]+[ V]([\d.-]+)/, "M$1 $2") });
    };
    const points = (one, side, kind) => one.ms.forEach((ms, at) => {
      if (one.ms.length > 800) return;
      hint(shape(svg, "circle", { class: `mark ${kind}`, cx: x(ms), cy: bottom - one.values[at] / tops[side] * (bottom - TOP), r: 2.5 }), [`${one.label}: ${amount(one.values[at], one.unit)}`, `at ${figures.format(ms)} ms`]);
    });
    chart.areas.forEach((one, number) => {
      area(one, 0, `s${number % 2}`);
      entry(one.label, number % 2 ? "second" : "first");
    });
    chart.bars.forEach((one, number) => {
      entry(`${one.label} (${one.unit}, right)`, number % 2 ? "bad" : "bar");
      if (one.step) { area(one, 1, `b${number % 2}`); return; }
      let room = one.width || Infinity;
      if (!one.width) one.ms.forEach((ms, at) => { if (at && ms > one.ms[at - 1]) room = Math.min(room, ms - one.ms[at - 1]); });
      const wide = (x(first + room) - x(first)) - (one.width ? .5 : 1), thick = Math.max(2, one.width ? wide : Math.min(10, wide));
      one.ms.forEach((ms, at) => {
        const high = Math.max(1, one.values[at] / tops[1] * (bottom - TOP));
        hint(shape(svg, "rect", { class: `mark b${number % 2}`, x: one.width ? x(ms) : x(ms) - thick / 2, y: bottom - high, width: thick, height: high }),
          [`${one.label}: ${amount(one.values[at], one.unit)}`, `at ${figures.format(ms)} ms`]);
      });
    });
    if ((chart.shades || []).length) entry(chart.shades[0].label, "shade");
    chart.areas.forEach((one, number) => points(one, 0, `s${number % 2}`));
    chart.bars.forEach((one, number) => { if (one.step) points(one, 1, `b${number % 2}`); });
  }

  function bars(box, chart) {
    box.classList.toggle("tall", chart.items.length > 25);
    const width = box.clientWidth - 16, ROW = 20, names = Math.min(360, width * 0.45);
    const svg = shape(box, "svg", { height: chart.items.length * ROW + 4, viewBox: `0 0 ${width} ${chart.items.length * ROW + 4}`, role: "img", preserveAspectRatio: "xMinYMin" });
    // the others together may be many times what the first of all is: they are cut, and pale
    const single = chart.items.filter(item => !item.others), most = Math.max(...(single.length ? single : chart.items).map(item => item.value));
    chart.items.forEach((item, at) => {
      const long = Math.max(1, Math.min(1, item.value / most) * (width - names - 100));
      shape(svg, "text", { class: "name", x: names - 8, y: at * ROW + 15, "text-anchor": "end" }, (chart.methods ? cutMethod : cut)(item.label, names - 8));
      hint(shape(svg, "rect", { class: `mark bar${item.others ? " others" : ""}`, x: names, y: at * ROW + 3, width: long, height: ROW - 5, rx: 2 }), [item.label, amount(item.value, chart.unit), item.hint]);
      shape(svg, "text", { x: names + long + 6, y: at * ROW + 15 }, chart.unit === "bytes" ? amount(item.value, "bytes") : `${figures.format(item.value)} ${chart.unit.length < 4 ? chart.unit : ""}`);
    });
  }

  function squares(items, x, y, width, height, place) {
    // squarified: rows are added to along the shorter side while that makes their boxes less long
    let rest = items.slice(), total = rest.reduce((sum, item) => sum + item.value, 0);
    while (rest.length && total > 0) {
      const side = Math.min(width, height), scale = width * height / total;
      let row = [], sum = 0, worst = Infinity;
      while (row.length < rest.length) {
        const next = rest[row.length].value, all = sum + next, areas = [...row.map(item => item.value), next].map(value => value * scale);
        const length = all * scale / side, ratio = Math.max(...areas.map(area => { const other = area / length; return Math.max(length / other, other / length); }));
        if (ratio > worst) break;
        worst = ratio; sum = all; row = rest.slice(0, row.length + 1);
      }
      const thick = sum * scale / side;
      let along = 0;
      for (const item of row) {
        const part = item.value * scale / thick;
        if (width <= height) place(item, x + along, y, part, thick); else place(item, x, y + along, thick, part);
        along += part;
      }
      if (width <= height) { y += thick; height -= thick; } else { x += thick; width -= thick; }
      rest = rest.slice(row.length); total -= sum;
    }
  }

  function treemap(box, chart) {
    const width = box.clientWidth - 16, HEIGHT = 360, total = chart.items.reduce((sum, item) => sum + item.value, 0);
    const svg = shape(box, "svg", { height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", preserveAspectRatio: "xMinYMin" });
    squares(chart.items, 0, 0, width, HEIGHT, (item, x, y, wide, high) => {
      const number = chart.items.indexOf(item), share = item.value / total * 100;
      const rect = shape(svg, "rect", { class: "mark box", x, y, width: Math.max(0, wide), height: Math.max(0, high), fill: `hsl(${(number * 47 + 205) % 360} 55% 68%)` });
      hint(rect, [item.label, `${amount(item.value, chart.unit)}, ${figures.format(share)} %`, item.hint]);
      if (high > 16) shape(svg, "text", { class: "on", x: x + 5, y: y + 14 }, cut(item.label, wide - 8));
      if (high > 32 && wide > 60) shape(svg, "text", { class: "on", x: x + 5, y: y + 28 }, cut(amount(item.value, chart.unit), wide - 8));
    });
  }

  function waterfall(box, chart) {
    box.classList.toggle("tall", chart.rows.length > 25);
    if (chart.note) element(box, "div", chart.note, "legend");
    if (chart.rows.some(row => row.wait)) {
      element(element(box, "div", undefined, "legend"), "span").append(element(box.lastChild.lastChild, "span", undefined, "swatch wait"), "waiting for a connection");
    }
    const width = box.clientWidth - 16, ROW = 18, names = Math.min(320, width * 0.4), height = chart.rows.length * ROW + 24;
    const svg = shape(box, "svg", { height, viewBox: `0 0 ${width} ${height}`, role: "img", preserveAspectRatio: "xMinYMin" });
    let first = Infinity, last = -Infinity;
    for (const row of chart.rows) { first = Math.min(first, row.start); last = Math.max(last, row.start + (row.length || 0)); }
    if (chart.end !== undefined) last = Math.min(last, chart.end);
    if (!(last > first)) last = first + 1;
    const told = row => row.length === null ? "no end" : `${figures.format(row.length)} ms`;
    const room = 10 + Math.max(60, ...chart.rows.map(row => wide(told(row))));
    const x = ms => names + (Math.min(ms, last) - first) / (last - first) * (width - names - room);
    chart.rows.forEach((row, at) => {
      const begin = Math.min(row.depth, 8) * 10, y = at * ROW, end = row.length === null ? last : row.start + row.length;
      if (!row.depth && at) shape(svg, "line", { class: "grid", x1: 0, x2: width, y1: y, y2: y });
      shape(svg, "text", { class: "name", x: begin, y: y + 13 }, row.method === undefined ? cut(row.label, names - begin - 8) : cutMethod(row.label, names - begin - 8, row.method));
      const said = told(row);
      hint(shape(svg, "rect", { class: `mark span${row.bad ? " bad" : ""}`, x: x(row.start), y: y + 3, width: Math.max(2, x(end) - x(row.start)), height: ROW - 6, rx: 2, "fill-opacity": row.length === null ? .4 : row.depth ? .7 : 1 }),
        [row.label, chart.since && !row.start ? said : `${said}, ${figures.format(row.start)} ms ${chart.since ? "after the begin" : "after the start"}`, row.hint]);
      if (row.wait) shape(svg, "rect", { class: "wait", x: x(row.start), y: y + 3, width: Math.min(x(row.start + row.wait), x(end)) - x(row.start), height: ROW - 6 });
      shape(svg, "text", { x: x(end) + 4, y: y + 13 }, said);
    });
    axis(svg, x, first, last, width, height);
  }
  const CHARTS = new Map([["time", time], ["bars", bars], ["treemap", treemap], ["waterfall", waterfall]]);

  // tables -------------------------------------------------------------------------------------------------------------

  // as many digits behind the point in a column as one of its values has, so that the points are below each other
  const formats = [0, 1, 2, 3].map(digits => new Intl.NumberFormat("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }));
  const digits = value => { const behind = figures.format(value).split(".")[1]; return behind ? behind.length : 0; };
  const isFigure = (value, column) => column.number && !column.id && typeof value === "number" && isFinite(value);
  function formatOf(column) {
    if (!column.format) {
      let most = 0;
      for (const value of column.values) {
        if (isFigure(value, column)) most = Math.max(most, digits(value));
        if (most === 3) break;
      }
      column.format = formats[most];
    }
    return column.format;
  }
  const shown = (value, column) => value === null ? "" : isFigure(value, column) ? formatOf(column).format(value) : String(value);
  function compared(one, other) {
    if (one === null || other === null) return (one === null) - (other === null);  // what has no value is last, either way
    if (typeof one === "number" && typeof other === "number") return one - other;
    return String(one) < String(other) ? -1 : String(one) > String(other) ? 1 : 0;
  }

  function table(parent, made) {
    const section = element(parent, "section"), tools = element(section, "div", undefined, "tools");
    element(tools, "h2", made.title);
    const search = element(tools, "input");
    search.type = "search"; search.placeholder = "Filter"; search.autocomplete = "off"; search.spellcheck = false;
    search.setAttribute("aria-label", `Filter ${made.title}`);
    const said = element(tools, "span");
    if (made.note) element(tools, "span", made.note, "note");
    const drawn = element(element(section, "div", undefined, "wide"), "table"), head = element(element(drawn, "thead"), "tr"), body = element(drawn, "tbody");
    const more = element(section, "button", "Show more", "more");
    more.type = "button";
    let order = [...Array(made.rows).keys()], by = -1, down = false, limit = STEP;
    const headings = made.columns.map((column, number) => {
      const cell = element(head, "th", undefined, column.number ? "n" : ""), button = element(cell, "button", column.name);
      button.type = "button";
      button.addEventListener("click", () => {
        down = by === number ? !down : column.number;
        by = number;
        draw();
      });
      return [cell, button];
    });
    const words = made.columns.map(column => column.values.map(value => shown(value, column).toLowerCase()));
    function draw() {
      const wanted = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      order = [...Array(made.rows).keys()].filter(row => wanted.every(word => words.some(column => column[row].includes(word))));
      if (by >= 0) {
        const values = made.columns[by].values;
        order.sort((one, other) => values[one] === null || values[other] === null ? compared(values[one], values[other]) : (down ? -1 : 1) * compared(values[one], values[other]));
      }
      headings.forEach(([cell, button], number) => {
        cell.setAttribute("aria-sort", number !== by ? "none" : down ? "descending" : "ascending");
        button.textContent = made.columns[number].name + (number !== by ? "" : down ? " ▾" : " ▴");
      });
      body.replaceChildren();
      for (const row of order.slice(0, limit)) {
        const line = element(body, "tr");
        for (const column of made.columns) {
          const value = shown(column.values[row], column), cell = element(line, "td", value.length > 300 ? undefined : value, column.number ? "n" : value.length > 30 || value.includes("\n") ? "t" : "s");
          if (value.length > 300) element(cell, "div", value);
        }
      }
      said.textContent = `${figures.format(order.length)} of ${figures.format(made.rows)} rows`;
      more.hidden = order.length <= limit;
    }
    search.addEventListener("input", () => { limit = STEP; draw(); });
    more.addEventListener("click", () => { limit += 5 * STEP; draw(); });
    draw();
  }

  // tabs ---------------------------------------------------------------------------------------------------------------

  let current = null;
  function draw() {
    for (const box of panel.querySelectorAll(".chart")) {
      box.replaceChildren();
      CHARTS.get(current.chart.kind)(box, current.chart);
    }
  }
  function open(number, moves) {
    current = data.tabs[number];
    tip.hidden = true;
    [...bar.children].forEach((button, at) => { button.setAttribute("aria-selected", String(at === number)); button.tabIndex = at === number ? 0 : -1; });
    if (moves) bar.children[number].focus();
    panel.replaceChildren();
    if (current.totals.length) {
      const list = element(panel, "dl", undefined, "totals");
      for (const one of current.totals) {
        const pair = element(list, "div");
        element(pair, "dt", one.name);
        element(pair, "dd", one.value);
      }
    }
    if (current.findings.length) {
      const list = element(panel, "ol", undefined, "findings");
      for (const one of current.findings) {
        const item = element(list, "li", one.text), at = data.tabs.findIndex(tab => tab.name === one.question);
        if (at >= 0) element(item, "button", one.question).addEventListener("click", () => open(at, true));
      }
    }
    if (current.facts.length) {
      const list = element(panel, "ul", undefined, "facts");
      for (const fact of current.facts) element(list, "li", fact);
    }
    if (current.flame) {
      const frame = element(panel, "iframe");
      frame.title = current.name;
      frame.srcdoc = current.flame;
    }
    if (current.chart) element(panel, "div", undefined, "chart").setAttribute("role", "group");
    draw();
    for (const one of current.tables) table(panel, one);
    if (!current.flame && !current.chart && !current.tables.length && !current.facts.length && !current.totals.length) element(panel, "p", "nothing");
    panel.dataset.name = current.name;
  }

  document.title = data.title;
  document.getElementById("title").textContent = data.title;
  if (data.when) element(document.getElementById("title"), "small", data.when);
  data.tabs.forEach((tab, number) => {
    const button = element(bar, "button", tab.name, tab.flame || tab.chart || tab.tables.length || tab.name === "advice" ? "" : "empty");
    button.type = "button";
    button.setAttribute("role", "tab");
    button.addEventListener("click", () => open(number, false));
  });
  bar.hidden = data.tabs.length < 2;
  bar.addEventListener("keydown", event => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (step) { event.preventDefault(); open((data.tabs.indexOf(current) + step + data.tabs.length) % data.tabs.length, true); }
  });
  let waiting = 0;
  addEventListener("resize", () => { cancelAnimationFrame(waiting); waiting = requestAnimationFrame(draw); });
  open(0, false);
})();
