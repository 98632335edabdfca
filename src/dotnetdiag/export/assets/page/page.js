"use strict";
// Draws the stacks of the page's data with d3-flame-graph. Names are only ever set as text.
(() => {
  const ROWS = 250; // levels drawn below the one that is zoomed to: the library walks over its tree recursively
  const CALLERS = 12; // levels drawn above it
  const DRAWN = 8000; // boxes drawn at most
  const PIXELS = 0.6; // narrower boxes are not drawn
  const ROW = 18;
  const LONGEST = 1500; // letters of a name in the tooltip
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);
  const isDiff = data.kind === "difference";

  // the tree: place 0 is the root; places are in the order of a walk, so parents come first ---------------------------
  const count = data.frame.length + 1;
  const frame = new Int32Array(count);
  const parent = new Int32Array(count);
  const depth = new Int32Array(count);
  const end = new Int32Array(count);
  frame[0] = parent[0] = -1;
  for (let i = 1, at = 0; i < count; i++) {
    for (let up = data.up[i - 1]; up > 0; up--) at = parent[at];
    frame[i] = data.frame[i - 1];
    parent[i] = at;
    depth[i] = depth[at] + 1;
    at = i;
  }
  for (let i = count - 1; i >= 0; i--) {
    if (!end[i]) end[i] = i + 1;
    if (i && end[parent[i]] < end[i]) end[parent[i]] = end[i];
  }
  const deepest = depth.reduce((most, one) => Math.max(most, one), 0);

  // weights: rows of (node, key, value); a key is thread * states + state, of a difference 0 before and 1 after -------
  const states = data.states.length;
  const sums = (wanted) => {
    const own = new Float64Array(count);
    for (let row = 0, node = 0; row < data.rows.value.length; row++) {
      node += data.rows.node[row];
      if (wanted(data.rows.key[row])) own[node] += data.rows.value[row] * data.scale;
    }
    const total = Float64Array.from(own);
    for (let i = count - 1; i > 0; i--) total[parent[i]] += total[i];
    return { own, total };
  };
  const before = isDiff ? sums((key) => key === 0) : null;
  const after = isDiff ? sums((key) => key === 1) : null;

  let weights = null;
  let focus = 0;
  let hits = null;
  let chart = null;

  // texts -------------------------------------------------------------------------------------------------------------
  const grouped = (value, digits) =>
    value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  const amount = (value) => {
    if (data.unit === "ms") return Math.abs(value) >= 10000 ? grouped(value / 1000, 2) + " s" : grouped(value, 2) + " ms";
    return grouped(value, value === Math.round(value) ? 0 : 2) + " " + data.unit;
  };
  const percent = (part, whole) => (whole ? ((100 * part) / whole).toFixed(2) : "0.00") + "%";
  const nameOf = (place) => (place ? data.names[frame[place]] : data.root);

  // colours -----------------------------------------------------------------------------------------------------------
  const isDark = () => document.documentElement.dataset.theme === "dark";
  const hash = (text) => {
    let made = 2166136261;
    for (let i = 0; i < text.length && i < 200; i++) made = Math.imul(made ^ text.charCodeAt(i), 16777619);
    return (made >>> 0) / 4294967296;
  };
  const colours = data.names.map((name, i) => {
    const module = data.modules[data.module[i]];
    // warm: the program, a colour per module; cold: what comes with .NET; grey: what is in no module
    if (!module) return null;
    const hue = data.framework[data.module[i]] ? 195 + 25 * hash(module) : 6 + 46 * hash(module);
    return { hue: Math.round(hue), shade: hash(name), strong: data.framework[data.module[i]] ? 0.5 : 1 };
  });
  const changed = (place) => {
    const delta = after.total[place] - before.total[place];
    const share = delta / Math.max(after.total[place], before.total[place], 1e-12);
    const strength = Math.min(1, Math.abs(share));
    if (strength < 0.005) return isDark() ? "hsl(0 0% 32%)" : "hsl(0 0% 88%)";
    const light = isDark() ? 30 + 18 * strength : 90 - 28 * strength;
    return `hsl(${delta > 0 ? 4 : 215} ${Math.round(30 + 50 * strength)}% ${light.toFixed(1)}%)`;
  };
  const colour = (item) => {
    if (item.hit) return isDark() ? "#b130d6" : "#e879f9";
    if (item.more || item.place === 0) return isDark() ? "#30363d" : "#d8dee4";
    if (isDiff) return changed(item.place);
    const one = colours[frame[item.place]];
    if (!one) return isDark() ? "#3d444d" : "#c9d1d9";
    const light = isDark() ? 27 + 12 * one.shade : 64 + 16 * one.shade;
    return `hsl(${one.hue} ${Math.round((isDark() ? 50 : 84) * one.strong)}% ${light.toFixed(1)}%)`;
  };

  // what is drawn -----------------------------------------------------------------------------------------------------
  const item = (place) => ({
    place,
    name: place ? data.labels[frame[place]] : data.root,
    value: weights.total[place],
    hit: Boolean(hits && place && hits[frame[place]]),
    children: [],
  });
  const below = (narrowest) => {
    const top = item(focus);
    const line = [top];
    const left = { narrow: 0, deep: 0 };
    let drawn = 1;
    for (let i = focus + 1; i < end[focus]; ) {
      const level = depth[i] - depth[focus];
      const above = line[level - 1];
      if (weights.total[i] <= 0 || weights.total[i] < narrowest) {
        if (weights.total[i] > 0) left.narrow += 1;
        i = end[i];
      } else if (level > ROWS) {
        let lowest = 0;
        for (let k = i; k < end[i]; k++) lowest = Math.max(lowest, depth[k]);
        left.deep = Math.max(left.deep, lowest - depth[focus] - ROWS);
        above.children.push({
          place: i, more: true, name: `… ${lowest - depth[i] + 1} more levels`, value: weights.total[i], children: [],
        });
        drawn += 1;
        i = end[i];
      } else {
        const one = item(i);
        above.children.push(one);
        line[level] = one;
        drawn += 1;
        i += 1;
      }
      if (drawn > DRAWN) return null;
    }
    return { top, left };
  };
  const ordered = (top) => {
    const open = [top];
    while (open.length) {
      const one = open.pop();
      one.children.sort((a, b) => b.value - a.value);
      open.push(...one.children);
    }
  };
  const tree = (width) => {
    let narrowest = (weights.total[focus] * PIXELS) / width;
    let made = below(narrowest);
    while (!made) made = below((narrowest = 2 * narrowest || 1e-9));
    ordered(made.top);
    let top = made.top;
    let place = parent[focus];
    for (let shown = 0; place >= 0; shown++) {
      if (place && shown >= CALLERS) {
        const name = `… ${grouped(depth[place], 0)} more callers`;
        // a click goes up as far as what is zoomed to now is still drawn
        for (let k = ROWS - 2 * CALLERS; k > 0 && parent[place] > 0; k--) place = parent[place];
        top = { place, more: true, fade: true, name, value: top.value, children: [top] };
        place = 0;
      }
      top = { ...item(place), fade: true, value: top.value, children: [top] };
      place = parent[place];
    }
    return { top, left: made.left };
  };

  const draw = () => {
    const width = Math.max(320, document.documentElement.clientWidth - 24);
    hideTip();
    if (chart) chart.destroy();
    byId("chart").replaceChildren();
    const made = tree(width);
    chart = flamegraph()
      .width(width)
      .cellHeight(ROW)
      .inverted(true)
      .transitionDuration(0)
      .minFrameSize(0)
      .tooltip(tip)
      .setDetailsHandler(() => {})
      .setLabelHandler(() => "")
      .setColorMapper((d) => colour(d.data))
      .onClick((d) => zoom(d.data.place));
    d3.select("#chart").datum(made.top).call(chart);
    // boxes and labels are there at once: the library would let them grow, for as long as it likes
    for (const box of document.querySelectorAll("#chart g.frame")) {
      box.querySelector("rect").setAttribute("width", box.getAttribute("width"));
      box.querySelector(".d3-flame-graph-label").textContent = box.getAttribute("name");
    }
    const notes = [];
    if (made.left.deep) notes.push(`${grouped(made.left.deep, 0)} more levels are not drawn: click the lowest box to go deeper.`);
    if (made.left.narrow) notes.push(`${grouped(made.left.narrow, 0)} stacks are too narrow to draw: click a box to zoom in.`);
    if (!(weights.total[0] > 0)) notes.push("There is nothing to show.");
    byId("note").textContent = notes.join(" ");
    byId("reset").disabled = focus === 0;
    say();
  };
  const zoom = (place) => {
    focus = place;
    setTimeout(() => {
      draw();
      scrollTo(0, 0); // where the box is now
    }, 0); // after the library is done with the click
  };
  const say = () => {
    const parts = [];
    if (focus) parts.push(`${nameOf(focus).slice(0, LONGEST)}: ${amount(weights.total[focus])}, ${percent(weights.total[focus], weights.total[0])}`);
    if (hits) {
      let matched = 0;
      for (let i = Math.max(focus, 1); i < end[focus]; ) {
        if (hits[frame[i]]) {
          matched += weights.total[i];
          i = end[i];
        } else i += 1;
      }
      const methods = hits.reduce((most, one) => most + one, 0);
      parts.push(`${grouped(methods, 0)} methods match: ${amount(matched)}, ${percent(matched, weights.total[focus])}`);
    }
    byId("said").textContent = parts.join("  ·  ");
  };

  // the tooltip -------------------------------------------------------------------------------------------------------
  let mouse = [0, 0];
  const lines = (place) => {
    const name = nameOf(place);
    const made = [name.length > LONGEST ? name.slice(0, LONGEST) + "…" : name];
    if (isDiff) {
      for (const [label, own] of [["with what it called", "total"], ["itself", "own"]]) {
        const [was, is] = [before[own][place], after[own][place]];
        const relative = was ? ` (${is >= was ? "+" : ""}${((100 * (is - was)) / was).toFixed(1)}%)` : is ? " (new)" : "";
        made.push(`${label}: ${amount(was)} → ${amount(is)}${relative}`);
      }
      return made;
    }
    const [own, total] = [weights.own[place], weights.total[place]];
    made.push(`with what it called: ${amount(total)}, ${percent(total, weights.total[0])}`);
    made.push(`itself: ${amount(own)}, ${percent(own, weights.total[0])}`);
    if (focus) made.push(`${percent(total, weights.total[focus])} of what is zoomed to`);
    return made;
  };
  const hideTip = () => {
    byId("tip").hidden = true;
  };
  const placeTip = () => {
    const box = byId("tip");
    const left = Math.min(mouse[0] + 12, innerWidth - box.offsetWidth - 4);
    const over = mouse[1] + 16 + box.offsetHeight > innerHeight;
    box.style.left = Math.max(4, left) + "px";
    box.style.top = Math.max(4, over ? mouse[1] - box.offsetHeight - 8 : mouse[1] + 16) + "px";
  };
  const tip = () => {};
  tip.show = (d) => {
    const texts = d.data.more ? [d.data.name] : lines(d.data.place);
    byId("tip").replaceChildren(
      ...texts.map((text) => {
        const line = document.createElement("div");
        line.textContent = text;
        return line;
      })
    );
    byId("tip").hidden = false;
    placeTip();
  };
  tip.hide = hideTip;
  tip.destroy = hideTip;
  addEventListener("mousemove", (event) => {
    mouse = [event.clientX, event.clientY];
    if (!byId("tip").hidden) placeTip();
  });

  // controls ----------------------------------------------------------------------------------------------------------
  const options = (id, texts) =>
    byId(id).replaceChildren(
      ...texts.map((text, i) => {
        const one = document.createElement("option");
        one.value = String(i - 1);
        one.textContent = text;
        return one;
      })
    );
  const weigh = () => {
    if (isDiff) {
      weights = byId("width").value === "-1" ? after : before;
      return;
    }
    const thread = Number(byId("thread").value);
    const state = Number(byId("state").value);
    weights = sums((key) => (thread < 0 || Math.floor(key / states) === thread) && (state < 0 || key % states === state));
  };
  const search = () => {
    const text = byId("search").value;
    hits = null;
    byId("search").setCustomValidity("");
    if (text) {
      let match = (name) => name.toLowerCase().includes(text.toLowerCase());
      if (text.length > 2 && text.startsWith("/") && text.endsWith("/")) {
        try {
          const expression = new RegExp(text.slice(1, -1), "i");
          match = (name) => expression.test(name);
        } catch (error) {
          byId("search").setCustomValidity(String(error.message));
        }
      }
      hits = Uint8Array.from(data.names, (name) => (match(name) ? 1 : 0));
    }
    draw();
    byId("chart").dataset.searched = text;
  };
  const theme = (name) => {
    document.documentElement.dataset.theme = name;
    byId("theme").textContent = name === "dark" ? "Light" : "Dark";
  };
  const away = (selector, when) => document.querySelectorAll(selector).forEach((one) => one.classList.toggle("away", when));

  const share = (wanted) => {
    let made = 0;
    data.rows.value.forEach((value, row) => {
      if (wanted(data.rows.key[row])) made += value * data.scale;
    });
    return made;
  };
  if (isDiff) options("width", ["after", "before"]);
  else {
    const all = share(() => true);
    const threads = new Float64Array(data.threads.length);
    const byState = new Float64Array(states);
    data.rows.value.forEach((value, row) => {
      threads[Math.floor(data.rows.key[row] / states)] += value * data.scale;
      byState[data.rows.key[row] % states] += value * data.scale;
    });
    options("thread", ["all threads", ...data.threads.map((name, i) => `${name}  ${percent(threads[i], all)}`)]);
    options("state", ["all", ...data.states.map((name, i) => `${name}  ${percent(byState[i], all)}`)]);
  }
  away(".only-diff", !isDiff);
  away(".only-profile", isDiff);
  away(".only-states", isDiff || states < 2);
  document.title = data.title;
  byId("title").textContent = data.title;
  byId("title").title = data.title;
  byId("facts").textContent = [...data.facts, `${grouped(count - 1, 0)} call paths, ${grouped(deepest, 0)} levels`].join("  ·  ");
  for (const id of ["thread", "state", "width"]) {
    byId(id).addEventListener("change", () => {
      weigh();
      if (!(weights.total[focus] > 0)) focus = 0;
      draw();
    });
  }
  let waiting = 0;
  byId("search").addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(search, 120);
  });
  byId("reset").addEventListener("click", () => zoom(0));
  byId("theme").addEventListener("click", () => {
    theme(isDark() ? "light" : "dark");
    draw();
  });
  addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== byId("search")) {
      event.preventDefault();
      byId("search").focus();
    } else if (event.key === "Escape") {
      if (byId("search").value) {
        byId("search").value = "";
        search();
      } else zoom(0);
    }
  });
  let resizing = 0;
  addEventListener("resize", () => {
    clearTimeout(resizing);
    resizing = setTimeout(draw, 150);
  });
  const prefers = matchMedia("(prefers-color-scheme: dark)");
  theme(prefers.matches ? "dark" : "light");
  prefers.addEventListener("change", () => {
    theme(prefers.matches ? "dark" : "light");
    draw();
  });
  weigh();
  draw();
})();
