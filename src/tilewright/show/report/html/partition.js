// A, B and C in blocks: what one block of threads loads in each step.
"use strict";

(function () {
  const values = valuesOf("partition");
  if (!values) return;
  const root = document.getElementById("partition");
  const picture = root.querySelector(".picture");
  const [m, n, k] = values.extents;
  const [bm, bn, bk] = values.tile;
  const GAP = 22; // between matrices, for their names
  const state = { block: values.blocks.length - 1, step: 0, width: 0, timer: 0 };
  const does = (name) => root.querySelector(`[data-do="${name}"]`);
  const now = () => values.blocks[state.block];

  // The place of each matrix: B is above C, A at its left.
  function layout(width) {
    const unit = Math.min((width - GAP - 4) / (k + n), 620 / (k + m));
    const x = k * unit + GAP + 2, y = k * unit + 2 * GAP;
    return {
      unit, width: x + n * unit + 2, height: y + m * unit + 2,
      A: { x: 2, y, rows: m, columns: k, high: bm, wide: bk },
      B: { x, y: GAP, rows: k, columns: n, high: bk, wide: bn },
      C: { x, y, rows: m, columns: n, high: bm, wide: bn },
    };
  }

  function fill(svg, at, unit, [row, column, high, wide], attributes) {
    svg.append(drawn("rect", {
      x: at.x + column * unit, y: at.y + row * unit, width: wide * unit, height: high * unit, ...attributes,
    }));
  }

  // A matrix's frame and the cuts between its blocks.
  function cuts(svg, at, unit) {
    const wide = at.columns * unit, high = at.rows * unit;
    fill(svg, at, unit, [0, 0, at.rows, at.columns], { fill: "none", stroke: colour("quiet") });
    let path = "";
    for (let row = at.high; row < at.rows; row += at.high) path += `M${at.x},${at.y + row * unit}h${wide}`;
    for (let column = at.wide; column < at.columns; column += at.wide)
      path += `M${at.x + column * unit},${at.y}v${high}`;
    svg.append(drawn("path", { d: path, stroke: colour("quiet"), fill: "none" }));
  }

  // The name of a matrix, and the names of its blocks if there is room.
  function names(svg, name, at, unit) {
    const long = at.columns * unit > 90 ? `, ${at.rows} \u00d7 ${at.columns}` : "";
    svg.append(drawn("text", { x: at.x, y: at.y - 6, fill: colour("quiet"), "font-size": 13 }, name + long));
    for (let row = 0; row < at.rows && at.high * unit > 18; row += at.high) {
      for (let column = 0; column < at.columns && at.wide * unit > 26; column += at.wide) {
        const high = Math.min(at.high, at.rows - row), wide = Math.min(at.wide, at.columns - column);
        if (wide * unit < 26 || high * unit < 18) continue;
        const label = drawn("text", {
          x: at.x + (column + wide / 2) * unit, y: at.y + (row + high / 2) * unit + 5, fill: colour("ink"),
          "font-size": 14, "text-anchor": "middle", "pointer-events": "none",
        }, name);
        label.append(drawn("tspan", { "font-size": 10, dy: 3 }, subscript(row / at.high, column / at.wide)));
        svg.append(label);
      }
    }
  }

  function subscript(row, column) {
    const both = [Math.floor(row) + 1, Math.floor(column) + 1];
    return both.join(both.some((one) => one > 9) ? "," : "");
  }

  // Blocks that earlier steps loaded are light, those that this step loads are dark.
  function loads(svg, place) {
    ["A", "B"].forEach((name, which) => {
      now().steps.slice(0, state.step + 1).forEach((step, number) => {
        const current = number === state.step;
        const paint = { fill: colour(which ? "line-1" : "line-0"), "fill-opacity": current ? 0.75 : 0.2 };
        paint["data-step"] = current ? "now" : "before";
        for (const one of step[which].rectangles) fill(svg, place[name], place.unit, one, paint);
      });
    });
    const part = (state.step + 1) / Math.max(1, now().steps.length);
    const sum = { fill: colour("line-2"), "fill-opacity": 0.1 + 0.6 * part };
    for (const one of now().stored.rectangles) fill(svg, place.C, place.unit, one, sum);
  }

  // A block of C can be chosen if its loads were recorded.
  function choices(svg, place) {
    values.blocks.forEach((one, number) => {
      const [row, column] = one.at;
      const high = Math.min(bm, m - row * bm), wide = Math.min(bn, n - column * bn);
      fill(svg, place.C, place.unit, [row * bm, column * bn, high, wide], {
        fill: "transparent", cursor: "pointer", stroke: colour("ink"), "stroke-width": number === state.block ? 3 : 0,
      });
      svg.lastChild.addEventListener("click", () => choose(number));
    });
  }

  function draw(width = state.width) {
    state.width = width;
    const place = layout(width);
    const svg = drawing(place.width, place.height);
    loads(svg, place);
    for (const name of ["A", "B", "C"]) {
      cuts(svg, place[name], place.unit);
      names(svg, name, place[name], place.unit);
    }
    choices(svg, place);
    picture.replaceChildren(svg);
    say();
  }

  // The blocks of a matrix that rectangles touch, as "row column".
  function touched(rectangles, high, wide) {
    const found = new Set();
    for (const [row, column, tall, broad] of rectangles) {
      for (let r = Math.floor(row / high); r * high < row + tall; r++) {
        for (let c = Math.floor(column / wide); c * wide < column + broad; c++) found.add(`${r} ${c}`);
      }
    }
    return [...found].map((one) => one.split(" ").map(Number));
  }

  function named(name, [row, column]) {
    const whole = element("span", {}, name);
    whole.append(element("sub", {}, subscript(row, column)));
    return whole;
  }

  // A31 B13: the pairs of blocks that a step loaded and that fit together.
  function term(step, when) {
    const whole = element("span", { class: when }), right = touched(step[1].rectangles, bk, bn);
    for (const a of touched(step[0].rectangles, bm, bk)) {
      for (const b of right.filter((one) => one[0] === a[1])) {
        whole.append(whole.childNodes.length ? " + " : "", named("A", a), "\u00b7", named("B", b));
      }
    }
    return whole.childNodes.length ? whole : "\u2026";
  }

  // C33 = A31 B13 + A32 B23: one term per step; of many steps, those around this one, the first and the last.
  function formula() {
    const line = root.querySelector(".formula"), last = now().steps.length - 1;
    line.replaceChildren(named("C", now().at), " = ");
    now().steps.forEach((step, number) => {
      const near = Math.abs(number - state.step);
      if (last > 15 && near > 4 && number > 0 && number < last) {
        if (near === 5) line.append(" + \u2026");
        return;
      }
      const when = number === state.step ? "now" : number > state.step ? "later" : "done";
      line.append(number ? " + " : "", term(step, when));
    });
  }

  function say() {
    formula();
    const step = now().steps[state.step];
    const words = step ? ["A", "B"].map((name, which) => {
      const { elements, asked } = step[which];
      const often = asked > elements ? `, asked for ${(asked / elements).toFixed(1).replace(".0", "")} times each` : "";
      return `${elements.toLocaleString("en")} of ${name}${often}`;
    }) : ["nothing"];
    root.querySelector(".status").textContent =
      `Step ${state.step + 1} of ${now().steps.length} loads elements: ${words.join("; ")}.`;
    does("block").value = String(state.block);
  }

  function go(step) {
    state.step = clamp(step, 0, now().steps.length - 1);
    draw();
  }

  function choose(block) {
    state.block = clamp(block, 0, values.blocks.length - 1);
    go(state.step);
  }

  function play() {
    const button = does("play");
    if (state.timer) {
      clearInterval(state.timer);
      state.timer = 0;
    } else {
      if (state.step >= now().steps.length - 1) go(0);
      state.timer = setInterval(() => (state.step < now().steps.length - 1 ? go(state.step + 1) : play()), 900);
    }
    button.setAttribute("aria-pressed", String(Boolean(state.timer)));
  }

  offer(does("block"), values.blocks.map((one, number) => [number, one.at.map((at) => at + 1).join(", ")]));
  does("block").addEventListener("change", (event) => choose(Number(event.target.value)));
  does("first").addEventListener("click", () => go(0));
  does("back").addEventListener("click", () => go(state.step - 1));
  does("on").addEventListener("click", () => go(state.step + 1));
  does("play").addEventListener("click", play);
  onArrows(picture, {
    ArrowRight: () => go(state.step + 1), ArrowLeft: () => go(state.step - 1), Home: () => go(0),
    ArrowDown: () => choose(state.block + 1), ArrowUp: () => choose(state.block - 1),
    End: () => go(now().steps.length - 1),
  });
  onWidth(picture, draw);
})();
