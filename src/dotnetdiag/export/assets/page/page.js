"use strict";
// Draws the stacks of the page's data with d3-flame-graph. Names are only ever set as text.
(() => {
  const ROWS = 250; // levels drawn below the one that is zoomed to: the library walks over its tree recursively
  const LISTED = 10; // methods that a search lists
  const CALLERS = 12; // levels drawn above it
  const DRAWN = 8000; // boxes drawn at most
  const PIXELS = 0.6; // narrower boxes are not drawn
  const PARTS = 16; // narrow boxes are together for at most such a part of the time: a click shows more
  const ROW = 18;
  const LONGEST = 1500; // letters of a name in the tooltip
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);
  const isDiff = data.kind === "difference";

  // the tree: place 0 is the root; places are in the order of a walk, so parents come first ---
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

  // weights: rows of (node, key, value); a key is thread * states + state, of a difference 0 before and 1 after ---
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

  const thread = () => Number(byId("thread").value);
  const inState = (state) => chosen < 0 || state === chosen;

  // order of time: runs of equal stacks; those of thread i are first[i] to first[i + 1], their times in microseconds ---
  const runs = data.times && { first: [0], begin: [], end: [], node: data.times.node, state: data.times.state };
  if (runs) {
    data.times.runs.forEach((number, i) => {
      let time = 0;
      for (let k = runs.first[i]; k < runs.first[i] + number; k++) {
        runs.begin.push((time += data.times.gap[k]));
        runs.end.push((time += data.times.length[k]));
      }
      runs.first.push(runs.first[i] + number);
    });
  }

  let weights = null;
  let chosen = -1; // state
  let focus = 0; // place that is zoomed to
  let span = null; // when in order of time: {from, to, place} that is zoomed to
  let opened = []; // methods whose callers and callees were looked at, the last one is shown
  let hits = null;

  // texts ---
  const grouped = (value, digits) =>
    value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  const duration = (value) => (Math.abs(value) >= 10000 ? grouped(value / 1000, 2) + " s" : grouped(value, 2) + " ms");
  const amount = (value) =>
    data.unit === "ms" ? duration(value) : grouped(value, value === Math.round(value) ? 0 : 2) + " " + data.unit;
  const percent = (part, whole) => (whole ? ((100 * part) / whole).toFixed(2) : "0.00") + "%";
  const share = (value) => `${amount(value)}, ${percent(value, weights.total[0])}`;
  const cut = (name) => (name.length > LONGEST ? name.slice(0, LONGEST) + "…" : name);
  const nameOf = (method) => cut(data.names[method]);
  const timed = () => Boolean(runs) && byId("order").value === "0";

  // colours: hue, saturation and lightness in the light and in the dark; people who see fewer colours tell them apart ---
  const CODES = {
    program: ["the program", [38, 86, 52], [20, 79, 25]],
    framework: [".NET and its libraries", [213, 62, 73], [203, 74, 22]],
    runtime: ["the runtime and its JIT", [265, 70, 65], [276, 68, 40]],
    native: ["other native code, the system", [140, 80, 63], [152, 67, 28]],
    unknown: ["unknown: no name, no module", [0, 0, 86], [0, 0, 18]],
    group: ["no method", [60, 12, 74], [60, 10, 32]],
  };
  const HIT = [[326, 90, 52], [314, 73, 44]];
  const isDark = () => document.documentElement.dataset.theme === "dark";
  const hsl = ([hue, saturation, light]) => `hsl(${hue} ${saturation}% ${light.toFixed(1)}%)`;
  const codeColour = (code, shade) => {
    const [hue, saturation, light] = CODES[code][isDark() ? 2 : 1];
    return hsl([hue, saturation, light + 5 * (shade - 0.5)]);
  };
  const hash = (text) => {
    let made = 2166136261;
    for (let i = 0; i < text.length && i < 200; i++) made = Math.imul(made ^ text.charCodeAt(i), 16777619);
    return (made >>> 0) / 4294967296;
  };
  const shades = isDiff ? null : data.names.map(hash);
  const changed = (was, is) => {
    const strength = Math.min(1, Math.abs((is - was) / Math.max(is, was, 1e-12)));
    if (strength < 0.005) return hsl([0, 0, isDark() ? 32 : 88]);
    return hsl([is > was ? 4 : 215, Math.round(30 + 50 * strength), isDark() ? 30 + 18 * strength : 90 - 28 * strength]);
  };
  const colour = (item) => {
    if (item.method >= 0 && hits && hits[item.method]) return hsl(HIT[isDark() ? 1 : 0]);
    if (!(item.method >= 0)) return isDark() ? "#30363d" : "#d8dee4";
    if (!isDiff) return codeColour(data.codes[data.code[item.method]], shades[item.method]);
    return item.node ? changed(item.node.was, item.node.is) : changed(before.total[item.place], after.total[item.place]);
  };
  const legend = () => {
    const swatch = (fill, text) => {
      const box = document.createElement("span");
      box.className = "swatch";
      box.style.background = fill;
      return [box, text];
    };
    if (isDiff) return;
    const kinds = data.codes.filter((_, i) => data.code.includes(i));
    byId("legend").replaceChildren(
      ...kinds.flatMap((code) => swatch(codeColour(code, 0.5), CODES[code][0])),
      ...(hits ? swatch(hsl(HIT[isDark() ? 1 : 0]), "found") : [])
    );
  };

  // what is drawn: items for the library; ``method`` is -1 for the root, and missing where a box stands for something else --
  const item = (place) => ({
    place,
    method: frame[place],
    name: place ? data.labels[frame[place]] : data.root,
    value: weights.total[place],
    children: [],
  });
  const ordered = (top) => {
    const open = [top];
    while (open.length) {
      const one = open.pop();
      one.children.sort((a, b) => b.value - a.value);
      open.push(...one.children);
    }
    return top;
  };
  const levels = (top) => {
    let rows = [top];
    let number = 0;
    for (; rows.length; number++) rows = rows.flatMap((one) => one.children);
    return number;
  };
  const fitting = (make, whole, width) => {
    let narrowest = (whole * PIXELS) / width;
    let made = make(narrowest);
    while (!made) made = make((narrowest = 2 * narrowest || 1e-9));
    return made;
  };

  // all calls with the same stack together ---
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
        above.children.push({ place: i, name: `… ${lowest - depth[i] + 1} more levels`, value: weights.total[i], children: [] });
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
  const merged = (width) => {
    const made = fitting(below, weights.total[focus], width);
    let top = ordered(made.top);
    let place = parent[focus];
    for (let shown = 0; place >= 0; shown++) {
      if (place && shown >= CALLERS) {
        const name = `… ${grouped(depth[place], 0)} more callers`;
        // a click goes up as far as what is zoomed to now is still drawn
        for (let k = ROWS - 2 * CALLERS; k > 0 && parent[place] > 0; k--) place = parent[place];
        top = { place, fade: true, name, value: top.value, children: [top] };
        place = 0;
      }
      top = { ...item(place), fade: true, value: top.value, children: [top] };
      place = parent[place];
    }
    return { top, left: made.left };
  };

  // one thread in order of time ---
  const busiest = () => threadWeights().reduce((most, value, i, all) => (value > all[most] ? i : most), 0);
  const timeline = (width) => {
    const [first, last] = [runs.first[thread()], runs.first[thread() + 1]];
    const rows = [];
    for (let i = first; i < last; i++) if (inState(runs.state[i])) rows.push(i);
    const whole = rows.length ? [runs.begin[rows[0]], runs.end[rows[rows.length - 1]]] : [0, 0];
    const [from, to] = span ? [span.from, span.to] : whole;
    const hidden = span ? Math.max(0, depth[span.place] - CALLERS) : 0; // they are as wide as what is zoomed to
    const make = (narrowest) => {
      const top = { method: -1, place: 0, name: data.threads[thread()], from, to, value: to - from, inside: 0, children: [] };
      const line = [top];
      const left = { narrow: 0, deep: 0 };
      let drawn = 1;
      let open = 0;
      let time = from;
      const close = (level) => {
        for (; open > level; open--) {
          const [above, box] = [line[open - 1], line[open]];
          const elder = above.children.at(-1);
          box.to = time;
          box.value = time - box.from;
          const isWide = box.value >= narrowest;
          if (!isWide) drawn -= box.inside;
          if (!isWide && elder?.boxes && box.from - elder.to < narrowest && elder.value < (to - from) / PARTS) {
            elder.to = time;
            elder.value = time - elder.from;
            elder.boxes += 1;
            continue;
          }
          const gap = box.from - (elder || { to: above.from }).to;
          if (gap > 0) above.children.push({ gap: true, to: box.from, value: gap, children: [] });
          above.children.push(isWide ? box : { ...box, boxes: 1, method: undefined, name: "…", place: above.place, children: [] });
          drawn += 1;
          above.inside += isWide ? box.inside + 1 : 1;
        }
      };
      const chain = [];
      for (const i of rows) {
        if (runs.end[i] <= from) continue;
        if (runs.begin[i] >= to) break;
        const begin = Math.max(runs.begin[i], from);
        if (begin > time) close(0);
        const place = runs.node[i];
        const lowest = Math.max(0, Math.min(depth[place] - hidden, ROWS));
        left.deep = Math.max(left.deep, depth[place] - hidden - ROWS);
        for (let k = place, level = depth[place] - hidden; level > 0; k = parent[k], level--) chain[level] = k;
        let same = 0;
        while (same < open && same < lowest && line[same + 1].place === chain[same + 1]) same += 1;
        time = begin;
        close(same);
        for (open = same; open < lowest; ) {
          open += 1;
          line[open] = { ...item(chain[open]), from: begin, inside: 0 };
        }
        time = Math.min(runs.end[i], to);
        if (drawn > DRAWN) return null;
      }
      close(0);
      return drawn > DRAWN ? null : { top, left };
    };
    return fitting(make, to - from, width);
  };

  // callers and callees of a method: a stack counts once, however often the method is in it ---
  const outermost = (method) => {
    const found = [];
    for (let i = 1; i < count; ) {
      if (frame[i] === method) {
        if (weights.total[i] > 0) found.push(i);
        i = end[i];
      } else i += 1;
    }
    return found;
  };
  const branch = (method) => ({ method, own: 0, total: 0, was: 0, is: 0, deep: 0, kids: new Map() });
  const kid = (node, method) => {
    let found = node.kids.get(method);
    if (!found) node.kids.set(method, (found = branch(method)));
    return found;
  };
  const add = (node, place) => {
    node.own += weights.own[place];
    node.total += weights.total[place];
    if (isDiff) {
      node.was += before.total[place];
      node.is += after.total[place];
    }
  };
  const callersOf = (method, places) => {
    const root = branch(method);
    for (const place of places) {
      add(root, place);
      let node = root;
      for (let up = parent[place], level = 1; up > 0 && level <= ROWS; up = parent[up], level++) {
        node = kid(node, frame[up]);
        add(node, place);
      }
      root.deep = Math.max(root.deep, depth[place] - 1 - ROWS);
    }
    return root;
  };
  const calleesOf = (method, places) => {
    const root = branch(method);
    for (const place of places) {
      const line = [root];
      add(root, place);
      for (let i = place + 1; i < end[place]; ) {
        const level = depth[i] - depth[place];
        if (!(weights.total[i] > 0)) i = end[i];
        else if (level > ROWS) {
          root.deep = Math.max(root.deep, level - ROWS);
          i += 1;
        } else {
          line[level] = kid(line[level - 1], frame[i]);
          add(line[level], i);
          i += 1;
        }
      }
    }
    return root;
  };
  const shaped = (root, width, isCallers) => {
    const boxOf = (node) => ({
      node,
      isCaller: isCallers && node !== root,
      hasOwn: !isCallers && node !== root,
      method: node.method,
      name: data.labels[node.method],
      value: node.total,
      children: [],
    });
    const make = (narrowest) => {
      const top = boxOf(root);
      const left = { narrow: 0, deep: root.deep };
      const open = [top];
      for (let drawn = 1; open.length; ) {
        const one = open.pop();
        for (const node of one.node.kids.values()) {
          if (node.total < narrowest) {
            left.narrow += 1;
            continue;
          }
          const box = boxOf(node);
          one.children.push(box);
          open.push(box);
          if ((drawn += 1) > DRAWN) return null;
        }
      }
      return { top, left };
    };
    const made = fitting(make, root.total, width);
    ordered(made.top);
    return made;
  };
  const ofMethods = () => {
    const [own, total] = [new Float64Array(data.names.length), new Float64Array(data.names.length)];
    const until = new Int32Array(data.names.length); // the end of the outermost call
    for (let i = 1; i < count; i++) {
      const method = frame[i];
      own[method] += weights.own[i];
      if (i < until[method]) continue;
      total[method] += weights.total[i];
      until[method] = end[i];
    }
    return { own, total };
  };

  // drawing ---
  const shown = {}; // by id of a chart: its boxes by item of the library
  const render = (id, top, width, isInverted, start) => {
    const chart = flamegraph()
      .width(width)
      .height(levels(top) * ROW)
      .cellHeight(ROW)
      .inverted(isInverted)
      .transitionDuration(0)
      .minFrameSize(0)
      .tooltip(tip)
      .setDetailsHandler(() => {})
      .setLabelHandler(() => "")
      .setColorMapper((d) => colour(d.data));
    d3.select(byId(id)).datum(top).call(chart);
    shown[id] = new Map();
    // boxes and labels are there at once: the library would let them grow, for as long as it likes, and in the end make narrow ones too narrow again
    for (const one of document.querySelectorAll(`#${id} svg *`)) {
      for (const change of Object.values(one.__transition || {})) change.timer.stop();
      delete one.__transition;
    }
    for (const box of document.querySelectorAll(`#${id} g.frame`)) {
      const d = d3.select(box).datum();
      const wide = Math.max(box.getAttribute("width"), d.data.boxes ? 1 : 0);
      if (d.parent && (d.data.gap || wide < PIXELS)) {
        box.remove();
        continue;
      }
      box.querySelector("rect").setAttribute("width", wide);
      box.querySelector(".d3-flame-graph-label").textContent = box.getAttribute("name");
      shown[id].set(d, box);
      if (d.data === start) aim(id, box);
    }
  };
  const draw = () => {
    const width = Math.max(320, document.documentElement.clientWidth - 24);
    const focused = document.activeElement?.closest("#charts");
    const method = opened[opened.length - 1];
    const isSandwich = method !== undefined;
    const notes = [];
    hideTip();
    byId("sandwich").hidden = !isSandwich;
    byId("chart").hidden = isSandwich;
    for (const one of document.querySelectorAll(".chart")) one.replaceChildren();
    const left = isSandwich ? drawSandwich(method, width) : drawChart(width);
    if (left.deep) notes.push(`${grouped(left.deep, 0)} more levels are not drawn: click the last box to go on.`);
    if (left.narrow) notes.push(`${grouped(left.narrow, 0)} stacks are too narrow to draw: click a box to zoom in.`);
    if (hasStates && !ran && chosen < 0) notes.push("Nothing ran while it was recorded: all states are shown.");
    if (!(weights.total[0] > 0)) notes.push(chosen < 0 ? "There is nothing to show." : "There is nothing to show in this state.");
    if (chosen >= 0 && data.hints[chosen]) notes.push(`${data.states[chosen]}: ${data.hints[chosen]}.`);
    byId("note").textContent = notes.join(" ");
    byId("reset").disabled = isSandwich || !(focus || span);
    byId("callers-of").disabled = isSandwich || !(zoomed() >= 0);
    legend();
    say();
    if (focused) (isSandwich ? byId("callees") : byId("chart")).querySelector("g[tabindex='0']").focus();
  };
  const drawChart = (width) => {
    const made = timed() ? timeline(width) : merged(width);
    let start = made.top;
    while (start.fade) start = start.children[0];
    render("chart", made.top, width, true, start);
    return made.left;
  };
  const drawSandwich = (method, width) => {
    const places = outermost(method);
    const callers = shaped(callersOf(method, places), width, true);
    const callees = shaped(calleesOf(method, places), width, false);
    byId("method").textContent = nameOf(method);
    let own = 0;
    for (let i = 1; i < count; i++) if (frame[i] === method) own += weights.own[i];
    byId("weight").textContent = `with what it called: ${share(callees.top.value)}  ·  itself: ${share(own)}`;
    render("callers", callers.top, width, false, callers.top);
    render("callees", callees.top, width, true, callees.top);
    return { narrow: callers.left.narrow + callees.left.narrow, deep: Math.max(callers.left.deep, callees.left.deep) };
  };
  const zoomed = () => (timed() ? (span && span.method >= 0 ? span.method : -1) : frame[focus]);
  const show = () => {
    draw();
    scrollTo(0, 0); // where the box is now
  };
  const zoom = (d) => {
    if (timed()) span = d && d.method !== -1 ? { from: d.from, to: d.to, place: d.place, method: d.method } : null;
    else focus = d ? d.place : 0;
    show();
  };
  const sandwich = (method) => {
    opened.push(method);
    show();
    byId("back").focus({ focusVisible: false });
  };
  const back = () => {
    opened.pop();
    show();
  };
  const act = (box, wantsSandwich) => {
    const d = d3.select(box).datum().data;
    if (byId("sandwich").hidden && !(wantsSandwich && d.method >= 0)) zoom(d);
    else if (d.method >= 0 && d.method !== opened[opened.length - 1]) sandwich(d.method);
  };
  const say = () => {
    const parts = [];
    if (!opened.length && timed()) parts.push(lines(shown.chart.keys().next().value.data).join(": "));
    else if (!opened.length && focus) parts.push(`${nameOf(frame[focus])}: ${share(weights.total[focus])}`);
    byId("found").replaceChildren();
    if (hits) {
      const from = timed() ? 0 : focus;
      let matched = 0;
      for (let i = Math.max(from, 1); i < end[from]; ) {
        if (hits[frame[i]]) {
          matched += weights.total[i];
          i = end[i];
        } else i += 1;
      }
      const methods = [...hits.keys()].filter((i) => hits[i]);
      const text = methods.length === 1 ? "1 method matches" : `${grouped(methods.length, 0)} methods match`;
      parts.push(`${text}: ${amount(matched)}, ${percent(matched, weights.total[from])}`);
      list(methods);
    }
    byId("said").textContent = parts.join("  ·  ");
  };
  const list = (methods) => {
    const { total, own } = ofMethods();
    methods = methods.filter((i) => total[i] > 0).sort((a, b) => total[b] - total[a]);
    for (const method of methods.slice(0, LISTED)) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = `${percent(total[method], weights.total[0])}  ${nameOf(method)}`;
      button.title = `callers and callees; with what it called: ${share(total[method])}; itself: ${share(own[method])}`;
      button.addEventListener("click", () => sandwich(method));
      const line = document.createElement("li");
      line.append(button);
      byId("found").append(line);
    }
  };

  // the tooltip ---
  let mouse = [0, 0];
  const lines = (d) => {
    if (d.boxes) return [`${grouped(d.boxes, 0)} boxes too narrow to draw: ${duration((d.to - d.from) / 1000)}`];
    if (d.method === undefined) return [d.name];
    const made = [d.method < 0 ? d.name : nameOf(d.method)];
    if (d.from !== undefined) {
      return [...made, `${duration(d.from / 1000)} to ${duration(d.to / 1000)}`, duration((d.to - d.from) / 1000)];
    }
    const [label, place, node] = [d.isCaller ? "in these calls" : "with what it called", d.place, d.node];
    if (isDiff) {
      const compared = (what, was, is) => {
        const relative = was ? ` (${is >= was ? "+" : ""}${((100 * (is - was)) / was).toFixed(1)}%)` : is ? " (new)" : "";
        made.push(`${what}: ${amount(was)} → ${amount(is)}${relative}`);
      };
      if (node) compared(label, node.was, node.is);
      else {
        compared(label, before.total[place], after.total[place]);
        compared("itself", before.own[place], after.own[place]);
      }
      return made;
    }
    made.push(`${label}: ${share(node ? node.total : weights.total[place])}`);
    if (!node || d.hasOwn) made.push(`itself: ${share(node ? node.own : weights.own[place])}`);
    if (focus && !node) made.push(`${percent(weights.total[place], weights.total[focus])} of what is zoomed to`);
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
    const texts = lines(d.data);
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

  // boxes by mouse and keyboard: the library's own clicks are not used ---
  const aim = (id, box) => {
    const last = byId(id).querySelector("g[tabindex='0']");
    if (last) last.setAttribute("tabindex", "-1");
    box.setAttribute("tabindex", "0");
    box.setAttribute("role", "button");
    box.setAttribute("aria-label", lines(d3.select(box).datum().data).join("; "));
  };
  const beside = (d, step, boxes) => {
    const all = [...boxes.keys()].filter((one) => one.depth === d.depth).sort((a, b) => a.x0 - b.x0);
    return all[all.indexOf(d) + step];
  };
  const moved = (box, key) => {
    const id = box.closest(".chart").id;
    const [d, boxes] = [d3.select(box).datum(), shown[id]];
    const inwards = id === "callers" ? "ArrowUp" : "ArrowDown";
    if (key === "ArrowLeft" || key === "ArrowRight") return boxes.get(beside(d, key === "ArrowLeft" ? -1 : 1, boxes));
    return boxes.get(key === inwards ? (d.children || []).find((one) => boxes.has(one)) : d.parent);
  };
  byId("charts").addEventListener(
    "click",
    (event) => {
      const box = event.target.closest("g.frame");
      if (!box) return;
      event.stopPropagation();
      act(box, event.shiftKey);
    },
    true
  );
  byId("charts").addEventListener("keydown", (event) => {
    const box = event.target.closest("g.frame");
    if (!box || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter" || event.key === " ") act(box, event.shiftKey);
    else if (event.key === "s" || event.key === "S") act(box, true);
    else if (event.key.startsWith("Arrow")) {
      const next = moved(box, event.key);
      if (next) {
        aim(next.closest(".chart").id, next);
        next.focus();
      }
    } else return;
    event.preventDefault();
  });
  byId("charts").addEventListener("focusin", (event) => {
    const box = event.target.closest("g.frame");
    if (!box || !box.matches(":focus-visible")) return;
    const edges = box.getBoundingClientRect();
    mouse = [Math.max(0, edges.left), edges.bottom];
    tip.show(d3.select(box).datum());
  });
  byId("charts").addEventListener("focusout", hideTip);

  // controls ---
  const options = (id, texts) =>
    byId(id).replaceChildren(
      ...texts.map((text, i) => {
        const one = document.createElement("option");
        one.value = String(i - 1);
        one.textContent = text;
        return one;
      })
    );
  const shares = (size, wanted, index) => {
    const made = new Float64Array(size);
    data.rows.value.forEach((value, row) => {
      const key = data.rows.key[row];
      if (wanted(key)) made[index(key)] += value * data.scale;
    });
    return made;
  };
  const threadOf = (key) => Math.floor(key / states);
  const threadWeights = () => shares(data.threads.length, (key) => inState(key % states), threadOf);
  const weigh = () => {
    if (isDiff) {
      weights = byId("width").value === "-1" ? after : before;
      return;
    }
    if (timed() && thread() < 0) byId("thread").value = String(busiest());
    const wanted = thread();
    weights = sums((key) => (wanted < 0 || threadOf(key) === wanted) && inState(key % states));
    const each = threadWeights();
    const all = each.reduce((sum, value) => sum + value, 0);
    options("thread", ["all threads", ...data.threads.map((name, i) => `${name}  ${percent(each[i], all)}`)]);
    byId("thread").options[0].disabled = timed();
    byId("thread").value = String(wanted);
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
  const changeView = () => {
    span = null;
    weigh();
    if (!(weights.total[focus] > 0)) focus = 0;
    draw();
  };

  const byState = isDiff ? [] : shares(states, () => true, (key) => key % states);
  const running = data.states.indexOf("running");
  const ran = byState[running] > 0;
  const hasStates = data.states.some((name) => name !== "no state");
  if (isDiff) options("width", ["after", "before"]);
  else {
    options("thread", ["all threads", ...data.threads]);
    options("order", ["most first", "in time"]);
    chosen = ran ? running : -1;
    const all = byState.reduce((sum, value) => sum + value, 0);
    const picker = (name, state, value) => {
      const label = document.createElement("label");
      const radio = document.createElement("input");
      Object.assign(radio, { type: "radio", name: "state", value: String(state), checked: state === chosen, autocomplete: "off" });
      radio.addEventListener("change", () => {
        chosen = state;
        changeView();
      });
      label.append(radio, ` ${name}  ${percent(value, all)}`);
      if (state >= 0) label.title = data.hints[state];
      byId("state").append(label);
    };
    data.states.forEach((name, i) => picker(name, i, byState[i]));
    picker("all", -1, all);
  }
  away(".only-diff", !isDiff);
  away(".only-profile", isDiff);
  away(".only-states", !hasStates);
  away(".only-times", !runs);
  document.title = data.title;
  byId("title").textContent = data.title;
  byId("title").title = data.title;
  byId("facts").textContent = [...data.facts, `${grouped(count - 1, 0)} call paths, ${grouped(deepest, 0)} levels`].join("  ·  ");
  for (const id of ["thread", "order", "width"]) byId(id).addEventListener("change", changeView);
  let waiting = 0;
  byId("search").addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(search, 120);
  });
  byId("reset").addEventListener("click", () => zoom(null));
  byId("back").addEventListener("click", back);
  byId("callers-of").addEventListener("click", () => sandwich(zoomed()));
  byId("theme").addEventListener("click", () => {
    theme(isDark() ? "light" : "dark");
    draw();
  });
  addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== byId("search")) {
      event.preventDefault();
      byId("search").focus();
    } else if (event.key === "Escape") {
      if (opened.length) back();
      else if (byId("search").value) {
        byId("search").value = "";
        search();
      } else zoom(null);
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
