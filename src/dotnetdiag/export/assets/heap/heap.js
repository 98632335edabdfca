"use strict";
// Draws what keeps what alive as an icicle, lists types, and shows why they are alive. Names are only ever set as text.
(() => {
  const ROW = 20; // height of a level
  const LEVELS = 40; // drawn below the box that is zoomed to
  const PIXELS = 1; // narrower boxes are not drawn
  const DRAWN = 6000; // boxes drawn at most
  const LISTED = 200; // types of the table
  const LONGEST = 1500; // letters of a name
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);
  const number = (value) => value.toLocaleString("en-US");
  const counted = (value, one, many) => `${number(value)} ${value === 1 ? one : many}`;
  const name = (type) => data.types.name[type].slice(0, LONGEST);

  // the tree: places are in the order of a walk, so parents come first
  const count = data.tree.type.length;
  const below = Array.from({ length: count }, () => []);
  const tops = [];
  for (let i = 0; i < count; i++) (data.tree.parent[i] < 0 ? tops : below[data.tree.parent[i]]).push(i);

  const make = (tag, text, kind) => {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (kind) made.className = kind;
    return made;
  };
  const colour = (type) => {
    const text = data.types.name[type];
    if (data.types.pseudo[type]) return "hsl(210 12% 78%)";
    let hash = 7;
    const group = text.split(/[.<[]/)[0];
    for (let i = 0; i < group.length && i < 40; i++) hash = (hash * 31 + group.charCodeAt(i)) | 0;
    return `hsl(${(Math.abs(hash) % 320) + 20} 65% 72%)`;
  };
  const told = (i) =>
    `${name(data.tree.type[i])}: ${counted(data.tree.count[i], "object", "objects")}, ${counted(data.tree.bytes[i], "byte", "bytes")}, ` +
    `keeps ${counted(data.tree.retained[i], "byte", "bytes")} alive`;

  let zoomed = -1;
  let wanted = "";
  const hits = (type) => wanted !== "" && data.types.name[type].toLowerCase().includes(wanted);

  const draw = () => {
    const chart = byId("chart");
    const width = chart.clientWidth || 1000;
    const boxes = [];
    const above = [];
    for (let i = zoomed; i >= 0; i = data.tree.parent[i]) above.unshift(i);
    above.forEach((i, level) => boxes.push({ i, level, left: 0, wide: width, above: i !== zoomed }));
    const waiting = [];
    const spread = (children, left, wide, total, level) => {
      let at = left;
      for (const i of children) {
        const own = total > 0 ? (wide * data.tree.retained[i]) / total : 0;
        if (own >= PIXELS) waiting.push({ i, level, left: at, wide: own });
        at += own;
      }
    };
    if (zoomed < 0) spread(tops, 0, width, tops.reduce((sum, i) => sum + data.tree.retained[i], 0), 0);
    else spread(below[zoomed], 0, width, data.tree.retained[zoomed], above.length);
    for (let at = 0; at < waiting.length && boxes.length < DRAWN; at++) {
      const box = waiting[at];
      boxes.push(box);
      if (box.level < above.length + LEVELS) spread(below[box.i], box.left, box.wide, data.tree.retained[box.i], box.level + 1);
    }
    const made = document.createDocumentFragment();
    let deepest = 0;
    for (const box of boxes) {
      const type = data.tree.type[box.i];
      const one = make("button", box.wide > 30 ? name(type) : "");
      one.type = "button";
      one.style.left = `${box.left}px`;
      one.style.width = `${Math.max(box.wide - 1, 1)}px`;
      one.style.top = `${box.level * ROW}px`;
      one.style.background = colour(type);
      if (hits(type)) one.classList.add("hit");
      if (box.above) one.classList.add("above");
      one.title = told(box.i);
      one.setAttribute("aria-label", one.title);
      one.dataset.place = box.i;
      made.append(one);
      deepest = Math.max(deepest, box.level);
    }
    chart.replaceChildren(made);
    chart.style.height = `${(deepest + 1) * ROW}px`;
    byId("box").textContent = zoomed < 0 ? "" : told(zoomed);
  };

  const zoom = (place) => {
    zoomed = place;
    draw();
  };
  byId("chart").addEventListener("click", (event) => {
    const box = event.target.closest("button");
    if (box) zoom(Number(box.dataset.place));
  });
  byId("reset").addEventListener("click", () => zoom(-1));

  const ways = (type) => {
    byId("of").textContent = `Why ${name(type)} is alive`;
    const found = data.paths[type] || [];
    const list = byId("list");
    list.replaceChildren();
    if (!found.length) list.append(make("p", "The page has the ways to the types that keep most alive only: dotnetdiag gcdump paths has all."));
    for (const way of found) {
      list.append(make("p", `${counted(way.count, "object", "objects")}, ${counted(way.bytes, "byte", "bytes")}${way.shortest ? "" : ", another way"}`));
      const steps = make("ol");
      way.path.forEach((step, level) => {
        const line = make("li", step.slice(0, LONGEST));
        line.style.paddingLeft = `${Math.min(level, 30) * 12}px`;
        steps.append(line);
      });
      list.append(steps);
    }
    byId("ways").hidden = false;
  };

  const fill = () => {
    const rows = document.createDocumentFragment();
    let listed = 0;
    let all = 0;
    for (const type of data.types.order) {
      if (wanted !== "" && !hits(type)) continue;
      all++;
      if (listed >= LISTED) continue;
      listed++;
      const row = make("tr");
      for (const column of ["bytes", "count", "retained"]) row.append(make("td", number(data.types[column][type]), "n"));
      const cell = make("td");
      const link = make("button", name(type));
      link.type = "button";
      link.addEventListener("click", () => ways(type));
      cell.append(link);
      if (data.types.module[type]) cell.append(" ", make("small", data.types.module[type]));
      row.append(cell);
      rows.append(row);
    }
    byId("rows").replaceChildren(rows);
    byId("said").textContent = wanted === "" ? "" : counted(all, "type matches", "types match");
  };

  byId("search").addEventListener("input", (event) => {
    wanted = event.target.value.trim().toLowerCase();
    draw();
    fill();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && zoomed >= 0) zoom(data.tree.parent[zoomed]);
    else if (event.key === "/" && document.activeElement !== byId("search")) {
      byId("search").focus();
      event.preventDefault();
    }
  });
  addEventListener("resize", draw);

  document.title = data.title;
  byId("title").textContent = data.title;
  byId("facts").textContent = data.facts.join(" · ");
  fill();
  draw();
})();
