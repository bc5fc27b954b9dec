// The lanes of a warp over the banks of shared memory, or over the sectors of global memory.
"use strict";

(function () {
  const values = valuesOf("lanes");
  if (!values || !values.sites.length) return;
  const root = document.getElementById("lanes");
  const picture = root.querySelector(".picture");
  const LANES = 32, WORD = 4, SECTOR = 32, LINE = 128;
  const state = { site: 0, run: 0, lane: 0, width: 0 };
  const does = (name) => root.querySelector(`[data-do="${name}"]`);
  const site = () => values.sites[state.site];
  const run = () => site().runs[state.run];
  const isShared = () => site().space === "shared";

  // The chosen execution: its warp, and for each active lane the address and, in shared memory, the wavefront.
  function current() {
    const [warp, base, number, amount, ideal] = run();
    const [offsets, waves] = values.patterns[number];
    const lanes = offsets.map((offset, lane) => ({ lane, at: offset < 0 ? null : base + offset, wave: waves[lane] }));
    return { warp, amount, ideal, lanes, on: lanes.filter((one) => one.at !== null) };
  }

  // Accesses of 8 and 16 bytes a lane go to shared memory in halves and quarters of the warp.
  const groupOf = (lane) => Math.floor((lane * Math.max(WORD, site().bytes)) / LINE);

  const wordsOf = (at) => {
    const first = Math.floor(at / WORD), many = Math.max(1, site().bytes / WORD);
    return Array.from({ length: many }, (_, number) => first + number);
  };

  // -- rows of 32 words ---------------------------------------------------------------------------------------------

  // A row: its name, the lanes in each of 32 cells, and the colour of each cell.
  function bankRows(seen) {
    const words = new Map(); // bank -> the words that lanes access in it, by group of lanes
    for (const one of seen.on) {
      for (const word of wordsOf(one.at)) {
        const key = `${groupOf(one.lane)} ${word % LANES}`;
        words.set(key, (words.get(key) || new Set()).add(word));
      }
    }
    const rows = Array.from({ length: seen.amount }, (_, wave) => ({
      name: nameOfWave(seen, wave), short: String(wave + 1),
      cells: Array.from({ length: LANES }, () => ({ lanes: [], paint: "" })),
    }));
    for (const one of seen.on) {
      for (const word of wordsOf(one.at)) {
        const cell = rows[one.wave].cells[word % LANES];
        cell.lanes.push(one.lane);
        cell.paint = words.get(`${groupOf(one.lane)} ${word % LANES}`).size > 1 ? "bad" : "accent";
      }
    }
    return rows;
  }

  function nameOfWave(seen, wave) {
    const group = groupOf(seen.on.find((one) => one.wave === wave).lane), wide = LINE / Math.max(WORD, site().bytes);
    const some = wide < LANES ? `, of lanes ${group * wide} to ${group * wide + wide - 1}` : "";
    return `wavefront ${wave + 1}${some}`;
  }

  // Lines of 128 bytes: words that lanes use, and the unused words of the same sectors.
  function lineRows(seen) {
    const rows = new Map();
    for (const one of [...seen.on].sort((a, b) => a.at - b.at)) {
      for (const word of wordsOf(one.at)) {
        const line = Math.floor((word * WORD) / LINE), inLine = word - (line * LINE) / WORD;
        if (!rows.has(line)) {
          rows.set(line, {
            name: nameOf(line * LINE), short: nameOf(line * LINE),
            cells: Array.from({ length: LANES }, () => ({ lanes: [], paint: "" })),
          });
        }
        const cells = rows.get(line).cells, start = Math.floor(inLine / 8) * 8;
        for (let at = start; at < start + 8; at++) cells[at].paint = cells[at].paint || "waste";
        cells[inLine].lanes.push(one.lane);
        cells[inLine].paint = "accent";
      }
    }
    return [...rows.values()];
  }

  // The array element at an address: the index along the longest stride first.
  function nameOf(at) {
    for (const [name, start, shape, strides, bytes] of values.operands) {
      const axes = [...shape.keys()].sort((a, b) => strides[b] - strides[a]), index = [];
      let left = at - start;
      for (const axis of axes) {
        index[axis] = Math.floor(left / strides[axis]);
        left -= index[axis] * strides[axis];
      }
      if (left < bytes && index.every((one, axis) => one >= 0 && one < shape[axis]))
        return `${name}[${index.join(", ")}]`;
    }
    return `0x${at.toString(16)}`;
  }

  // -- drawing ------------------------------------------------------------------------------------------------------

  const GAP = 5; // between groups of 8 cells

  // The layout of rows: names are above them, or at their left if there are many; cells are in one line or two.
  function layout(width, rows) {
    const compact = rows.length > 8, left = compact ? Math.max(...rows.map((row) => row.short.length)) * 7 + 10 : 0;
    const columns = width < 560 ? LANES / 2 : LANES;
    const wide = (width - left - (columns / 8 - 1) * GAP) / columns;
    return {
      columns, wide, left, tall: compact ? 21 : 26, label: compact ? 0 : 16, after: compact ? 1 : 6,
      x: (number) => left + (number % columns) * wide + Math.floor((number % columns) / 8) * GAP,
      down: (number) => Math.floor(number / columns),
    };
  }

  function box(svg, x, y, wide, tall, { lanes, paint }, chosen) {
    const looks = {
      bad: { fill: colour("bad") }, accent: { fill: colour("accent") },
      waste: { fill: colour("bad"), "fill-opacity": 0.2 }, "": { fill: colour("panel") },
    }[paint];
    const part = drawn("rect", { x: x + 0.5, y: y + 0.5, width: wide - 2, height: tall - 3, rx: 2, ...looks });
    if (lanes.length) part.append(drawn("title", {}, `lanes ${lanes.join(", ")}`));
    svg.append(part);
    if (chosen) part.setAttribute("stroke", colour("ink"));
    if (chosen) part.setAttribute("stroke-width", 2.5);
    if (!lanes.length) return;
    const words = lanes.length === 1 ? String(lanes[0]) : `\u00d7${lanes.length}`;
    const size = Math.min(12, (wide - 2) / (words.length * 0.58));
    const off = paint === "" ? colour("quiet") : colour("ground");
    svg.append(drawn("text", {
      x: x + wide / 2, y: y + tall / 2 - 1 + size * 0.34, fill: off, "font-size": size, "text-anchor": "middle",
      "pointer-events": "none",
    }, words));
  }

  // A row of cells; returns where the next one begins.
  function rowOf(svg, y, place, row, isChosen) {
    const base = place.label ? y + 12 : y + 14;
    const label = place.label ? row.name : row.short;
    svg.append(drawn("text", { x: 0, y: base, fill: colour("quiet"), "font-size": 12 }, label));
    row.cells.forEach((cell, number) => {
      const top = y + place.label + place.down(number) * place.tall;
      box(svg, place.x(number), top, place.wide, place.tall, cell, isChosen(cell, number));
    });
    return y + place.label + (LANES / place.columns) * place.tall + place.after;
  }

  function scale(svg, y, place) {
    const narrow = place.columns < LANES;
    for (let number = 0; number < LANES; number += narrow ? 2 : 1) {
      svg.append(drawn("text", {
        x: place.x(number) + place.wide / 2, y: y + 11 + place.down(number) * 13, fill: colour("quiet"),
        "font-size": 10, "text-anchor": "middle",
      }, number));
    }
    return y + (LANES / place.columns) * 13 + 8;
  }

  // The colours of the warp's lanes: each has that of its word below.
  function warpRow(seen, rows) {
    const paint = (one) => (one.at === null ? "" : cellOf(rows, one.lane).paint);
    return { name: "lanes of the warp", cells: seen.lanes.map((one) => ({ lanes: [one.lane], paint: paint(one) })) };
  }

  function draw(width = state.width) {
    state.width = width;
    const seen = current(), rows = isShared() ? bankRows(seen) : lineRows(seen);
    const chosen = seen.lanes[state.lane], place = layout(width, rows);
    const svg = drawing(width, 10);
    let y = rowOf(svg, 0, layout(width, []), warpRow(seen, rows), (_, number) => number === state.lane);
    [...svg.querySelectorAll("rect")].forEach((one, lane) => one.addEventListener("click", () => pick(lane)));
    svg.append(drawn("text", { x: 0, y: y + 18, fill: colour("ink"), "font-size": 13, "font-weight": "bold" },
      isShared() ? "a row a wavefront, over the 32 banks" : "a row a line of 128 bytes, of 4 sectors"));
    y += 24;
    if (isShared()) y = scale(svg, y, place);
    const marked = (cell) => chosen.at !== null && cell.lanes.includes(state.lane);
    for (const row of rows) y = rowOf(svg, y, place, row, marked);
    svg.setAttribute("viewBox", `0 0 ${width} ${y}`);
    svg.setAttribute("height", y);
    picture.replaceChildren(svg);
    say(seen, rows);
  }

  const cellOf = (rows, lane) => rows.flatMap((row) => row.cells).find((cell) => cell.lanes.includes(lane));

  // -- words --------------------------------------------------------------------------------------------------------

  function say(seen, rows) {
    const what = isShared() ? "wavefront" : "sector";
    const line = root.querySelector(".status"), [requests, all, ideal] = site().all;
    const some = element("b", { class: seen.amount > seen.ideal ? "bad" : "" }, counted(seen.amount, what));
    const would = seen.amount > seen.ideal ? `, where ${seen.ideal} would do` : "";
    line.replaceChildren(`${counted(seen.on.length, "lane")} on: `, some,
      `${would}. All ${requests.toLocaleString("en")} ` +
      `requests of the launch: ${counted(all, what)}, at least ${ideal.toLocaleString("en")}.`);
    root.querySelector(".lane").textContent = ofLane(seen, rows);
    const same = site().runs.filter((one) => one[0] === seen.warp), number = same.indexOf(run()) + 1;
    root.querySelector(".which").textContent = `execution ${number} of ${same.length}${site().left ? " kept" : ""}`;
  }

  function ofLane(seen, rows) {
    const one = seen.lanes[state.lane];
    if (one.at === null) return `Lane ${one.lane} is off.`;
    const lanes = (cell) => cell.lanes.filter((other) => other !== one.lane);
    if (!isShared()) {
      const others = lanes(cellOf(rows, one.lane));
      const shared = others.length ? `, with lanes ${others.join(", ")}` : "";
      return `Lane ${one.lane} reads or writes ${nameOf(one.at)}, byte ${one.at % SECTOR} of its sector${shared}.`;
    }
    const bank = wordsOf(one.at)[0] % LANES, mine = cellOf(rows, one.lane);
    const others = rows.map((row) => row.cells[bank]).filter((cell) => cell !== mine).flatMap((cell) => cell.lanes);
    const rivals = others.filter((lane) => groupOf(lane) === groupOf(one.lane));
    const served = lanes(mine).length ? `, served with lanes ${lanes(mine).join(", ")}, which want the same word` : "";
    const waits = mine.paint === "bad" ? `; lanes ${rivals.join(", ")} want other words of this bank` : "";
    return `Lane ${one.lane} is at byte ${one.at} of shared memory: bank ${bank}, ` +
      `wavefront ${one.wave + 1}${served}${waits}.`;
  }

  // -- choosing -----------------------------------------------------------------------------------------------------

  function pick(lane) {
    state.lane = (lane + LANES) % LANES;
    draw();
  }

  function go(to) {
    const warp = run()[0], mine = site().runs.flatMap((one, number) => (one[0] === warp ? [number] : []));
    state.run = mine[clamp(mine.indexOf(state.run) + to, 0, mine.length - 1)];
    draw();
  }

  function take(number) {
    state.site = number;
    state.run = 0;
    const warps = [...new Set(site().runs.map((one) => one[0]))];
    offer(does("warp"), warps.map((warp) => [warp, warp]));
    does("site").value = String(number);
    draw();
  }

  function chooseLine(at) {
    const found = values.sites.flatMap((one, number) => (one.at === at ? [number] : []));
    offer(does("site"), found.map((number, place) => {
      const one = values.sites[number], [requests, all] = one.all;
      const each = (all / requests).toFixed(1).replace(".0", "");
      const of = one.space === "shared" ? "" : ` of ${nameOf(one.runs[0][1]).split("[")[0]}`;
      const which = found.length > 1 ? `${place + 1}. ` : "";
      const unit = one.space === "shared" ? "wavefronts" : "sectors";
      return [number, `${which}${one.opcode}${of}: ${each} ${unit} a request`];
    }));
    for (const button of root.querySelectorAll("[data-at]")) {
      const row = button.closest("tr"), isIt = button.dataset.at === at;
      row.classList.toggle("chosen", isIt);
      button.setAttribute("aria-pressed", String(isIt));
      if (isIt) show(row);
    }
    take(found.reduce((best, one) => (waste(one) > waste(best) ? one : best)));
  }

  // Scrolls only the listing, and only if a line is out of sight.
  function show(row) {
    const list = root.querySelector(".listing"), head = list.querySelector("thead").offsetHeight;
    const above = row.offsetTop - head < list.scrollTop;
    const below = row.offsetTop + 40 > list.scrollTop + list.clientHeight;
    if (above || below) list.scrollTop = row.offsetTop - list.clientHeight / 2;
  }

  // An access's cost above the least possible; if none has such a cost, its number of requests counts.
  function waste(number) {
    const [requests, all, ideal] = values.sites[number].all;
    return all - ideal + requests / 1e9;
  }

  for (const button of root.querySelectorAll("[data-at]")) {
    button.addEventListener("click", () => chooseLine(button.dataset.at));
  }
  does("site").addEventListener("change", (event) => take(Number(event.target.value)));
  does("warp").addEventListener("change", (event) => {
    state.run = site().runs.findIndex((one) => one[0] === Number(event.target.value));
    draw();
  });
  does("back").addEventListener("click", () => go(-1));
  does("on").addEventListener("click", () => go(1));
  onArrows(picture, {
    ArrowRight: () => go(1), ArrowLeft: () => go(-1), ArrowDown: () => pick(state.lane + 1),
    ArrowUp: () => pick(state.lane - 1),
  });
  state.width = picture.clientWidth || 600;
  const worst = [...values.sites.keys()].reduce((best, one) => (waste(one) > waste(best) ? one : best));
  chooseLine(values.sites[worst].at);
  onWidth(picture, draw);
})();
